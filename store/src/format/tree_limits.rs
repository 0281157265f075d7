//! Bounds how large a tree may be. Every reader refuses one that is larger, before it takes memory for it,
//! and every writer refuses to make it.
//!
//! A program that may write a tenant's objects can describe a tree of any size in a few bytes, so a
//! reader's memory must not follow from their claims. A profile of five million files with 100 GB in
//! them takes a third of any of these at most.

use super::{
    FormatError, Result,
    tree::{Entry, Kind},
};

/// Of a root: the raw bytes of all tree and table segments it names, as often as it names them.
pub(crate) const MAX_METADATA_BYTES: u64 = 2 << 30;
/// Of a root: chunks in all segments.
pub const MAX_CHUNKS: u64 = 1 << 25;
/// Of a tree: entries.
pub(crate) const MAX_ENTRIES: u64 = 1 << 24;
/// Of a tree: the lengths of all paths and of all targets of links, whole: a segment has only the part
/// that a path does not share with the one before.
pub(crate) const MAX_PATHS_BYTES: u64 = 2 << 30;
/// Beyond this they may be no more than [`PATHS_FOR_EACH`] times as long as the tree segments: a part
/// that many paths share is little to store, and all of it is held.
const FREE_PATHS_BYTES: u64 = 128 << 20;
const PATHS_FOR_EACH: u64 = 16;
/// Of a path: names. No longer path of names can be given to a kernel at once.
pub const MAX_DEPTH: usize = 2048;
/// Of a tree: the sizes of all files, holes included.
pub const MAX_CONTENT_BYTES: u64 = 1 << 44;

/// The counts and sizes of a tree's entries, added up as they are read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    entries: u64,
    paths_bytes: u64,
    content_bytes: u64,
}

impl Tally {
    /// Counts an entry, or says which limit it exceeds. The segments up to it, and the one it
    /// is in, have `tree_bytes`.
    pub fn add(&mut self, entry: &Entry, tree_bytes: u64) -> Result<()> {
        let path = entry.path.as_bytes();
        let depth = if path.is_empty() { 0 } else { 1 + path.iter().filter(|byte| **byte == b'/').count() };
        if depth > MAX_DEPTH {
            return Err(FormatError::malformed(format!("a path of {depth} names; {MAX_DEPTH} are the most")));
        }
        self.count(1, paths_bytes(entry), entry.size(), tree_bytes)
    }

    /// Counts entries whose paths and files have so many bytes. The segments up to them, and theirs, have `tree_bytes`.
    pub(super) fn count(
        &mut self,
        entries: u64,
        paths_bytes: u64,
        content_bytes: u64,
        tree_bytes: u64,
    ) -> Result<()> {
        for (sum, more, most, what) in [
            (&mut self.entries, entries, MAX_ENTRIES, "entries"),
            (&mut self.paths_bytes, paths_bytes, paths_allowed(tree_bytes), "bytes of paths"),
            (&mut self.content_bytes, content_bytes, MAX_CONTENT_BYTES, "bytes of files"),
        ] {
            *sum = sum.saturating_add(more);
            if *sum > most {
                return Err(FormatError::malformed(format!("a tree of more than {most} {what}")));
            }
        }
        Ok(())
    }

    /// The sizes of all files.
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }
}

/// The length of an entry's path and, if it is a link, of its target.
pub(super) fn paths_bytes(entry: &Entry) -> u64 {
    let target = match &entry.kind {
        Kind::Symlink { target } => target.len(),
        Kind::HardLink { target } => target.as_bytes().len(),
        _ => 0,
    };
    (entry.path.as_bytes().len() + target) as u64
}

/// How long the paths in tree segments of so many bytes may be together.
pub(super) fn paths_allowed(tree_bytes: u64) -> u64 {
    tree_bytes.saturating_mul(PATHS_FOR_EACH).clamp(FREE_PATHS_BYTES, MAX_PATHS_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tree::{Extent, Meta, TreePath};

    fn file(path: &[u8], size: u64) -> Entry {
        let path = TreePath::new(path).unwrap();
        Entry { path, meta: Meta::default(), kind: Kind::File { size, extents: vec![Extent::Hole(size)] } }
    }

    #[test]
    fn the_largest_is_counted_and_more_is_refused() {
        let mut tally = Tally::default();
        tally.add(&file(b"a", MAX_CONTENT_BYTES), 1).unwrap();
        tally.add(&file(b"b", 1), 1).unwrap_err();
        Tally::default().add(&file(b"a", u64::MAX >> 2), 1).unwrap_err();
        let deep = |depth: usize| vec!["d"; depth].join("/").into_bytes();
        Tally::default().add(&file(&deep(MAX_DEPTH), 0), 1).unwrap();
        Tally::default().add(&file(&deep(MAX_DEPTH + 1), 0), 1).unwrap_err();
        let mut tally = Tally { entries: MAX_ENTRIES - 1, ..Tally::default() };
        tally.add(&file(b"a", 0), 1).unwrap();
        tally.add(&file(b"b", 0), 1).unwrap_err();
    }

    #[test]
    fn paths_may_be_long_where_much_else_is_stored() {
        let long = file(&vec![vec![b'x'; 250]; 100].join(&b'/'), 0);
        let length = long.path.as_bytes().len() as u64;
        let most = |tree_bytes| {
            let mut tally = Tally::default();
            (0..).take_while(|_| tally.add(&long, tree_bytes).is_ok()).count() as u64 * length
        };
        for (tree_bytes, allowed) in [
            (1 << 20, FREE_PATHS_BYTES),
            (16 << 20, 256 << 20),
            (1 << 30, MAX_PATHS_BYTES),
            (u64::MAX, MAX_PATHS_BYTES),
        ] {
            assert!((allowed - length..=allowed).contains(&most(tree_bytes)), "of {tree_bytes}");
        }
    }
}
