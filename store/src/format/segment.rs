//! Tree segments: a tree's entries in pieces that stay the same when the tree changes
//! elsewhere, so that a snapshot stores only the pieces that differ.
//!
//! A segment is a sequence of items. An item is an entry, or some more extents of the
//! file before it. Where items and segments end depends on nothing but the tree, so equal
//! trees have equal segments and one id.

use super::{
    FormatError, Result,
    bytes::{Put, Reader},
    tree::{
        Checker, Entry, Extension, Extent, Kind, MAX_INLINE_BYTES, MAX_NAME_BYTES, MAX_PATH_BYTES,
        MAX_TARGET_BYTES, MAX_XATTR_BYTES, MAX_XATTRS, MODE_BITS, Meta, Time, TreePath,
    },
};
use crate::id::{ChunkId, ChunkKey, SnapshotId};

/// The first bytes of a segment: what it is, and its version.
pub const PREFIX: &[u8] = b"pstore/tree/1\n";
const SNAPSHOT_PREFIX: &[u8] = b"pstore/snapshot/1\n";

const MIN_SEGMENT: usize = 4 * 1024;
const MAX_SEGMENT: usize = 64 * 1024;
/// One item in 64 ends a segment that is long enough.
const SEGMENT_MASK: u32 = 63;
const MIN_EXTENTS: usize = 16;
const MAX_EXTENTS: usize = 256;
/// One chunk in 64 ends an item that has enough extents.
const EXTENT_MASK: u8 = 63;

const FILE: u8 = 1;
const DIRECTORY: u8 = 2;
const SYMLINK: u8 = 3;
const FIFO: u8 = 4;
const SOCKET: u8 = 5;
const CHAR_DEVICE: u8 = 6;
const BLOCK_DEVICE: u8 = 7;
const HARD_LINK: u8 = 8;
const MORE: u8 = 9;

/// An encoded segment with the chunks it names, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub bytes: Vec<u8>,
    pub chunks: Vec<(ChunkId, u32)>,
    /// Entries that begin in this segment.
    pub entries: u32,
}

/// The id of the tree whose segments have these ids, in order.
pub fn snapshot_id(key: &ChunkKey, segments: impl ExactSizeIterator<Item = ChunkId>) -> SnapshotId {
    let mut hasher = blake3::Hasher::new_keyed(key.as_bytes());
    hasher.update(SNAPSHOT_PREFIX);
    hasher.update(&(segments.len() as u64).to_le_bytes());
    for id in segments {
        hasher.update(id.as_bytes());
    }
    SnapshotId::from_bytes(*hasher.finalize().as_bytes())
}

/// Cuts a stream of entries, which must be a tree in order, into segments.
#[derive(Debug)]
pub struct SegmentWriter {
    current: Segment,
    previous: Vec<u8>,
    finished: Vec<Segment>,
}

impl Default for SegmentWriter {
    fn default() -> Self {
        Self { current: empty(), previous: Vec::new(), finished: Vec::new() }
    }
}

impl SegmentWriter {
    pub fn push(&mut self, entry: &Entry) {
        let items = match &entry.kind {
            Kind::File { extents, .. } => split(extents),
            _ => Vec::new(),
        };
        let mut items = items.into_iter();
        self.put_entry(entry, items.next().unwrap_or_default());
        let boundary = crc32c::crc32c(entry.path.as_bytes()) & SEGMENT_MASK == 0;
        self.end_item(boundary);
        for item in items {
            self.current.bytes.push(MORE);
            self.put_extents(item);
            let boundary = match item.last() {
                Some(Extent::Chunk { id, .. }) => crc32c::crc32c(id.as_bytes()) & SEGMENT_MASK == 0,
                _ => false,
            };
            self.end_item(boundary);
        }
    }

    /// The segments that are complete so far.
    pub fn take_finished(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.finished)
    }

    pub fn finish(mut self) -> Vec<Segment> {
        if self.current.bytes.len() > PREFIX.len() {
            self.finished.push(self.current);
        }
        self.finished
    }

    fn end_item(&mut self, boundary: bool) {
        let len = self.current.bytes.len();
        if len >= MAX_SEGMENT || boundary && len >= MIN_SEGMENT {
            self.finished.push(std::mem::replace(&mut self.current, empty()));
            self.previous.clear();
        }
    }

    fn put_entry(&mut self, entry: &Entry, extents: &[Extent]) {
        let out = &mut self.current.bytes;
        out.push(match &entry.kind {
            Kind::File { .. } => FILE,
            Kind::Directory => DIRECTORY,
            Kind::Symlink { .. } => SYMLINK,
            Kind::Fifo => FIFO,
            Kind::Socket => SOCKET,
            Kind::CharDevice { .. } => CHAR_DEVICE,
            Kind::BlockDevice { .. } => BLOCK_DEVICE,
            Kind::HardLink { .. } => HARD_LINK,
        });
        let path = entry.path.as_bytes();
        let shared = self.previous.iter().zip(path).take_while(|(a, b)| a == b).count();
        out.put_varint(shared as u64);
        out.put_bytes(&path[shared..]);
        self.previous.clear();
        self.previous.extend_from_slice(path);
        self.current.entries += 1;
        if let Kind::HardLink { target } = &entry.kind {
            out.put_bytes(target.as_bytes());
            return;
        }
        put_meta(out, &entry.meta);
        match &entry.kind {
            Kind::File { size, .. } => {
                out.put_varint(*size);
                self.put_extents(extents);
            }
            Kind::Symlink { target } => out.put_bytes(target),
            Kind::CharDevice { device } | Kind::BlockDevice { device } => out.put_varint(*device),
            Kind::Directory | Kind::Fifo | Kind::Socket | Kind::HardLink { .. } => {}
        }
    }

    fn put_extents(&mut self, extents: &[Extent]) {
        let out = &mut self.current.bytes;
        out.put_varint(extents.len() as u64);
        for extent in extents {
            match extent {
                Extent::Hole(len) => out.put_varint(len << 2),
                Extent::Chunk { id, len } => {
                    out.put_varint(u64::from(*len) << 2 | 1);
                    out.extend_from_slice(id.as_bytes());
                    self.current.chunks.push((*id, *len));
                }
                Extent::Inline(bytes) => {
                    out.put_varint((bytes.len() as u64) << 2 | 2);
                    out.extend_from_slice(bytes);
                }
            }
        }
    }
}

fn empty() -> Segment {
    Segment { bytes: PREFIX.to_vec(), chunks: Vec::new(), entries: 0 }
}

fn put_meta(out: &mut Vec<u8>, meta: &Meta) {
    out.put_varint(meta.mode.into());
    out.put_varint(meta.uid.into());
    out.put_varint(meta.gid.into());
    out.put_signed(meta.mtime.seconds);
    out.put_varint(meta.mtime.nanos.into());
    out.put_varint(meta.xattrs.len() as u64);
    for (name, value) in &meta.xattrs {
        out.put_bytes(name);
        out.put_bytes(value);
    }
    out.put_varint(meta.extensions.len() as u64);
    for extension in &meta.extensions {
        out.put_varint(extension.tag);
        out.put_bytes(&extension.value);
    }
}

/// Splits a file's extents into items, at places that depend on the content nearby.
fn split(extents: &[Extent]) -> Vec<&[Extent]> {
    let mut items = Vec::new();
    let mut start = 0;
    for (at, extent) in extents.iter().enumerate() {
        let count = at + 1 - start;
        let ends = matches!(extent, Extent::Chunk { id, .. } if id.as_bytes()[0] & EXTENT_MASK == 0);
        if count == MAX_EXTENTS || ends && count >= MIN_EXTENTS {
            items.push(&extents[start..=at]);
            start = at + 1;
        }
    }
    if start < extents.len() {
        items.push(&extents[start..]);
    }
    items
}

/// Reads the segments of one tree in order and checks that they are a tree.
#[derive(Debug, Default)]
pub struct SegmentReader {
    checker: Checker,
    /// The file whose extents are not complete yet, and how many bytes they cover.
    open: Option<(Entry, u64)>,
}

impl SegmentReader {
    /// Decodes the next segment, handing on every entry that is complete.
    pub fn read(&mut self, bytes: &[u8], mut each: impl FnMut(Entry)) -> Result<()> {
        let mut reader = Reader::new(bytes);
        if !bytes.starts_with(PREFIX) {
            return Err(version_of(bytes));
        }
        reader.take(PREFIX.len())?;
        let mut previous = Vec::new();
        while !reader.is_empty() {
            let tag = reader.u8()?;
            match (tag, self.open.take()) {
                (MORE, None) => return Err(FormatError::malformed("extents that belong to no file")),
                (MORE, Some((mut entry, covered))) => {
                    let more = read_extents(&mut reader)?;
                    if more.is_empty() {
                        return Err(FormatError::malformed("an item without extents"));
                    }
                    if let Kind::File { extents, .. } = &mut entry.kind {
                        extents.extend(more);
                    }
                    self.hand_on(entry, covered, &mut each)?;
                }
                (_, Some((entry, _))) => {
                    return Err(FormatError::malformed(format!("{} is not complete", entry.path)));
                }
                (tag, None) => {
                    let entry = read_entry(tag, &mut reader, &mut previous)?;
                    self.checker.check(&entry)?;
                    self.hand_on(entry, 0, &mut each)?;
                }
            }
        }
        Ok(())
    }

    pub fn finish(self) -> Result<()> {
        match self.open {
            Some((entry, _)) => Err(FormatError::malformed(format!("{} is not complete", entry.path))),
            None => Ok(()),
        }
    }

    fn hand_on(&mut self, entry: Entry, before: u64, each: &mut impl FnMut(Entry)) -> Result<()> {
        let Kind::File { size, extents } = &entry.kind else {
            each(entry);
            return Ok(());
        };
        let covered = extents
            .iter()
            .try_fold(0u64, |sum, extent| sum.checked_add(extent.len()))
            .filter(|covered| covered <= size)
            .ok_or_else(|| FormatError::malformed(format!("{} has more bytes than its size", entry.path)))?;
        if covered == *size {
            each(entry);
        } else if covered > before {
            self.open = Some((entry, covered));
        } else {
            return Err(FormatError::malformed(format!("{} has fewer bytes than its size", entry.path)));
        }
        Ok(())
    }
}

fn version_of(bytes: &[u8]) -> FormatError {
    let version = bytes
        .strip_prefix(b"pstore/tree/")
        .and_then(|rest| rest.split(|b| *b == b'\n').next())
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u32>().ok());
    match version {
        Some(found) => FormatError::Version { found: found.into(), writer: "a newer pstore".to_owned() },
        None => FormatError::malformed("this is not a tree segment"),
    }
}

fn read_entry(tag: u8, reader: &mut Reader<'_>, previous: &mut Vec<u8>) -> Result<Entry> {
    let shared = reader.bounded(previous.len() as u64, "the shared part of a path")? as usize;
    let suffix = reader.bytes(MAX_PATH_BYTES, "a path")?;
    previous.truncate(shared);
    if previous.len() + suffix.len() > MAX_PATH_BYTES {
        return Err(FormatError::malformed("a path longer than 32 KiB"));
    }
    previous.extend_from_slice(suffix);
    let path = TreePath::new(previous.clone())?;
    if tag == HARD_LINK {
        let target = TreePath::new(reader.bytes(MAX_PATH_BYTES, "a link's target")?)?;
        if target >= path || target.is_root() {
            return Err(FormatError::malformed(format!("{path} links to what does not come before it")));
        }
        return Ok(Entry { path, meta: Meta::default(), kind: Kind::HardLink { target } });
    }
    let meta = read_meta(reader)?;
    let kind = match tag {
        FILE => Kind::File {
            size: reader.bounded(i64::MAX as u64, "a file's size")?,
            extents: read_extents(reader)?,
        },
        DIRECTORY => Kind::Directory,
        SYMLINK => {
            let target = reader.bytes(MAX_TARGET_BYTES, "a symbolic link")?.to_vec();
            if target.is_empty() || target.contains(&0) {
                return Err(FormatError::malformed(format!("{path} is an impossible symbolic link")));
            }
            Kind::Symlink { target }
        }
        FIFO => Kind::Fifo,
        SOCKET => Kind::Socket,
        CHAR_DEVICE => Kind::CharDevice { device: reader.varint()? },
        BLOCK_DEVICE => Kind::BlockDevice { device: reader.varint()? },
        other => return Err(FormatError::malformed(format!("unknown entry kind {other}"))),
    };
    Ok(Entry { path, meta, kind })
}

fn read_meta(reader: &mut Reader<'_>) -> Result<Meta> {
    let mode = reader.bounded(MODE_BITS.into(), "a mode")? as u32;
    let uid = reader.bounded(u32::MAX.into(), "a user id")? as u32;
    let gid = reader.bounded(u32::MAX.into(), "a group id")? as u32;
    let seconds = reader.signed()?;
    let nanos = reader.bounded(999_999_999, "nanoseconds")? as u32;
    let count = reader.bounded(MAX_XATTRS as u64, "the number of extended attributes")?;
    let mut xattrs: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    for _ in 0..count {
        let name = reader.bytes(MAX_NAME_BYTES, "an attribute's name")?.to_vec();
        let value = reader.bytes(MAX_XATTR_BYTES, "an attribute's value")?.to_vec();
        if name.is_empty() || name.contains(&0) || xattrs.last().is_some_and(|(before, _)| *before >= name) {
            return Err(FormatError::malformed("extended attributes out of order"));
        }
        xattrs.push((name, value));
    }
    let count = reader.count(2, "extensions")?;
    let mut extensions = Vec::new();
    for _ in 0..count {
        let tag = reader.varint()?;
        let value = reader.bytes(MAX_XATTR_BYTES, "an extension")?.to_vec();
        if tag & 1 == 1 {
            return Err(FormatError::Feature {
                feature: format!("tree extension {tag}"),
                writer: "a newer pstore".to_owned(),
            });
        }
        extensions.push(Extension { tag, value });
    }
    Ok(Meta { mode, uid, gid, mtime: Time { seconds, nanos }, xattrs, extensions })
}

fn read_extents(reader: &mut Reader<'_>) -> Result<Vec<Extent>> {
    let count = reader.bounded(MAX_EXTENTS as u64, "the number of extents")?;
    let mut extents = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let head = reader.varint()?;
        let len = head >> 2;
        let extent = match head & 3 {
            0 => Extent::Hole(len),
            1 => Extent::Chunk {
                len: u32::try_from(len).map_err(|_| FormatError::malformed("a chunk longer than any"))?,
                id: ChunkId::from_bytes(reader.array()?),
            },
            2 if len <= MAX_INLINE_BYTES as u64 => Extent::Inline(reader.take(len as usize)?.to_vec()),
            _ => return Err(FormatError::malformed("an unknown kind of extent")),
        };
        extent.check()?;
        extents.push(extent);
    }
    Ok(extents)
}
