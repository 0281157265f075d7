//! Remembers the chunks of files by path and state, so that an unchanged file costs a stat.
//!
//! An entry is made only when [`super::stat_trust`] allows it; see there for why a state
//! that is the same does not always mean content that is the same. Extended attributes are
//! remembered too, since asking for them takes longer than the stat: setting one changes
//! the ctime, as writing does.

use std::collections::HashMap;

use super::walk::{FileState, Xattrs};
use crate::format::{
    Result,
    bytes::{Put, Reader},
    tree::{Extent, MAX_INLINE_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_XATTR_BYTES, Time},
};
use crate::id::ChunkId;

const PREFIX: &[u8] = b"pstore/stat/2\n";

/// What was known of the files below one directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StatCache {
    files: HashMap<Vec<u8>, Known>,
}

#[derive(Debug, PartialEq, Eq)]
struct Known {
    state: FileState,
    /// Unless nobody made sure that they belong to the state.
    xattrs: Option<Xattrs>,
    extents: Vec<Extent>,
}

impl StatCache {
    pub fn with_capacity(files: usize) -> Self {
        Self { files: HashMap::with_capacity(files) }
    }

    /// The extents of the file at `path`, if its state is the one remembered.
    pub fn extents(&self, path: &[u8], state: &FileState) -> Option<&[Extent]> {
        self.known(path, state).map(|known| known.extents.as_slice())
    }

    /// The extended attributes of the file at `path`, if its state is the one remembered.
    pub fn xattrs(&self, path: &[u8], state: &FileState) -> Option<&Xattrs> {
        self.known(path, state)?.xattrs.as_ref()
    }

    fn known(&self, path: &[u8], state: &FileState) -> Option<&Known> {
        self.files.get(path).filter(|known| known.state == *state)
    }

    pub fn insert(&mut self, path: &[u8], state: FileState, xattrs: Option<Xattrs>, extents: Vec<Extent>) {
        self.files.insert(path.to_vec(), Known { state, xattrs, extents });
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = PREFIX.to_vec();
        out.put_varint(self.files.len() as u64);
        for (path, Known { state, xattrs, extents }) in &self.files {
            out.put_bytes(path);
            out.put_varint(state.device);
            out.put_varint(state.inode);
            out.put_varint(state.size);
            for time in [state.mtime, state.ctime] {
                out.put_signed(time.seconds);
                out.put_varint(time.nanos.into());
            }
            out.put_varint(xattrs.as_ref().map_or(0, |xattrs| xattrs.len() as u64 + 1));
            for (name, value) in xattrs.iter().flatten() {
                out.put_bytes(name);
                out.put_bytes(value);
            }
            out.put_varint(extents.len() as u64);
            for extent in extents {
                match extent {
                    Extent::Hole(len) => out.put_varint(len << 2),
                    Extent::Chunk { id, len } => {
                        out.put_varint(u64::from(*len) << 2 | 1);
                        out.extend_from_slice(id.as_bytes());
                    }
                    Extent::Inline(bytes) => {
                        out.put_varint(2);
                        out.put_bytes(bytes);
                    }
                }
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.expect(PREFIX, "a cache of file states")?;
        let mut files = HashMap::with_capacity(reader.count(1, "files")?);
        while !reader.is_empty() {
            let path = reader.bytes(MAX_PATH_BYTES, "a path")?.to_vec();
            let (device, inode, size) = (reader.varint()?, reader.varint()?, reader.varint()?);
            let (mtime, ctime) = (read_time(&mut reader)?, read_time(&mut reader)?);
            let xattrs = match reader.count(1, "extended attributes")? {
                0 => None,
                count => Some((1..count).map(|_| read_xattr(&mut reader)).collect::<Result<_>>()?),
            };
            let count = reader.count(1, "extents")?;
            let extents = (0..count).map(|_| read_extent(&mut reader)).collect::<Result<_>>()?;
            let state = FileState { device, inode, size, mtime, ctime };
            files.insert(path, Known { state, xattrs, extents });
        }
        Ok(Self { files })
    }
}

fn read_time(reader: &mut Reader<'_>) -> Result<Time> {
    Ok(Time { seconds: reader.signed()?, nanos: reader.bounded(999_999_999, "nanoseconds")? as u32 })
}

fn read_xattr(reader: &mut Reader<'_>) -> Result<(Vec<u8>, Vec<u8>)> {
    let name = reader.bytes(MAX_NAME_BYTES, "an attribute's name")?.to_vec();
    Ok((name, reader.bytes(MAX_XATTR_BYTES, "an attribute")?.to_vec()))
}

fn read_extent(reader: &mut Reader<'_>) -> Result<Extent> {
    let head = reader.varint()?;
    Ok(match head & 3 {
        0 => Extent::Hole(head >> 2),
        1 => Extent::Chunk { len: (head >> 2) as u32, id: ChunkId::from_bytes(reader.array()?) },
        _ => Extent::Inline(reader.bytes(MAX_INLINE_BYTES, "inline bytes")?.to_vec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_asks_for_the_whole_state() {
        let state = FileState {
            device: 1,
            inode: 2,
            size: 3,
            mtime: Time { seconds: -4, nanos: 5 },
            ctime: Time { seconds: 6, nanos: 7 },
        };
        let extents = vec![
            Extent::Hole(9),
            Extent::Chunk { id: ChunkId::from_bytes([1; 32]), len: 70_000 },
            Extent::Inline(b"tiny".to_vec()),
        ];
        let mut cache = StatCache::default();
        let xattrs = vec![(b"user.a".to_vec(), b"1".to_vec())];
        cache.insert(b"a\xff", state, Some(xattrs.clone()), extents.clone());
        cache.insert(b"none", state, Some(Vec::new()), Vec::new());
        cache.insert(b"unsure", state, None, Vec::new());
        let again = StatCache::decode(&cache.encode()).unwrap();
        assert_eq!(again, cache);
        assert_eq!(again.extents(b"a\xff", &state), Some(&extents[..]));
        assert_eq!(again.extents(b"b", &state), None);
        assert_eq!(again.xattrs(b"a\xff", &state), Some(&xattrs));
        assert_eq!(again.xattrs(b"none", &state), Some(&Vec::new()));
        assert_eq!(again.xattrs(b"unsure", &state), None);
        assert_eq!(again.xattrs(b"none", &FileState { size: 9, ..state }), None);
        for changed in [
            FileState { device: 9, ..state },
            FileState { inode: 9, ..state },
            FileState { size: 9, ..state },
            FileState { mtime: Time { seconds: -4, nanos: 6 }, ..state },
            FileState { ctime: Time { seconds: 6, nanos: 8 }, ..state },
        ] {
            assert_eq!(again.extents(b"a\xff", &changed), None);
        }
        let mut cache = StatCache::default();
        cache.insert(b"a", state, Some(xattrs), extents);
        let bytes = cache.encode();
        for len in PREFIX.len() + 1..bytes.len() {
            StatCache::decode(&bytes[..len]).unwrap_err();
        }
    }
}
