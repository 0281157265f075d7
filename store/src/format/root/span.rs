//! `Span` says which part of a tree a segment covers, so that a reader finds a path without reading all segments.

use crate::{
    format::{
        FormatError, Result,
        bytes::{Put, Reader},
        table::{Location, pack_at},
        tree::{MAX_PATH_BYTES, TreePath},
        tree_limits::{MAX_CONTENT_BYTES, MAX_ENTRIES, paths_allowed},
    },
    id::PackId,
};

/// How many bytes of a pack something needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackBytes {
    /// The pack.
    pub pack: PackId,
    /// The stored bytes of the frames that are needed, each frame once.
    pub bytes: u64,
}

/// The packs of one segment's chunks.
pub fn packs_of(locations: &[Location]) -> Vec<PackBytes> {
    let mut frames: Vec<(PackId, u64, u32)> =
        locations.iter().map(|location| (location.pack, location.offset, location.stored_len)).collect();
    frames.sort_unstable();
    frames.dedup();
    let mut packs: Vec<PackBytes> = Vec::new();
    for (pack, _, stored_len) in frames {
        let bytes = u64::from(stored_len);
        match packs.last_mut() {
            Some(last) if last.pack == pack => last.bytes += bytes,
            _ => packs.push(PackBytes { pack, bytes }),
        }
    }
    packs
}

/// The part of a tree that one segment covers.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// The first entry that begins in it; none if it only has extents of a file that began before.
    pub first: Option<TreePath>,
    /// Whether its first item is some more extents of a file that began before.
    pub continues: bool,
    /// How many entries begin in it.
    pub entries: u64,
    /// How many of them are hard links.
    pub links: u64,
    /// The sizes of the files that begin in it.
    pub content_bytes: u64,
    /// The lengths of the paths, and of the targets of links, of the entries that begin in it.
    pub paths_bytes: u64,
    /// The packs of its chunks, sorted.
    pub packs: Vec<PackBytes>,
}

impl Span {
    /// Appends it. `before` is the first path of the last segment that has one, and becomes its own.
    pub(super) fn put<'a>(
        &'a self,
        out: &mut Vec<u8>,
        before: &mut &'a [u8],
        place: impl Fn(&PackId) -> u64,
    ) {
        out.put_varint(self.entries << 1 | u64::from(self.continues));
        if let Some(first) = &self.first {
            let first = first.as_bytes();
            let shared = before.iter().zip(first).take_while(|(a, b)| a == b).count();
            out.put_varint(shared as u64);
            out.put_bytes(&first[shared..]);
            out.put_varint(self.links);
            out.put_varint(self.content_bytes);
            out.put_varint(self.paths_bytes);
            *before = first;
        }
        out.put_varint(self.packs.len() as u64);
        for used in &self.packs {
            out.put_varint(place(&used.pack));
            out.put_varint(used.bytes);
        }
    }

    fn read(reader: &mut Reader<'_>, packs: &[PackId], before: &[u8], most: u64) -> Result<Self> {
        let head = reader.bounded(MAX_ENTRIES << 1 | 1, "a number of entries")?;
        let mut span = Self { entries: head >> 1, continues: head & 1 == 1, ..Self::default() };
        if span.entries > 0 {
            span.first = Some(read_first(reader, before)?);
            span.links = reader.bounded(span.entries, "a number of hard links")?;
            span.content_bytes = reader.bounded(MAX_CONTENT_BYTES, "the sizes of files")?;
            span.paths_bytes = reader.bounded(most, "the lengths of paths")?;
        }
        let count = reader.count(2, "packs of a segment")?;
        for _ in 0..count {
            let pack = packs[pack_at(packs, reader)?];
            if span.packs.last().is_some_and(|before| before.pack >= pack) {
                return Err(FormatError::malformed("packs of a segment that are not sorted"));
            }
            span.packs.push(PackBytes { pack, bytes: reader.varint()? });
        }
        Ok(span)
    }
}

fn read_first(reader: &mut Reader<'_>, before: &[u8]) -> Result<TreePath> {
    let shared = reader.bounded(before.len() as u64, "the shared part of a path")? as usize;
    let suffix = reader.bytes(MAX_PATH_BYTES, "a path")?;
    if before.get(shared).is_some_and(|next| suffix.first() == Some(next)) {
        return Err(FormatError::malformed("a path that shares more with the one before than it says"));
    }
    TreePath::new([&before[..shared], suffix].concat())
}

/// Reads the spans of a root's segments one after another, within a bound on their memory.
#[derive(Debug, Default)]
pub(super) struct SpanReader {
    before: Option<TreePath>,
    tree_bytes: u64,
    paths_bytes: u64,
}

impl SpanReader {
    /// Reads the next span; its tree segment has `tree_bytes`.
    pub fn read(&mut self, reader: &mut Reader<'_>, packs: &[PackId], tree_bytes: u32) -> Result<Span> {
        self.tree_bytes += u64::from(tree_bytes);
        let most = paths_allowed(self.tree_bytes).saturating_sub(self.paths_bytes);
        let before = self.before.as_ref().map_or(&[][..], TreePath::as_bytes);
        let span = Span::read(reader, packs, before, most)?;
        match (&span.first, &self.before) {
            (None, _) if !span.continues => {
                return Err(FormatError::malformed("a segment in which nothing begins or goes on"));
            }
            (None, None) => return Err(FormatError::malformed("a first segment that goes on")),
            (None, Some(_)) => return Ok(span),
            (Some(first), None) if !first.is_root() || span.continues => {
                return Err(FormatError::malformed("a first segment that does not begin with the root"));
            }
            (Some(first), Some(before)) if first <= before => {
                return Err(FormatError::malformed(format!("a segment from {first} on after {before}")));
            }
            (Some(first), _) => {
                // A path longer than all that begin in the segment is in none of them.
                if first.as_bytes().len() as u64 > span.paths_bytes {
                    return Err(FormatError::malformed("a first path longer than all paths of its segment"));
                }
                self.before = Some(first.clone());
            }
        }
        self.paths_bytes += span.paths_bytes;
        Ok(span)
    }
}
