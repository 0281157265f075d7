//! Lists a directory of a tree: its entries alone, or all below it.

use std::sync::Arc;

use super::{SnapshotTree, located_segment::LocatedSegment};
use crate::{
    Result,
    format::tree::{Entry, Kind, TreePath, in_order},
};

/// Appended to the path of a directory, it sorts after all that lies in it and not after the next entry: no
/// name has a smaller byte.
pub(super) const AFTER: u8 = 1;

/// One of the entries of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// How many entries of the tree come before it.
    pub ordinal: u64,
    /// Its name in the directory.
    pub name: Vec<u8>,
    /// Its kind; of files, links and devices no more than that.
    pub kind: ChildKind,
}

/// The kind of a directory's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A fifo.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// Another name of the file at this path.
    HardLink(TreePath),
}

impl From<&Kind> for ChildKind {
    fn from(kind: &Kind) -> Self {
        match kind {
            Kind::File { .. } => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Symlink { .. } => Self::Symlink,
            Kind::Fifo => Self::Fifo,
            Kind::Socket => Self::Socket,
            Kind::CharDevice { .. } => Self::CharDevice,
            Kind::BlockDevice { .. } => Self::BlockDevice,
            Kind::HardLink { target } => Self::HardLink(target.clone()),
        }
    }
}

/// A walk over the segments that have entries of a directory.
#[derive(Debug)]
pub(super) struct Walk<T> {
    directory: TreePath,
    take: fn(u64, &Entry) -> T,
    from: Vec<u8>,
    /// The last directory that was found.
    folder: Option<TreePath>,
    pub found: Vec<T>,
    /// The segment to read next.
    pub at: Option<usize>,
}

impl<T> Walk<T> {
    pub fn new(tree: &SnapshotTree, directory: &TreePath, take: fn(u64, &Entry) -> T) -> Self {
        let from = directory.as_bytes().to_vec();
        let at = tree.segment_of(&from);
        Self { directory: directory.clone(), take, from, folder: None, found: Vec::new(), at }
    }

    /// Takes the entries of the segment at `at`, and finds out which segment is next.
    pub fn take(&mut self, tree: &SnapshotTree, at: usize, part: &LocatedSegment) {
        for (place, entry) in part.tree.entries.iter().enumerate() {
            if entry.path <= self.directory || in_order(entry.path.as_bytes(), &self.from).is_lt() {
                continue;
            }
            if !entry.path.is_within(&self.directory) {
                self.at = None;
                return;
            }
            if entry.path.parent() == Some(self.directory.as_bytes()) {
                self.found.push((self.take)(tree.before[at] + place as u64, entry));
                self.folder = (entry.kind == Kind::Directory).then(|| entry.path.clone());
            }
        }
        self.at = tree.next_of(at);
        let ends_in =
            |folder: &&TreePath| part.tree.entries.last().is_some_and(|last| last.path.is_within(folder));
        // What lies deeper in the last directory is passed over.
        if let (Some(folder), Some(next)) = (self.folder.as_ref().filter(ends_in), self.at) {
            self.from = [folder.as_bytes(), &[AFTER]].concat();
            self.at = tree.segment_of(&self.from).map(|behind| behind.max(next));
        }
    }
}

/// The entries of a directory, segment by segment: no more of them is held than one segment has.
#[derive(Debug)]
pub struct Children {
    tree: Arc<SnapshotTree>,
    walk: Walk<Entry>,
}

impl Children {
    /// Of the directory at this path.
    pub fn of(tree: &Arc<SnapshotTree>, directory: &TreePath) -> Self {
        let walk = Walk::new(tree, directory, |_, entry| entry.clone());
        Self { tree: Arc::clone(tree), walk }
    }

    /// The next entries, in order; `None` after the last ones.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        while self.walk.found.is_empty()
            && let Some(at) = self.walk.at
        {
            let part = self.tree.read(at).await?;
            self.walk.take(&self.tree, at, &part);
        }
        let found = std::mem::take(&mut self.walk.found);
        Ok((!found.is_empty()).then_some(found))
    }
}

/// All that lies in a directory, however deep, segment by segment; the directory itself is left out.
#[derive(Debug)]
pub struct Below {
    tree: Arc<SnapshotTree>,
    directory: TreePath,
    at: Option<usize>,
}

impl Below {
    /// The directory at this path.
    pub fn of(tree: &Arc<SnapshotTree>, directory: &TreePath) -> Self {
        let at = tree.segment_of(directory.as_bytes());
        Self { tree: Arc::clone(tree), directory: directory.clone(), at }
    }

    /// The next entries, in order; `None` after the last ones. Files may lack some of their extents.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>> {
        while let Some(at) = self.at {
            let part = self.tree.read(at).await?;
            let found: Vec<Entry> = part
                .tree
                .entries
                .iter()
                .filter(|entry| entry.path > self.directory && entry.path.is_within(&self.directory))
                .cloned()
                .collect();
            let ends = |last: &Entry| last.path > self.directory && !last.path.is_within(&self.directory);
            self.at = self.tree.next_of(at).filter(|_| !part.tree.entries.last().is_some_and(ends));
            if !found.is_empty() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

pub(super) fn child(ordinal: u64, entry: &Entry) -> Child {
    Child { ordinal, name: entry.path.name().to_vec(), kind: (&entry.kind).into() }
}

impl SnapshotTree {
    /// The entries of a directory, in order. Segments that only have deeper entries are not read.
    pub async fn children(&self, directory: &TreePath) -> Result<Vec<Entry>> {
        self.walk(Walk::new(self, directory, |_, entry| entry.clone())).await
    }

    /// The names of a directory, in order, and which entries they are.
    pub async fn names(&self, directory: &TreePath) -> Result<Vec<Child>> {
        self.walk(Walk::new(self, directory, child)).await
    }

    async fn walk<T>(&self, mut walk: Walk<T>) -> Result<Vec<T>> {
        while let Some(at) = walk.at {
            let part = self.read(at).await?;
            walk.take(self, at, &part);
        }
        Ok(walk.found)
    }

    /// All that lies in a directory, however deep, in order; the directory itself is left out.
    pub async fn below(&self, directory: &TreePath, mut each: impl FnMut(&Entry)) -> Result<()> {
        let mut at = self.segment_of(directory.as_bytes());
        while let Some(segment) = at {
            let part = self.read(segment).await?;
            for entry in part.tree.entries.iter().filter(|entry| entry.path > *directory) {
                if !entry.path.is_within(directory) {
                    return Ok(());
                }
                each(entry);
            }
            at = self.next_of(segment);
        }
        Ok(())
    }
}
