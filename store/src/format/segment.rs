//! Cuts a tree's entries into segments, and reads them back: pieces that stay the same when the tree changes
//! elsewhere, so that a snapshot stores only the pieces that differ.
//!
//! A segment is a sequence of items. An item is an entry, or some more extents of the
//! file before it. Where items and segments end depends on nothing but the tree, so equal
//! trees have equal segments and one id.

mod segment_part;

pub use segment_part::{SegmentPart, covered};

use std::sync::Arc;

use super::{
    FormatError, Result, UNNAMED_WRITER,
    bytes::{Put, Reader},
    prefix,
    root::Span,
    tree::{
        Checker, Entry, Extension, Extent, Kind, Linked, MAX_EXTENSIONS, MAX_FILE_BYTES, MAX_INLINE_BYTES,
        MAX_NAME_BYTES, MAX_PATH_BYTES, MAX_TARGET_BYTES, MAX_XATTR_BYTES, MAX_XATTRS, MODE_BITS, Meta, Time,
        TreePath,
    },
    tree_limits::{Tally, paths_bytes},
};
use crate::id::{ChunkId, ChunkKey, SnapshotId};

/// The first bytes of a segment: its kind, and its version.
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
    /// The encoded entries.
    pub bytes: Vec<u8>,
    /// The chunks they refer to, in order, and how long each is.
    pub chunks: Vec<(ChunkId, u32)>,
    /// The part of the tree that it covers; its packs are not known here.
    pub span: Span,
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
    finished_bytes: u64,
    tally: Tally,
}

impl Default for SegmentWriter {
    fn default() -> Self {
        Self {
            current: empty(),
            previous: Vec::new(),
            finished: Vec::new(),
            finished_bytes: 0,
            tally: Tally::default(),
        }
    }
}

impl SegmentWriter {
    /// Appends an entry that every reader will accept, or nothing.
    pub fn push(&mut self, entry: &Entry) -> Result<()> {
        entry.check()?;
        self.begin(entry)
    }

    /// Appends an entry of a tree that was read. It may be a file whose extents go on in the next segment there:
    /// [`more`](Self::more) appends them.
    pub(crate) fn begin(&mut self, entry: &Entry) -> Result<()> {
        self.tally.add(entry, self.finished_bytes + self.current.bytes.len() as u64)?;
        let items = match &entry.kind {
            Kind::File { extents, .. } => split(extents),
            _ => Vec::new(),
        };
        let mut items = items.into_iter();
        note(&mut self.current.span, entry);
        self.put_entry(entry, items.next().unwrap_or_default());
        let boundary = crc32c::crc32c(entry.path.as_bytes()) & SEGMENT_MASK == 0;
        self.end_item(boundary);
        items.for_each(|item| self.put_more(item));
        Ok(())
    }

    /// Appends more extents of the last file, from where a segment begins in the tree they were read from.
    pub(crate) fn more(&mut self, extents: &[Extent]) {
        split(extents).into_iter().for_each(|item| self.put_more(item));
    }

    /// Whether the last segment has ended, and the next one has nothing yet: then the next entries are cut as
    /// they would be behind any other segment.
    pub(crate) fn is_between(&self) -> bool {
        self.current.bytes.len() == PREFIX.len()
    }

    /// Counts a segment that is taken over as it is, between others; it has `bytes`.
    pub(crate) fn pass(&mut self, span: &Span, bytes: u32) -> Result<()> {
        self.finished_bytes += u64::from(bytes);
        self.tally.count(span.entries, span.paths_bytes, span.content_bytes, self.finished_bytes)
    }

    /// The segments that have ended since this was asked last.
    pub(crate) fn take_finished(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.finished)
    }

    /// The sizes of all files so far.
    pub fn content_bytes(&self) -> u64 {
        self.tally.content_bytes()
    }

    /// The segments of all entries that were pushed.
    pub fn finish(mut self) -> Vec<Segment> {
        if self.current.bytes.len() > PREFIX.len() {
            self.finished.push(self.current);
        }
        self.finished
    }

    fn put_more(&mut self, item: &[Extent]) {
        self.current.span.continues |= self.is_between();
        self.current.bytes.push(MORE);
        self.put_extents(item);
        let boundary = match item.last() {
            Some(Extent::Chunk { id, .. }) => crc32c::crc32c(id.as_bytes()) & SEGMENT_MASK == 0,
            _ => false,
        };
        self.end_item(boundary);
    }

    fn end_item(&mut self, boundary: bool) {
        let len = self.current.bytes.len();
        if len >= MAX_SEGMENT || boundary && len >= MIN_SEGMENT {
            self.finished_bytes += len as u64;
            let mut ended = std::mem::replace(&mut self.current, empty());
            // There are many of them, and they are kept.
            ended.bytes.shrink_to_fit();
            ended.chunks.shrink_to_fit();
            self.finished.push(ended);
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
    Segment { bytes: PREFIX.to_vec(), chunks: Vec::new(), span: Span::default() }
}

/// Counts an entry that begins in a segment.
fn note(span: &mut Span, entry: &Entry) {
    span.first.get_or_insert_with(|| entry.path.clone());
    span.entries += 1;
    span.links += u64::from(matches!(entry.kind, Kind::HardLink { .. }));
    span.content_bytes = span.content_bytes.saturating_add(entry.size());
    span.paths_bytes += paths_bytes(entry);
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
    tally: Tally,
    /// Of all segments so far.
    bytes: u64,
    /// The file whose extents are not complete yet, and how many bytes they cover.
    open: Option<(Entry, u64)>,
}

impl SegmentReader {
    /// Of a tree whose links are known: less is held of one that has few.
    pub(crate) fn knowing(linked: Arc<Linked>) -> Self {
        Self { checker: Checker::knowing(linked), ..Self::default() }
    }

    /// Of some segments of a tree: whether the whole is a tree cannot be told.
    pub(crate) fn of_parts() -> Self {
        Self { checker: Checker::of_parts(), ..Self::default() }
    }

    /// Decodes the next segment, handing on every entry that is complete. Says which part of the tree it
    /// covers; its packs are not known here.
    pub fn read(&mut self, bytes: &[u8], mut each: impl FnMut(Entry)) -> Result<Span> {
        let mut reader = prefix::strip(bytes, "tree")?;
        self.bytes += bytes.len() as u64;
        if reader.is_empty() {
            return Err(FormatError::malformed("a segment without items"));
        }
        let mut previous = Vec::new();
        let mut span = Span { continues: self.open.is_some(), ..Span::default() };
        while !reader.is_empty() {
            let tag = reader.u8()?;
            match (tag, self.open.take()) {
                (MORE, None) => return Err(FormatError::malformed("extents that belong to no file")),
                (MORE, Some((mut entry, before))) => {
                    let more = match &mut entry.kind {
                        Kind::File { extents, .. } => read_extents(&mut reader, extents)?,
                        _ => 0,
                    };
                    if more == 0 {
                        return Err(FormatError::malformed("an item without extents"));
                    }
                    self.hand_on(entry, before, more, &mut each)?;
                }
                (_, Some((entry, _))) => {
                    return Err(FormatError::malformed(format!("{} is not complete", entry.path)));
                }
                (tag, None) => {
                    let (entry, covered) = read_entry(tag, &mut reader, &mut previous)?;
                    self.tally.add(&entry, self.bytes)?;
                    self.checker.check(&entry)?;
                    note(&mut span, &entry);
                    self.hand_on(entry, 0, covered, &mut each)?;
                }
            }
        }
        Ok(span)
    }

    /// Ends reading. An entry of which extents are missing is an error.
    pub fn finish(self) -> Result<()> {
        match self.open {
            Some((entry, _)) => Err(FormatError::malformed(format!("{} is not complete", entry.path))),
            None => self.checker.finish(),
        }
    }

    /// Hands on an entry whose extents cover `before` bytes and the `more` that were read
    /// just now, or keeps it if that is not all of it.
    fn hand_on(&mut self, entry: Entry, before: u64, more: u64, each: &mut impl FnMut(Entry)) -> Result<()> {
        let Kind::File { size, .. } = &entry.kind else {
            each(entry);
            return Ok(());
        };
        let covered = before.saturating_add(more);
        if covered > *size {
            return Err(FormatError::malformed(format!("{} has more bytes than its size", entry.path)));
        }
        if covered == *size {
            each(entry);
        } else if more > 0 {
            self.open = Some((entry, covered));
        } else {
            return Err(FormatError::malformed(format!("{} has fewer bytes than its size", entry.path)));
        }
        Ok(())
    }
}

/// An entry and how many bytes its first extents cover.
fn read_entry(tag: u8, reader: &mut Reader<'_>, previous: &mut Vec<u8>) -> Result<(Entry, u64)> {
    let shared = reader.bounded(previous.len() as u64, "the shared part of a path")? as usize;
    let suffix = reader.bytes(MAX_PATH_BYTES, "a path")?;
    if previous.get(shared).is_some_and(|next| suffix.first() == Some(next)) {
        return Err(FormatError::malformed("a path that shares more with the one before than it says"));
    }
    previous.truncate(shared);
    if previous.len() + suffix.len() > MAX_PATH_BYTES {
        return Err(FormatError::malformed("a path longer than 32 KiB"));
    }
    previous.extend_from_slice(suffix);
    let path = TreePath::new(previous.clone())?;
    if tag == HARD_LINK {
        let target = TreePath::new(reader.bytes(MAX_PATH_BYTES, "a link's target")?)?;
        let kind = Kind::HardLink { target };
        kind.check_target(&path)?;
        return Ok((Entry { path, meta: Meta::default(), kind }, 0));
    }
    if !(FILE..=BLOCK_DEVICE).contains(&tag) {
        return Err(FormatError::feature(format!("tree entry kind {tag}"), UNNAMED_WRITER));
    }
    let meta = read_meta(reader)?;
    let mut covered = 0;
    let kind = match tag {
        FILE => {
            let (size, mut extents) = (reader.bounded(MAX_FILE_BYTES, "a file's size")?, Vec::new());
            covered = read_extents(reader, &mut extents)?;
            Kind::File { size, extents }
        }
        DIRECTORY => Kind::Directory,
        SYMLINK => Kind::Symlink { target: reader.bytes(MAX_TARGET_BYTES, "a symbolic link")?.to_vec() },
        FIFO => Kind::Fifo,
        SOCKET => Kind::Socket,
        CHAR_DEVICE => Kind::CharDevice { device: reader.varint()? },
        _ => Kind::BlockDevice { device: reader.varint()? },
    };
    kind.check_target(&path)?;
    Ok((Entry { path, meta, kind }, covered))
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
        xattrs.push((name, value));
    }
    let count = reader.bounded(MAX_EXTENSIONS as u64, "the number of extensions")?;
    let mut extensions = Vec::new();
    for _ in 0..count {
        let tag = reader.varint()?;
        let value = reader.bytes(MAX_XATTR_BYTES, "an extension")?.to_vec();
        if tag & 1 == 1 {
            return Err(FormatError::feature(format!("tree extension {tag}"), UNNAMED_WRITER));
        }
        extensions.push(Extension { tag, value });
    }
    let meta = Meta { mode, uid, gid, mtime: Time { seconds, nanos }, xattrs, extensions };
    meta.check()?;
    Ok(meta)
}

/// Appends the extents of one item; says how many bytes they cover.
fn read_extents(reader: &mut Reader<'_>, extents: &mut Vec<Extent>) -> Result<u64> {
    let count = reader.bounded(MAX_EXTENTS as u64, "the number of extents")?;
    extents.reserve(count as usize);
    let mut covered = 0u64;
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
            2 => return Err(FormatError::malformed("an extent of an impossible length")),
            kind => return Err(FormatError::feature(format!("extent kind {kind}"), UNNAMED_WRITER)),
        };
        extent.check()?;
        if let Some(before) = extents.last() {
            extent.check_after(before)?;
        }
        covered = covered.saturating_add(extent.len());
        extents.push(extent);
    }
    Ok(covered)
}
