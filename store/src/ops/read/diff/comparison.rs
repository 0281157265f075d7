//! `Comparison` takes the entries of two trees in pairs, and finds the differences.

use std::collections::{HashMap, HashSet};

use super::report::{Change, Diff, Fields, Line, Side};
use crate::{
    content::snapshot_tree::stream::LocatedEntry,
    format::{
        table::Location,
        tree::{Entry, Extent, Kind, Meta},
    },
    id::{ChunkId, PackId},
};

/// An entry of one of the compared trees.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComparedEntry<'a> {
    entry: &'a Entry,
    /// The file it is a name of; of anything but a hard link, itself.
    file: &'a Entry,
    locations: &'a [Location],
}

impl<'a> ComparedEntry<'a> {
    /// With the file behind it, if it is a hard link.
    pub fn of(found: &'a LocatedEntry, linked: Option<&'a Entry>) -> Self {
        Self { entry: &found.entry, file: linked.unwrap_or(&found.entry), locations: &found.locations }
    }

    fn side(&self) -> Side {
        Side { kind: word(&self.entry.kind), size: size(&self.file.kind), unshared_bytes: 0 }
    }
}

/// Chunks of one tree, each with its length and its pack.
type Chunks = HashMap<ChunkId, (u32, Option<PackId>)>;

/// Chunks of a file, in order.
type ChunkList = Vec<(ChunkId, u32)>;

/// The differences that were found so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub diff: Diff,
    before: Chunks,
    after: Chunks,
    /// For each line, the chunks of both sides: whether the other tree has them is known at the end.
    own: Vec<(ChunkList, ChunkList)>,
}

impl Comparison {
    /// Compares the entries of both trees at the next path.
    pub fn pair(&mut self, a: Option<ComparedEntry<'_>>, b: Option<ComparedEntry<'_>>) {
        note(&mut self.before, a.as_ref());
        note(&mut self.after, b.as_ref());
        let Some((change, metadata)) = judge(a.as_ref(), b.as_ref()) else {
            self.diff.totals.unchanged += 1;
            return;
        };
        let Some(ComparedEntry { entry, .. }) = b.or(a) else { return };
        self.diff.totals.count(change);
        let (mut left, mut right) = (a.map(|a| a.side()), b.map(|b| b.side()));
        if change != Change::Metadata {
            self.diff.totals.gone_bytes += add_inline(&mut left, a.map(|a| a.entry));
            self.diff.totals.new_bytes += add_inline(&mut right, b.map(|b| b.entry));
        }
        let path = entry.path.clone();
        self.diff.lines.push(Line { path, change, before: left, after: right, metadata });
        let chunks = |told: Option<ComparedEntry<'_>>| {
            told.map_or_else(Vec::new, |told| told.entry.chunks().collect())
        };
        self.own.push((chunks(a), chunks(b)));
    }

    /// The packs of the chunks that only the first tree was seen to have, and those of the second.
    pub fn packs_of_unshared(&self) -> (HashSet<PackId>, HashSet<PackId>) {
        let outside = |own: &Chunks, other: &Chunks| {
            let own = own.iter().filter(|(id, _)| !other.contains_key(*id));
            own.filter_map(|(_, (_, pack))| *pack).collect()
        };
        (outside(&self.before, &self.after), outside(&self.after, &self.before))
    }

    /// Both trees have this chunk, in a part that was not compared.
    pub fn is_in_both(&mut self, id: &ChunkId) {
        let (before, after) = (self.before.get(id).copied(), self.after.get(id).copied());
        match (before, after) {
            (Some(found), None) => drop(self.after.insert(*id, found)),
            (None, Some(found)) => drop(self.before.insert(*id, found)),
            _ => {}
        }
    }

    /// All that differs.
    pub fn finish(self) -> Diff {
        let Self { mut diff, before, after, own } = self;
        diff.totals.gone_bytes += bytes_outside(&before, &after);
        diff.totals.new_bytes += bytes_outside(&after, &before);
        for (line, (left, right)) in diff.lines.iter_mut().zip(own) {
            add_chunks(&mut line.before, &left, &after);
            add_chunks(&mut line.after, &right, &before);
        }
        diff
    }
}

fn note(chunks: &mut Chunks, told: Option<&ComparedEntry<'_>>) {
    let Some(told) = told else { return };
    let mut locations = told.locations.iter();
    for (id, len) in told.entry.chunks() {
        chunks.insert(id, (len, locations.next().map(|location| location.pack)));
    }
}

/// How long the chunks are that the other tree does not name.
fn bytes_outside(own: &Chunks, other: &Chunks) -> u64 {
    own.iter().filter(|(id, _)| !other.contains_key(*id)).map(|(_, (len, _))| u64::from(*len)).sum()
}

fn add_chunks(side: &mut Option<Side>, own: &[(ChunkId, u32)], other: &Chunks) {
    let Some(side) = side else { return };
    let outside = own.iter().filter(|(id, _)| !other.contains_key(id));
    side.unshared_bytes += outside.map(|(_, len)| u64::from(*len)).sum::<u64>();
}

/// The change at a path, if there is one.
fn judge(a: Option<&ComparedEntry<'_>>, b: Option<&ComparedEntry<'_>>) -> Option<(Change, Fields)> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, Some(_)) => return Some((Change::Added, Fields::default())),
        _ => return Some((Change::Removed, Fields::default())),
    };
    let links = match (&a.entry.kind, &b.entry.kind) {
        (Kind::HardLink { target: a }, Kind::HardLink { target: b }) => a != b,
        (Kind::HardLink { .. }, _) | (_, Kind::HardLink { .. }) => true,
        _ => false,
    };
    let (a, b) = (a.file, b.file);
    // What two different things have for metadata says nothing.
    if word(&a.kind) != word(&b.kind) {
        return Some((Change::Type, Fields::default()));
    }
    let fields = Fields { links, ..differing(&a.meta, &b.meta) };
    match (a.kind == b.kind, fields.any()) {
        (false, _) => Some((Change::Content, fields)),
        (true, true) => Some((Change::Metadata, fields)),
        (true, false) => None,
    }
}

fn differing(a: &Meta, b: &Meta) -> Fields {
    Fields {
        mode: a.mode != b.mode,
        owner: (a.uid, a.gid) != (b.uid, b.gid),
        mtime: a.mtime != b.mtime,
        xattrs: a.xattrs != b.xattrs,
        links: false,
        extensions: a.extensions != b.extensions,
    }
}

const fn word(kind: &Kind) -> &'static str {
    match kind {
        Kind::File { .. } => "file",
        Kind::Directory => "directory",
        Kind::Symlink { .. } => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice { .. } => "char_device",
        Kind::BlockDevice { .. } => "block_device",
        Kind::HardLink { .. } => "hard_link",
    }
}

const fn size(kind: &Kind) -> u64 {
    match kind {
        Kind::File { size, .. } => *size,
        _ => 0,
    }
}

/// Tiny files are in no chunk; one that differs is taken to have nothing in common.
fn add_inline(side: &mut Option<Side>, entry: Option<&Entry>) -> u64 {
    let (Some(side), Some(Entry { kind: Kind::File { extents, .. }, .. })) = (side, entry) else { return 0 };
    let inline = extents.iter().filter(|extent| matches!(extent, Extent::Inline(_)));
    let bytes = inline.map(Extent::len).sum();
    side.unshared_bytes += bytes;
    bytes
}
