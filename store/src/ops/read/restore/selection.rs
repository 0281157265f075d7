//! `Selection` chooses some paths of a snapshot instead of all of it.

use std::{collections::HashMap, sync::Arc};

use crate::{
    Result,
    content::snapshot_tree::{
        SnapshotTree,
        stream::{LocatedEntry, TreeStream},
    },
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    ops::read::browse,
};

/// The entries that were chosen, in order.
#[derive(Debug)]
pub(super) struct Selection {
    tree: Arc<SnapshotTree>,
    stream: TreeStream,
    /// The chosen paths; all, if there are none.
    paths: Vec<TreePath>,
    /// The names that files got whose own was not chosen.
    renamed: HashMap<TreePath, TreePath>,
}

impl Selection {
    /// Chooses `paths`, all below them, and the directories they are in; without any, all. A file of
    /// which only a hard link is chosen takes that link's name.
    pub async fn new(record: &Record, tree: &Arc<SnapshotTree>, paths: &[TreePath]) -> Result<Self> {
        for path in paths {
            tree.entry(path).await?.ok_or_else(|| browse::missing(record, path))?;
        }
        let (tree, stream) = (Arc::clone(tree), TreeStream::new(Arc::clone(tree)).await?);
        Ok(Self { tree, stream, paths: paths.to_vec(), renamed: HashMap::new() })
    }

    /// The next of them, which take about so much memory, perhaps none; `None` after the last one.
    pub async fn next_within(&mut self, memory_bytes: usize) -> Result<Option<Vec<LocatedEntry>>> {
        let Some(entries) = self.stream.next_within(memory_bytes).await? else { return Ok(None) };
        if self.paths.is_empty() {
            return Ok(Some(entries));
        }
        let mut chosen = Vec::new();
        for found in entries {
            if self.is_chosen(&found.entry.path) || self.leads_there(&found.entry) {
                chosen.push(self.named(found).await?);
            }
        }
        Ok(Some(chosen))
    }

    /// How many entries are chosen, and the sizes of all files among them.
    pub async fn totals(mut self) -> Result<(u64, u64)> {
        let (mut count, mut bytes) = (0, 0);
        while let Some(chosen) = self.next_within(1).await? {
            count += chosen.len() as u64;
            bytes += chosen.iter().map(|found| found.entry.size()).sum::<u64>();
        }
        Ok((count, bytes))
    }

    /// Under the name by which it was chosen.
    async fn named(&mut self, found: LocatedEntry) -> Result<LocatedEntry> {
        let target = match &found.entry.kind {
            Kind::HardLink { target } if !self.is_chosen(target) => target,
            _ => return Ok(found),
        };
        if let Some(name) = self.renamed.get(target) {
            let kind = Kind::HardLink { target: name.clone() };
            return Ok(LocatedEntry { entry: Entry { kind, ..found.entry }, ..found });
        }
        let Some(file) = self.tree.file(target).await? else { return Ok(found) };
        let path = found.entry.path.clone();
        self.renamed.insert(target.clone(), path.clone());
        let locations = file.pieces.iter().map(|piece| piece.location).collect();
        Ok(LocatedEntry { entry: Entry { path, ..file.entry }, locations })
    }

    fn is_chosen(&self, path: &TreePath) -> bool {
        self.paths.iter().any(|chosen| path.is_within(chosen))
    }

    fn leads_there(&self, entry: &Entry) -> bool {
        entry.kind == Kind::Directory && self.paths.iter().any(|chosen| chosen.is_within(&entry.path))
    }
}
