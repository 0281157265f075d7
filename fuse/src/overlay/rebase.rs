//! `Rebase` puts the nodes upon another snapshot after a commit.
//!
//! It is planned before any node is changed: the journal that says so must be on disk first, and
//! may not get there.

use std::{collections::HashMap, sync::Arc};

use store::format::{table::Location, tree::Entry};

use super::{
    inode_table::InodeTable,
    node::{FileNode, Ino, Node, NodeKind},
    spans::{Bytes, Spans},
};
use crate::lower::LowerFile;

/// Without anything in it, all stays as it is.
#[derive(Debug, Default)]
pub struct Rebase {
    /// What was changed up to here is in the snapshot.
    epoch: u64,
    /// The files that stand on it, as they will be.
    files: HashMap<Ino, FileNode>,
    /// No new node may have a lower number.
    next: Option<Ino>,
    /// Data files that nothing needs afterwards.
    doomed: Vec<(Ino, u32)>,
}

impl Rebase {
    /// On the snapshot of what was written up to `epoch`. `numbers` are those of its entries.
    pub fn plan(
        table: &InodeTable,
        epoch: u64,
        numbers: &[Ino],
        entries: &[Entry],
        locations: &[Location],
    ) -> Self {
        let next = numbers.iter().max().map(|highest| Ino(highest.0 + 1));
        let mut plan = Self { epoch, files: HashMap::new(), next, doomed: Vec::new() };
        let mut locations = locations.iter().copied();
        for (entry, ino) in entries.iter().zip(numbers) {
            let lower = LowerFile::of(entry, &mut locations);
            let (Some(lower), Some(file)) = (lower, table.get(*ino).and_then(Node::file)) else { continue };
            let held = generations(&file.spans);
            let mut file = file.clone();
            file.spans.forget_through(epoch);
            file.limit = file.limit_since_freeze.min(lower.size());
            file.lower = Some(Arc::new(lower));
            let kept = generations(&file.spans);
            plan.doomed.extend(held.iter().filter(|held| !kept.contains(held)).map(|held| (*ino, *held)));
            // A data file that is about to go takes no more bytes.
            file.stale |= !held.is_empty() && !kept.contains(&file.generation);
            plan.files.insert(*ino, file);
        }
        plan
    }

    /// The number the next new node gets afterwards.
    pub fn next_ino(&self, table: &InodeTable) -> Ino {
        table.next_ino().max(self.next.unwrap_or(Ino::ROOT))
    }

    /// The epoch in which a node was changed, if the snapshot does not have that.
    pub fn changed(&self, node: &Node) -> u64 {
        if node.changed <= self.epoch { 0 } else { node.changed }
    }

    /// The file that a node will be, if it is one.
    pub fn file<'a>(&'a self, ino: Ino, node: &'a Node) -> Option<&'a FileNode> {
        node.file().map(|file| self.files.get(&ino).unwrap_or(file))
    }

    /// A node as it will be.
    pub fn node(&self, ino: Ino, node: &Node) -> Node {
        let kind = match self.files.get(&ino) {
            Some(file) => NodeKind::File(file.clone()),
            None => node.kind.clone(),
        };
        Node { kind, changed: self.changed(node), xattrs: node.xattrs.clone(), ..*node }
    }

    /// Makes it so. Says which data files nothing needs any more.
    pub fn apply(self, table: &mut InodeTable) -> Vec<(Ino, u32)> {
        let next = self.next_ino(table);
        table.set_next_ino(next);
        for (_, node) in table.iter_mut().filter(|(_, node)| node.changed <= self.epoch) {
            node.changed = 0;
        }
        for (ino, planned) in self.files {
            if let Some(file) = table.get_mut(ino).and_then(Node::file_mut) {
                *file = planned;
            }
        }
        self.doomed
    }
}

/// The data files that hold something of these.
pub fn generations(spans: &Spans) -> Vec<u32> {
    let data = |bytes| match bytes {
        Bytes::Data { generation } => Some(generation),
        Bytes::Zeros => None,
    };
    let mut found: Vec<u32> = spans.iter().filter_map(|(_, bytes, _)| data(bytes)).collect();
    found.sort_unstable();
    found.dedup();
    found
}
