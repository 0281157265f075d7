//! `Nodes` are the nodes of the file system: those that were changed, and below them the snapshot, read by need.
//!
//! What is changed stays in the [`InodeTable`]. What is as the snapshot has it is made of its entry when somebody asks,
//! and may be dropped at any time. An answer that needs something that is not here says what is [`Missing`]:
//! whoever asked has that loaded, without any lock, and asks again.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use parking_lot::Mutex;

use super::{
    base_tree::{BaseTree, Missing, Now},
    change::Change,
    inode_table::{InodeTable, Misfit},
    node::{Directory, Ino, Node, NodeKind, Slot},
};
use crate::attributes::{FileKind, kind_of};

/// How many bytes of nodes that are as below are kept.
const CLEAN_BYTES: usize = 4 << 20;

/// The nodes, and the snapshot they stand on.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// Those that were changed, and some that soon will be.
    pub table: InodeTable,
    pub base: Option<BaseTree>,
    clean: CleanNodes,
}

/// A node as it is now.
#[derive(Debug)]
pub enum FoundNode<'a> {
    Held(&'a Node),
    Clean(Arc<Node>),
}

impl Deref for FoundNode<'_> {
    type Target = Node;

    fn deref(&self) -> &Node {
        match self {
            Self::Held(node) => node,
            Self::Clean(node) => node,
        }
    }
}

/// A name in a directory, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: FileKind,
}

/// Why a change cannot be made.
#[derive(Debug)]
pub enum Unmade {
    Missing(Missing),
    Misfit(Misfit),
}

impl From<Missing> for Unmade {
    fn from(missing: Missing) -> Self {
        Self::Missing(missing)
    }
}

impl Nodes {
    pub fn new(table: InodeTable, base: Option<BaseTree>) -> Self {
        Self { table, base, clean: CleanNodes::default() }
    }

    /// Keeps so many bytes at most of nodes that are as below, and at least the last one.
    pub fn keeping(mut self, bytes: usize) -> Self {
        self.clean.most = bytes;
        self
    }

    /// How many nodes are in memory.
    pub fn count(&self) -> usize {
        self.table.len() + self.clean.kept.lock().nodes.len()
    }

    /// Stands on another snapshot from now on.
    pub fn stand_on(&mut self, base: Option<BaseTree>) {
        self.base = base;
        self.clean.clear();
    }

    /// The node with this number; `None` if there is none.
    pub fn node(&self, ino: Ino) -> Now<Option<FoundNode<'_>>> {
        if let Some(node) = self.table.get(ino) {
            return Ok(Some(FoundNode::Held(node)));
        }
        let Some(base) = self.base.as_ref().filter(|_| !self.table.is_gone(ino)) else { return Ok(None) };
        if let Some(node) = self.clean.get(ino) {
            return Ok(Some(FoundNode::Clean(node)));
        }
        Ok(base.node(ino)?.map(|node| FoundNode::Clean(self.clean.put(ino, node))))
    }

    /// What has this name in a directory.
    pub fn child(&self, folder: &Node, name: &[u8]) -> Now<Option<Ino>> {
        let Some(directory) = folder.directory() else { return Ok(None) };
        match (directory.slots.get(name), &self.base, folder.below.first()) {
            (Some(slot), ..) => Ok(slot.ino),
            (None, Some(base), Some(path)) => base.child(path, name),
            _ => Ok(None),
        }
    }

    /// All names of a directory, in order.
    pub fn names(&self, folder: &Node) -> Now<Vec<Named>> {
        let Some(directory) = folder.directory() else { return Ok(Vec::new()) };
        let below = match (&self.base, folder.below.first()) {
            (Some(base), Some(path)) => base.names(path)?,
            _ => Vec::new(),
        };
        let mut names = Vec::with_capacity(below.len());
        let mut slots = directory.slots.iter().peekable();
        let named = |name: &[u8], slot: &Slot| -> Now<Option<Named>> {
            let Some(ino) = slot.ino else { return Ok(None) };
            let kind = self.node(ino)?.map(|node| kind_of(&node));
            Ok(kind.map(|kind| Named { name: name.to_vec(), ino, kind }))
        };
        for child in below {
            while let Some((name, slot)) = slots.next_if(|(name, _)| **name < child.name) {
                names.extend(named(name, slot)?);
            }
            match slots.next_if(|(name, _)| **name == child.name) {
                Some((name, slot)) => names.extend(named(name, slot)?),
                None => names.push(Named { name: child.name, ino: child.ino, kind: child.kind }),
            }
        }
        for (name, slot) in slots {
            names.extend(named(name, slot)?);
        }
        Ok(names)
    }

    /// Whether a directory has no names.
    pub fn is_empty(&self, folder: &Node) -> Now<bool> {
        let Some(Directory { slots, .. }) = folder.directory() else { return Ok(true) };
        if slots.values().any(|slot| slot.ino.is_some()) {
            return Ok(false);
        }
        match (&self.base, folder.below.first()) {
            (Some(base), Some(path)) => {
                Ok(base.names(path)?.iter().all(|child| slots.contains_key(&child.name)))
            }
            _ => Ok(true),
        }
    }

    /// Whether `ino` is `of` or lies somewhere in it.
    pub fn is_within(&self, mut ino: Ino, of: Ino) -> Now<bool> {
        loop {
            if ino == of {
                return Ok(true);
            }
            match self.node(ino)?.as_ref().and_then(|node| node.directory()) {
                Some(directory) if directory.parent != ino => ino = directory.parent,
                _ => return Ok(false),
            }
        }
    }

    /// Takes a node of the snapshot into the table: it is about to be changed.
    pub fn hold(&mut self, ino: Ino) -> Now<bool> {
        if self.table.get(ino).is_some() {
            return Ok(true);
        }
        let Some(node) = self.node(ino)?.map(|node| Node::clone(&node)) else { return Ok(false) };
        self.clean.drop(ino);
        self.table.hold(ino, node);
        Ok(true)
    }

    /// Notes in the table what the snapshot has by this name in a directory, and says what is there.
    fn hold_name(&mut self, parent: Ino, name: &[u8]) -> Now<Option<Ino>> {
        if !self.hold(parent)? {
            return Ok(None);
        }
        let Some(folder) = self.table.get(parent) else { return Ok(None) };
        let found = self.child(folder, name)?;
        if let (Some(ino), Some(directory)) =
            (found, self.table.get_mut(parent).and_then(Node::directory_mut))
        {
            let slot = || Slot { ino: Some(ino), in_base: true };
            directory.slots.entry(name.to_vec()).or_insert_with(slot);
        }
        Ok(found)
    }

    /// The same, and the node that has the name is held as well.
    pub fn hold_named(&mut self, parent: Ino, name: &[u8]) -> Now<Option<Ino>> {
        let found = self.hold_name(parent, name)?;
        if let Some(ino) = found {
            self.hold(ino)?;
        }
        Ok(found)
    }

    /// Has all in the table that a change is about: then it can be applied.
    pub fn bring(&mut self, change: &Change) -> Now<()> {
        match change {
            Change::Create { parent, name, .. } | Change::Unlink { parent, name, .. } => {
                self.hold_named(*parent, name)?;
            }
            Change::Link { ino, parent, name, .. } => {
                self.hold(*ino)?;
                self.hold_name(*parent, name)?;
            }
            Change::Rename { parent, name, new_parent, new_name, .. } => {
                self.hold_named(*parent, name)?;
                self.hold_named(*new_parent, new_name)?;
            }
            Change::Set { ino, .. }
            | Change::Xattr { ino, .. }
            | Change::Write { ino, .. }
            | Change::Zero { ino, .. }
            | Change::Truncate { ino, .. } => {
                self.hold(*ino)?;
            }
            Change::Sync { .. } | Change::Epoch { .. } | Change::Intent(_) | Change::NoIntent => {}
        }
        Ok(())
    }

    /// Brings what a change is about, and makes it. If something is missing, nothing has happened.
    pub fn apply(&mut self, change: &Change) -> Result<(), Unmade> {
        self.bring(change)?;
        self.table.apply(change).map_err(Unmade::Misfit)
    }

    /// As [`Self::node`], whatever that takes.
    pub async fn fetch(&self, ino: Ino) -> store::Result<Option<Node>> {
        loop {
            match self.node(ino) {
                Ok(found) => return Ok(found.map(|node| Node::clone(&node))),
                Err(missing) => missing.load().await?,
            }
        }
    }

    /// As [`Self::child`], whatever that takes.
    pub async fn fetch_child(&self, folder: &Node, name: &[u8]) -> store::Result<Option<Ino>> {
        loop {
            match self.child(folder, name) {
                Ok(child) => return Ok(child),
                Err(missing) => missing.load().await?,
            }
        }
    }

    /// As [`Self::names`], whatever that takes.
    pub async fn fetch_names(&self, folder: &Node) -> store::Result<Vec<Named>> {
        loop {
            match self.names(folder) {
                Ok(names) => return Ok(names),
                Err(missing) => missing.load().await?,
            }
        }
    }
}

/// Nodes that are as below, the last that were asked for.
#[derive(Debug)]
struct CleanNodes {
    most: usize,
    kept: Mutex<KeptNodes>,
}

#[derive(Debug, Default)]
struct KeptNodes {
    nodes: HashMap<Ino, (Arc<Node>, u64)>,
    bytes: usize,
    clock: u64,
}

impl Default for CleanNodes {
    fn default() -> Self {
        Self { most: CLEAN_BYTES, kept: Mutex::default() }
    }
}

impl Clone for CleanNodes {
    /// With nothing in it: they can be had again.
    fn clone(&self) -> Self {
        Self { most: self.most, kept: Mutex::default() }
    }
}

impl CleanNodes {
    fn get(&self, ino: Ino) -> Option<Arc<Node>> {
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        let (node, used) = kept.nodes.get_mut(&ino)?;
        *used = now;
        Some(Arc::clone(node))
    }

    fn put(&self, ino: Ino, node: Node) -> Arc<Node> {
        let node = Arc::new(node);
        let mut kept = self.kept.lock();
        kept.clock += 1;
        let now = kept.clock;
        kept.bytes += weight(&node);
        if let Some((before, _)) = kept.nodes.insert(ino, (Arc::clone(&node), now)) {
            kept.bytes -= weight(&before);
        }
        if kept.bytes > self.most {
            kept.drop_older(self.most / 2, now);
        }
        node
    }

    fn drop(&self, ino: Ino) {
        let mut kept = self.kept.lock();
        if let Some((node, _)) = kept.nodes.remove(&ino) {
            kept.bytes -= weight(&node);
        }
    }

    fn clear(&self) {
        *self.kept.lock() = KeptNodes::default();
    }
}

impl KeptNodes {
    /// Drops the nodes that were not asked for longest, until so many bytes are left, but not the one that was asked
    /// for at `last`.
    fn drop_older(&mut self, most: usize, last: u64) {
        let mut by_use: Vec<(u64, Ino)> = self.nodes.iter().map(|(ino, (_, used))| (*used, *ino)).collect();
        by_use.sort_unstable();
        for (used, ino) in by_use {
            if self.bytes <= most || used == last {
                return;
            }
            if let Some((node, _)) = self.nodes.remove(&ino) {
                self.bytes -= weight(&node);
            }
        }
    }
}

/// About how many bytes a node takes.
fn weight(node: &Node) -> usize {
    let paths: usize = node.below.iter().map(|path| path.as_bytes().len() + 24).sum();
    let parts = match &node.kind {
        NodeKind::File(file) => file.lower.as_ref().map_or(0, |lower| lower.parts().len()),
        _ => 0,
    };
    size_of::<Node>() + 64 + paths + parts * size_of::<crate::lower::Part>()
}
