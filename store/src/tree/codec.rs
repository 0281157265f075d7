//! `codec` encodes a host's memory of files: states, extended attributes, extents.

use super::{walk::FileState, xattrs::Xattrs};
use crate::{
    format::{
        Result,
        bytes::{Put, Reader},
        tree::{
            Entry, Extent, Kind, MAX_INLINE_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_XATTR_BYTES, Time,
        },
    },
    id::ChunkId,
};

/// A path by the part that it does not share with the one before, which it replaces.
pub(crate) fn put_path(out: &mut Vec<u8>, previous: &mut Vec<u8>, path: &[u8]) {
    let shared = previous.iter().zip(path).take_while(|(a, b)| a == b).count();
    out.put_varint(shared as u64);
    out.put_bytes(&path[shared..]);
    previous.truncate(shared);
    previous.extend_from_slice(&path[shared..]);
}

/// Reads a path into that of the one before.
pub(crate) fn read_path(reader: &mut Reader<'_>, previous: &mut Vec<u8>) -> Result<()> {
    let shared = reader.bounded(previous.len() as u64, "the shared part of a path")? as usize;
    let rest = reader.bytes(MAX_PATH_BYTES, "a path")?;
    previous.truncate(shared);
    previous.extend_from_slice(rest);
    Ok(())
}

pub(crate) fn put_state(out: &mut Vec<u8>, state: &FileState) {
    let FileState { device, inode, size, mtime, ctime } = *state;
    [device, inode, size].into_iter().for_each(|number| out.put_varint(number));
    put_time(out, mtime);
    put_time(out, ctime);
}

pub(crate) fn read_state(reader: &mut Reader<'_>) -> Result<FileState> {
    let (device, inode, size) = (reader.varint()?, reader.varint()?, reader.varint()?);
    Ok(FileState { device, inode, size, mtime: read_time(reader)?, ctime: read_time(reader)? })
}

pub(crate) fn put_time(out: &mut Vec<u8>, time: Time) {
    out.put_signed(time.seconds);
    out.put_varint(time.nanos.into());
}

pub(crate) fn read_time(reader: &mut Reader<'_>) -> Result<Time> {
    Ok(Time { seconds: reader.signed()?, nanos: reader.bounded(999_999_999, "nanoseconds")? as u32 })
}

/// Everything about an entry that is no regular file, but its path. The first byte tells its kind.
pub(crate) fn put_other(out: &mut Vec<u8>, entry: &Entry) {
    let Entry { meta, kind, .. } = entry;
    match kind {
        Kind::HardLink { target } => {
            out.push(b'h');
            return out.put_bytes(target.as_bytes());
        }
        Kind::Symlink { target } => {
            out.push(b's');
            out.put_bytes(target);
        }
        _ => out.push(b'd'),
    }
    [meta.mode, meta.uid, meta.gid].into_iter().for_each(|number| out.put_varint(number.into()));
    put_time(out, meta.mtime);
    put_xattrs(out, &meta.xattrs);
}

pub(crate) fn put_xattrs(out: &mut Vec<u8>, xattrs: &Xattrs) {
    out.put_varint(xattrs.len() as u64);
    for (name, value) in xattrs {
        out.put_bytes(name);
        out.put_bytes(value);
    }
}

pub(crate) fn read_xattrs(reader: &mut Reader<'_>) -> Result<Xattrs> {
    let read = |reader: &mut Reader<'_>| {
        let name = reader.bytes(MAX_NAME_BYTES, "an attribute's name")?.to_vec();
        Ok((name, reader.bytes(MAX_XATTR_BYTES, "an attribute")?.to_vec()))
    };
    (0..reader.count(2, "extended attributes")?).map(|_| read(reader)).collect()
}

pub(crate) fn put_extents(out: &mut Vec<u8>, extents: &[Extent]) {
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

pub(crate) fn read_extents(reader: &mut Reader<'_>) -> Result<Vec<Extent>> {
    let read = |reader: &mut Reader<'_>| {
        let head = reader.varint()?;
        Ok(match head & 3 {
            0 => Extent::Hole(head >> 2),
            1 => Extent::Chunk { len: (head >> 2) as u32, id: ChunkId::from_bytes(reader.array()?) },
            _ => Extent::Inline(reader.bytes(MAX_INLINE_BYTES, "inline bytes")?.to_vec()),
        })
    };
    (0..reader.count(1, "extents")?).map(|_| read(reader)).collect()
}
