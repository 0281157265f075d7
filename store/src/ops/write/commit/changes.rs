//! `TreeChanges` lists the changes of a tree since its base.

use crate::{
    content::chunk::Piece,
    format::{
        table::Location,
        tree::{Entry, Extent, TreePath},
    },
    id::ChunkId,
    tree::walk::Skipped,
};

/// The changes of a tree since its base, in the order of paths.
#[derive(Debug, Default)]
pub struct TreeChanges {
    /// Of one path, a removal comes before the new entry.
    pub changes: Vec<TreeChange>,
    /// The entries that were left out of the tree.
    pub skipped: Skipped,
}

/// A change of a tree.
#[derive(Debug)]
pub enum TreeChange {
    /// The base's entry here is gone, with all below it.
    Removed(TreePath),
    /// This entry is new here, or stands in place of the base's.
    Put(PutEntry),
}

/// An entry that is new, or stands in place of another.
#[derive(Debug)]
pub struct PutEntry {
    /// The entry. The extents of a file whose content must be read are to be found out.
    pub entry: Entry,
    /// Its number among the files, if its content must be read.
    pub file: Option<usize>,
    /// The locations of chunks that it, or the file before it, refers to.
    pub pieces: Vec<Piece>,
}

impl TreeChange {
    /// The entry that is put.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Self::Put(put) => Some(&put.entry),
            Self::Removed(_) => None,
        }
    }

    /// Its number among the files, if its content must be read.
    pub(super) fn file(&self) -> Option<usize> {
        match self {
            Self::Put(put) => put.file,
            Self::Removed(_) => None,
        }
    }

    /// The entry whose content must be read, with its number among the files.
    pub fn rewritten(&self) -> Option<(&Entry, usize)> {
        self.entry().zip(self.file())
    }

    /// How many bytes must be read.
    pub(super) fn bytes(&self) -> u64 {
        self.rewritten().map_or(0, |(entry, _)| entry.size())
    }

    /// Where chunks lie that it refers to.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (ChunkId, Location)> + '_ {
        let pieces = match self {
            Self::Put(put) => put.pieces.as_slice(),
            Self::Removed(_) => &[],
        };
        pieces.iter().map(|piece| (piece.id, piece.location))
    }
}

/// The changes with the extents of the files that were read, in their order.
pub(super) fn filled(mut changes: Vec<TreeChange>, extents: Vec<Vec<Extent>>) -> Vec<TreeChange> {
    let mut extents = extents.into_iter();
    for change in &mut changes {
        if let TreeChange::Put(PutEntry { entry, file: Some(_), .. }) = change
            && let Some(extents) = extents.next()
        {
            entry.set_extents(extents);
        }
    }
    changes
}
