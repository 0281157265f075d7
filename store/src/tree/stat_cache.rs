//! `StatCacheWriter` and `StatCacheReader` remember the chunks of files by path and state, so that an unchanged file
//! costs a stat.
//!
//! An entry is made only when [`super::stat_trust`] allows it; see there for why a state
//! that is the same does not always mean content that is the same. Extended attributes are
//! remembered too: setting one changes the ctime, as writing does.
//!
//! The entries have the order of a tree, so both go through them once, beside a walk. They lie in blocks, each with
//! its digest: what comes after a damaged one is not known, and that costs time and nothing else.

use std::io::{self, Read, Write};

use super::{
    codec::{put_extents, put_path, put_state, put_xattrs, read_extents, read_path, read_state, read_xattrs},
    walk::FileState,
    xattrs::Xattrs,
};
use crate::format::{
    FormatError, Result,
    bytes::Reader,
    tree::{Extent, TreePath, in_order},
};

const PREFIX: &[u8] = b"pstore/stat/3\n";
/// A block ends with the entry that makes it so long.
const BLOCK_BYTES: usize = 256 << 10;
const DIGEST_LEN: usize = 32;

/// What was known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Its path below the directory.
    pub path: Vec<u8>,
    pub state: FileState,
    pub xattrs: Xattrs,
    pub extents: Vec<Extent>,
}

/// Writes what is known of the files below one directory.
#[derive(Debug)]
pub(crate) struct StatCacheWriter<W> {
    out: W,
    block: Vec<u8>,
    previous: Vec<u8>,
}

impl<W: Write> StatCacheWriter<W> {
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(PREFIX)?;
        Ok(Self { out, block: Vec::new(), previous: Vec::new() })
    }

    /// Adds a file, which comes after all that were added.
    pub fn push(
        &mut self,
        path: &TreePath,
        state: &FileState,
        xattrs: &Xattrs,
        extents: &[Extent],
    ) -> io::Result<()> {
        put_path(&mut self.block, &mut self.previous, path.as_bytes());
        put_state(&mut self.block, state);
        put_xattrs(&mut self.block, xattrs);
        put_extents(&mut self.block, extents);
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.end_block()?;
        Ok(self.out)
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.out.write_all(&(self.block.len() as u64).to_le_bytes())?;
        self.out.write_all(blake3::hash(&self.block).as_bytes())?;
        self.out.write_all(&self.block)?;
        self.block.clear();
        self.previous.clear();
        Ok(())
    }
}

/// Reads it again, from the first file to the last.
#[derive(Debug)]
pub(crate) struct StatCacheReader<R> {
    /// `None` if there is nothing more to be had.
    source: Option<R>,
    block: Vec<u8>,
    /// How much of the block was read.
    read: usize,
    /// The file that was read last, unless all were.
    current: Option<Known>,
}

impl<R: Read> StatCacheReader<R> {
    /// Of what is not such a file, or is one of another version, nothing is known.
    pub fn new(source: Option<R>) -> Self {
        let begins_well = |mut source: R| {
            let mut prefix = [0; PREFIX.len()];
            source.read_exact(&mut prefix).ok()?;
            (prefix == PREFIX).then_some(source)
        };
        let mut reader =
            Self { source: source.and_then(begins_well), block: Vec::new(), read: 0, current: None };
        reader.advance();
        reader
    }

    /// What is known of the file at `path`, which must come after all that were asked for.
    pub fn find(&mut self, path: &TreePath) -> Option<&mut Known> {
        while self.current.as_ref().is_some_and(|known| in_order(&known.path, path.as_bytes()).is_lt()) {
            self.advance();
        }
        self.current.as_mut().filter(|known| known.path == path.as_bytes())
    }

    fn advance(&mut self) {
        let previous = self.current.take();
        if self.read == self.block.len() && !self.next_block() {
            return;
        }
        let before = previous.map(|known| known.path).unwrap_or_default();
        match self.decode(before) {
            Ok(known) => self.current = Some(known),
            Err(error) => {
                tracing::warn!(%error, "the rest of a cache of file states is useless");
                (self.source, self.read) = (None, self.block.len());
            }
        }
    }

    fn decode(&mut self, before: Vec<u8>) -> Result<Known> {
        let mut reader = Reader::new(&self.block[self.read..]);
        // The first path of a block shares nothing with the one before.
        let mut path = if self.read == 0 { Vec::new() } else { before.clone() };
        read_path(&mut reader, &mut path)?;
        if in_order(&before, &path).is_ge() {
            return Err(FormatError::malformed("file states out of order"));
        }
        let (state, xattrs) = (read_state(&mut reader)?, read_xattrs(&mut reader)?);
        let extents = read_extents(&mut reader)?;
        self.read = self.block.len() - reader.remaining();
        Ok(Known { path, state, xattrs, extents })
    }

    /// Whether there is one more.
    fn next_block(&mut self) -> bool {
        (self.read, self.block) = (0, std::mem::take(&mut self.block));
        self.block.clear();
        let Some(source) = &mut self.source else { return false };
        let (mut len, mut digest) = ([0; 8], [0; DIGEST_LEN]);
        let len = match source.read_exact(&mut len) {
            Ok(()) => u64::from_le_bytes(len),
            Err(_) => return false,
        };
        let got = source.read_exact(&mut digest).and_then(|()| source.take(len).read_to_end(&mut self.block));
        let is_whole =
            got.is_ok_and(|got| got as u64 == len) && *blake3::hash(&self.block).as_bytes() == digest;
        if !is_whole {
            tracing::warn!("a block of a cache of file states is damaged");
            self.source = None;
            self.block.clear();
        }
        !self.block.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::tree::Time, id::ChunkId};

    fn state(inode: u64) -> FileState {
        FileState {
            device: 1,
            inode,
            size: 3,
            mtime: Time { seconds: -4, nanos: 5 },
            ctime: Time { seconds: 6, nanos: 7 },
        }
    }

    fn extents() -> Vec<Extent> {
        vec![
            Extent::Hole(9),
            Extent::Chunk { id: ChunkId::from_bytes([1; 32]), len: 70_000 },
            Extent::Inline(b"tiny".to_vec()),
        ]
    }

    fn path(bytes: &[u8]) -> TreePath {
        TreePath::new(bytes).unwrap()
    }

    fn reader(bytes: &[u8]) -> StatCacheReader<&[u8]> {
        StatCacheReader::new(Some(bytes))
    }

    #[test]
    fn what_was_written_is_found_in_order() {
        let xattrs = vec![(b"user.a".to_vec(), b"1".to_vec())];
        let mut writer = StatCacheWriter::new(Vec::new()).unwrap();
        writer.push(&path(b"a/\xff"), &state(2), &xattrs, &extents()).unwrap();
        writer.push(&path(b"a b"), &state(3), &Vec::new(), &[]).unwrap();
        let bytes = writer.finish().unwrap();
        let mut cache = reader(&bytes);
        assert_eq!(cache.find(&path(b"a")), None);
        let known = cache.find(&path(b"a/\xff")).unwrap();
        assert_eq!((known.state, &known.xattrs, &known.extents), (state(2), &xattrs, &extents()));
        assert_eq!(cache.find(&path(b"a/\xff\xff")), None);
        assert_eq!(cache.find(&path(b"a b")).unwrap().state, state(3));
        assert_eq!(cache.find(&path(b"b")), None);
        // Of a file that is not whole, or of another kind, nothing is known.
        for len in 0..bytes.len() {
            assert_eq!(reader(&bytes[..len]).find(&path(b"a/\xff")), None);
        }
        assert_eq!(reader(b"pstore/stat/2\n and so on").find(&path(b"a")), None);
    }

    #[test]
    fn what_comes_before_a_damaged_block_is_known() {
        let mut writer = StatCacheWriter::new(Vec::new()).unwrap();
        let name = |number: u64| path(format!("folder/{number:08}").as_bytes());
        for number in 0..20_000 {
            writer.push(&name(number), &state(number), &Vec::new(), &extents()).unwrap();
        }
        let mut bytes = writer.finish().unwrap();
        assert!(bytes.len() > 3 * BLOCK_BYTES);
        let known = |bytes: &[u8]| {
            let mut cache = reader(bytes);
            (0..20_000)
                .filter(|number| {
                    cache.find(&name(*number)).is_some_and(|known| known.state == state(*number))
                })
                .count()
        };
        assert_eq!(known(&bytes), 20_000);
        bytes[2 * BLOCK_BYTES] ^= 1;
        let some = known(&bytes);
        assert!(some > 1000 && some < 20_000, "{some}");
    }
}
