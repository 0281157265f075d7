//! `Rebase` puts the nodes upon another snapshot after a commit.
//!
//! It is planned before any node is changed: the journal that says so must be on disk first, and
//! may not get there.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use store::format::tree::TreePath;

use super::{
    base_tree::BaseTree,
    inode_table::InodeTable,
    node::{Directory, FileNode, Ino, Node, NodeKind, Slot},
    nodes::Nodes,
};
use crate::lower::LowerFile;

/// A snapshot that was made of nodes, as whoever goes on from it needs it.
#[derive(Clone, Debug)]
pub struct NewBase {
    /// The tree, and the numbers of its entries.
    pub base: BaseTree,
    /// The nodes as they were when the snapshot was taken.
    pub taken: Arc<InodeTable>,
    /// The last epoch that it has.
    pub epoch: u64,
    /// Where it has those of the nodes that it does not have where the snapshot before has them.
    pub paths: HashMap<Ino, Vec<TreePath>>,
    /// What it has of the files whose bytes had changed.
    pub files: HashMap<Ino, Arc<LowerFile>>,
}

/// Without anything in it, all stays as it is.
#[derive(Debug, Default)]
pub struct Rebase {
    onto: Option<NewBase>,
    /// Those that stay in the table, as they will be.
    nodes: HashMap<Ino, Node>,
    /// Data files that nothing needs afterwards.
    doomed: Vec<(Ino, u32)>,
}

impl Rebase {
    pub fn plan(table: &InodeTable, onto: NewBase) -> Self {
        let mut plan = Self::default();
        for (ino, node) in table.iter() {
            let (node, doomed) = onto.stood_on(ino, node);
            plan.doomed.extend(doomed.into_iter().map(|generation| (ino, generation)));
            if onto.must_stay(ino, &node) {
                plan.nodes.insert(ino, node);
            }
        }
        plan.onto = Some(onto);
        plan
    }

    /// The number the next new node gets afterwards.
    pub fn next_ino(&self, table: &InodeTable) -> Ino {
        let next = self.onto.as_ref().map_or(Ino::ROOT, |onto| onto.base.numbers.next());
        table.next_ino().max(next)
    }

    /// The nodes that are in the table afterwards, as they will be.
    pub fn nodes<'a>(&'a self, table: &'a InodeTable) -> impl Iterator<Item = (Ino, &'a Node)> {
        let stays = move |(ino, node): (Ino, &'a Node)| match &self.onto {
            Some(_) => self.nodes.get(&ino).map(|planned| (ino, planned)),
            None => Some((ino, node)),
        };
        table.iter().filter_map(stays)
    }

    /// The snapshot that is below afterwards, if it is another.
    pub fn base(&self) -> Option<&BaseTree> {
        self.onto.as_ref().map(|onto| &onto.base)
    }

    /// Makes it so. Says which data files nothing needs any more.
    pub fn apply(mut self, nodes: &mut Nodes) -> Vec<(Ino, u32)> {
        let Some(onto) = self.onto.take() else { return self.doomed };
        let next = nodes.table.next_ino().max(onto.base.numbers.next());
        nodes.table.set_next_ino(next);
        let all: Vec<Ino> = nodes.table.iter().map(|(ino, _)| ino).collect();
        for ino in all {
            match (self.nodes.remove(&ino), nodes.table.get_mut(ino)) {
                (Some(planned), Some(node)) => *node = planned,
                _ => nodes.table.release(ino),
            }
        }
        nodes.table.keep_gone(|ino| onto.base.has(ino));
        nodes.stand_on(Some(onto.base));
        self.doomed
    }
}

impl NewBase {
    /// A node as it will be, and the generations of data files that it then has no use for.
    fn stood_on(&self, ino: Ino, node: &Node) -> (Node, Vec<u32>) {
        let is_in = self.base.has(ino);
        let changed = if node.changed <= self.epoch { 0 } else { node.changed };
        let below = match self.paths.get(&ino) {
            _ if !is_in => Vec::new(),
            Some(paths) => paths.clone(),
            None => node.below.clone(),
        };
        let mut doomed = Vec::new();
        let kind = match &node.kind {
            NodeKind::File(file) if is_in => {
                let (file, unused) = self.file(ino, file);
                doomed = unused;
                NodeKind::File(file)
            }
            NodeKind::Directory(directory) => {
                let taken = self.taken.get(ino).and_then(Node::directory);
                NodeKind::Directory(self.directory(directory, taken, is_in))
            }
            kind => kind.clone(),
        };
        (Node { kind, changed, below, xattrs: node.xattrs.clone(), ..*node }, doomed)
    }

    fn file(&self, ino: Ino, before: &FileNode) -> (FileNode, Vec<u32>) {
        let mut file = before.clone();
        // One that was as below when the snapshot was taken has the same bytes in it.
        let lower = self.files.get(&ino).or(before.lower.as_ref()).cloned().unwrap_or_default();
        let held = file.spans.generations();
        file.spans.forget_through(self.epoch);
        file.limit = file.limit_since_freeze.min(lower.size());
        file.lower = Some(lower);
        let kept = file.spans.generations();
        // A data file that is about to go takes no more bytes.
        file.stale |= !held.is_empty() && !kept.contains(&file.generation);
        (file, held.into_iter().filter(|held| !kept.contains(held)).collect())
    }

    /// A directory that had the names `taken` when the snapshot was taken.
    fn directory(&self, now: &Directory, taken: Option<&Directory>, is_in: bool) -> Directory {
        let was = |name: &Vec<u8>| taken.and_then(|taken| taken.slots.get(name));
        let is_stored = |ino: &Ino| is_in && self.base.has(*ino);
        let mut slots: BTreeMap<Vec<u8>, Slot> = BTreeMap::new();
        for (name, slot) in &now.slots {
            let (before, in_base) = match was(name) {
                Some(before) => (Some(before.ino), before.ino.as_ref().is_some_and(is_stored)),
                None => (None, slot.in_base && is_in),
            };
            let is_same = before == Some(slot.ino) && in_base == slot.ino.is_some();
            if !is_same && (in_base || slot.ino.is_some()) {
                slots.insert(name.clone(), Slot { ino: slot.ino, in_base });
            }
        }
        // Names that were given back to what the old snapshot has by them need no slot, and the new one has others.
        let lost = taken.into_iter().flat_map(|taken| &taken.slots);
        for (name, before) in lost.filter(|(name, _)| !now.slots.contains_key(*name)) {
            if before.ino.as_ref().is_some_and(is_stored) {
                slots.insert(name.clone(), Slot { ino: None, in_base: true });
            }
        }
        Directory { parent: now.parent, slots }
    }

    /// Whether a node cannot be made of what the snapshot has.
    fn must_stay(&self, ino: Ino, node: &Node) -> bool {
        let has_slots = node.directory().is_some_and(|directory| !directory.slots.is_empty());
        let differs = node.file().is_some_and(|file| !file.is_as_below());
        node.names == 0 || node.changed > 0 || has_slots || differs || !self.base.has(ino)
    }
}
