//! `diff` tells what changed between two snapshots from their trees alone: no content is fetched.

use std::{cmp::Ordering, collections::HashMap, iter::Peekable, slice::Iter};

use super::browse::entries;
use crate::{
    Result,
    content::TenantStore,
    format::{
        record::Record,
        tree::{Entry, Extent, Kind, Meta, TreePath},
    },
    id::ChunkId,
};

/// What happened to one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// Only the later snapshot has it.
    Added,
    /// Only the earlier snapshot has it.
    Removed,
    /// Its content, or where a symbolic link leads; perhaps its metadata too.
    Content,
    /// Nothing but its metadata.
    Metadata,
    /// It is something else now.
    Type,
}

/// A path that is not the same in both snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it is.
    pub path: TreePath,
    /// What differs.
    pub change: Change,
    /// As the earlier snapshot has it.
    pub before: Option<Side>,
    /// As the later snapshot has it.
    pub after: Option<Side>,
    /// Which metadata differs, if both have it.
    pub metadata: Fields,
}

/// A path as one of the two snapshots has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// What it is: a word for people and programs.
    pub kind: &'static str,
    /// Of a file; of a hard link the size of the file.
    pub size: u64,
    /// Bytes of the file in chunks that the other snapshot has nowhere, or in none. Those of
    /// a hard link are told with its file.
    pub unshared_bytes: u64,
}

/// Which metadata differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Permissions.
    pub mode: bool,
    /// Owner or group.
    pub owner: bool,
    /// When the content was changed last.
    pub mtime: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// Whether it is another name of a file, or of which one.
    pub links: bool,
    /// What a later version of the format has added.
    pub extensions: bool,
}

impl Fields {
    /// Whether anything differs.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }

    /// The names of those that differ.
    pub fn names(&self) -> Vec<&'static str> {
        let Self { mode, owner, mtime, xattrs, links, extensions } = *self;
        let all = [
            (mode, "mode"),
            (owner, "owner"),
            (mtime, "mtime"),
            (xattrs, "xattrs"),
            (links, "links"),
            (extensions, "extensions"),
        ];
        all.into_iter().filter(|(differs, _)| *differs).map(|(_, name)| name).collect()
    }
}

/// How many paths differ, and how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Paths that only the later one has.
    pub added: u64,
    /// Paths that only the earlier one has.
    pub removed: u64,
    /// Paths with other content.
    pub changed: u64,
    /// Paths with other metadata alone.
    pub metadata_changed: u64,
    /// Paths that are something else now.
    pub type_changed: u64,
    /// Paths that are the same in both.
    pub unchanged: u64,
    /// Sizes of all files, each counted once however many names it has.
    pub bytes_before: u64,
    /// Bytes of the files of the later one.
    pub bytes_after: u64,
    /// In chunks only the later snapshot has, each counted once, and in tiny files.
    pub new_bytes: u64,
    /// The same of the earlier one.
    pub gone_bytes: u64,
}

/// What differs between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diff {
    /// In the order of paths.
    pub lines: Vec<Line>,
    /// The sums of all lines.
    pub totals: Totals,
}

/// Loads both trees and compares them. Each snapshot is pinned while its tree is read.
pub async fn diff(store: &TenantStore, before: &Record, after: &Record) -> Result<Diff> {
    let id = |record: &Record| record.content.as_ref().map(|content| content.snapshot_id);
    if id(before) == id(after) {
        let entries = entries(store, after).await?;
        return Ok(compare(&entries, &entries));
    }
    let (before, after) = futures::future::try_join(entries(store, before), entries(store, after)).await?;
    Ok(compare(&before, &after))
}

/// Compares two trees, each in order, in one pass over both.
pub fn compare(before: &[Entry], after: &[Entry]) -> Diff {
    let (before, after) = (Tree::new(before), Tree::new(after));
    let mut diff = Diff::default();
    let totals = &mut diff.totals;
    (totals.bytes_before, totals.bytes_after) = (before.bytes(), after.bytes());
    totals.gone_bytes = before.bytes_outside(&after);
    totals.new_bytes = after.bytes_outside(&before);
    let pairs = Merge { before: before.entries.iter().peekable(), after: after.entries.iter().peekable() };
    for (a, b) in pairs {
        let Some((change, metadata)) = judge(&before, a, &after, b) else {
            diff.totals.unchanged += 1;
            continue;
        };
        let Some(entry) = b.or(a) else { continue };
        diff.totals.count(change);
        let mut left = a.map(|a| before.side(a, &after));
        let mut right = b.map(|b| after.side(b, &before));
        if change != Change::Metadata {
            diff.totals.gone_bytes += add_inline(&mut left, a);
            diff.totals.new_bytes += add_inline(&mut right, b);
        }
        diff.lines.push(Line { path: entry.path.clone(), change, before: left, after: right, metadata });
    }
    diff
}

impl Totals {
    fn count(&mut self, change: Change) {
        let counter = match change {
            Change::Added => &mut self.added,
            Change::Removed => &mut self.removed,
            Change::Content => &mut self.changed,
            Change::Metadata => &mut self.metadata_changed,
            Change::Type => &mut self.type_changed,
        };
        *counter += 1;
    }
}

/// What happened at a path, if anything did.
fn judge(
    before: &Tree<'_>,
    a: Option<&Entry>,
    after: &Tree<'_>,
    b: Option<&Entry>,
) -> Option<(Change, Fields)> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (None, Some(_)) => return Some((Change::Added, Fields::default())),
        _ => return Some((Change::Removed, Fields::default())),
    };
    let links = match (&a.kind, &b.kind) {
        (Kind::HardLink { target: a }, Kind::HardLink { target: b }) => a != b,
        (Kind::HardLink { .. }, _) | (_, Kind::HardLink { .. }) => true,
        _ => false,
    };
    let (a, b) = (before.resolved(a), after.resolved(b));
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

/// Entries in order, and every chunk they name with its length.
struct Tree<'a> {
    entries: &'a [Entry],
    chunks: HashMap<ChunkId, u32>,
}

impl<'a> Tree<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        Self { entries, chunks: entries.iter().flat_map(Entry::chunks).collect() }
    }

    fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| size(&entry.kind)).sum()
    }

    /// How long the chunks are that the other tree does not name.
    fn bytes_outside(&self, other: &Self) -> u64 {
        let outside = self.chunks.iter().filter(|(id, _)| !other.chunks.contains_key(*id));
        outside.map(|(_, len)| u64::from(*len)).sum()
    }

    /// The file a hard link is a name of; anything else as it is.
    fn resolved<'e>(&self, entry: &'e Entry) -> &'e Entry
    where
        'a: 'e,
    {
        let Kind::HardLink { target } = &entry.kind else { return entry };
        let found = self.entries.binary_search_by(|other| other.path.cmp(target));
        found.ok().and_then(|at| self.entries.get(at)).unwrap_or(entry)
    }

    fn side(&self, entry: &Entry, other: &Self) -> Side {
        let own = |id: &ChunkId| !other.chunks.contains_key(id);
        let chunks = entry.chunks().filter(|(id, _)| own(id)).map(|(_, len)| u64::from(len));
        Side {
            kind: word(&entry.kind),
            size: size(&self.resolved(entry).kind),
            unshared_bytes: chunks.sum::<u64>(),
        }
    }
}

/// Pairs the entries of two sorted lists by their paths.
struct Merge<'a> {
    before: Peekable<Iter<'a, Entry>>,
    after: Peekable<Iter<'a, Entry>>,
}

impl<'a> Iterator for Merge<'a> {
    type Item = (Option<&'a Entry>, Option<&'a Entry>);

    fn next(&mut self) -> Option<Self::Item> {
        let order = match (self.before.peek(), self.after.peek()) {
            (None, None) => return None,
            (Some(a), Some(b)) => a.path.cmp(&b.path),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        Some(match order {
            Ordering::Less => (self.before.next(), None),
            Ordering::Equal => (self.before.next(), self.after.next()),
            Ordering::Greater => (None, self.after.next()),
        })
    }
}

#[cfg(test)]
mod tests;
