//! `BaseTree` is the snapshot below as nodes: each is made of its entry when somebody asks for it.

use std::{collections::BTreeMap, sync::Arc};

use store::{
    content::snapshot_tree::{Absent, Child, ChildKind, SnapshotTree},
    format::tree::{Entry, Kind, Meta, TreePath, is_plain_xattr},
};

use super::{
    node::{Directory, FileNode, Ino, Node, NodeKind},
    numbers::Numbers,
};
use crate::{attributes::FileKind, lower::LowerFile};

/// The tree below, and the numbers of its entries.
#[derive(Clone, Debug)]
pub struct BaseTree {
    pub tree: Arc<SnapshotTree>,
    pub numbers: Arc<Numbers>,
}

/// Something of the snapshot below that is not on this host, or not in memory.
#[derive(Clone, Debug)]
pub struct Missing {
    tree: Arc<SnapshotTree>,
    what: Absent,
}

impl Missing {
    /// Brings it here, whatever that takes.
    pub async fn load(&self) -> store::Result<()> {
        self.tree.load(&self.what).await
    }
}

pub type Now<T> = Result<T, Missing>;

/// A name in a directory of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseName {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: FileKind,
}

impl BaseTree {
    /// Below a mount that has changed nothing yet.
    pub fn fresh(tree: Arc<SnapshotTree>) -> Self {
        let numbers = Arc::new(Numbers::fresh(tree.len()));
        Self { tree, numbers }
    }

    /// Whether the snapshot has this node.
    pub fn has(&self, ino: Ino) -> bool {
        self.numbers.ordinal(ino).is_some()
    }

    /// The node with this number, with all its names.
    pub fn node(&self, ino: Ino) -> Now<Option<Node>> {
        let Some(ordinal) = self.numbers.ordinal(ino) else { return Ok(None) };
        let Some((entry, file)) = self.ask(self.tree.whole_now(ordinal))? else { return Ok(None) };
        let mut below = vec![entry.path.clone()];
        let kind = match &entry.kind {
            Kind::File { .. } => {
                let Some(file) = file else { return Ok(None) };
                below.extend_from_slice(self.ask(self.tree.links_now())?.to(&entry.path));
                let mut locations = file.pieces.iter().map(|piece| piece.location);
                let Some(lower) = LowerFile::of(&file.entry, &mut locations) else { return Ok(None) };
                NodeKind::File(FileNode::of(Arc::new(lower)))
            }
            Kind::Directory => {
                let Some(parent) = self.parent(&entry)? else { return Ok(None) };
                NodeKind::Directory(Directory { parent, slots: BTreeMap::new() })
            }
            Kind::Symlink { target } => {
                for ordinal in self.numbers.aliases(ino) {
                    below.extend(self.ask(self.tree.at_now(ordinal))?.map(|entry| entry.path));
                }
                NodeKind::Symlink { target: target.clone() }
            }
            Kind::Fifo => NodeKind::Fifo,
            Kind::Socket => NodeKind::Socket,
            Kind::CharDevice { device } => NodeKind::CharDevice { device: *device },
            Kind::BlockDevice { device } => NodeKind::BlockDevice { device: *device },
            Kind::HardLink { .. } => return Ok(None),
        };
        let names = below.len() as u32;
        Ok(Some(Node { names, below, ..plain_node(&entry.meta, kind) }))
    }

    fn parent(&self, entry: &Entry) -> Now<Option<Ino>> {
        match entry.path.parent().map(TreePath::new) {
            None => Ok(Some(Ino::ROOT)),
            Some(Ok(path)) => self.ino(&path),
            Some(Err(_)) => Ok(None),
        }
    }

    /// The number of what a path names.
    pub fn ino(&self, path: &TreePath) -> Now<Option<Ino>> {
        let Some(found) = self.ask(self.tree.find_now(path))? else { return Ok(None) };
        match &found.entry.kind {
            Kind::HardLink { target } => {
                let file = self.ask(self.tree.find_now(target))?;
                Ok(file.and_then(|file| self.numbers.ino(file.ordinal)))
            }
            _ => Ok(self.numbers.ino(found.ordinal)),
        }
    }

    /// What has this name in a directory.
    pub fn child(&self, directory: &TreePath, name: &[u8]) -> Now<Option<Ino>> {
        match directory.join(name) {
            Ok(path) => self.ino(&path),
            Err(_) => Ok(None),
        }
    }

    /// All names of a directory, in order.
    pub fn names(&self, directory: &TreePath) -> Now<Vec<BaseName>> {
        let children = self.ask(self.tree.names_now(directory))?;
        children.iter().filter_map(|child| self.name(child).transpose()).collect()
    }

    fn name(&self, child: &Child) -> Now<Option<BaseName>> {
        let (ino, kind) = match &child.kind {
            ChildKind::HardLink(target) => (self.ino(target)?, FileKind::File),
            ChildKind::File => (self.numbers.ino(child.ordinal), FileKind::File),
            ChildKind::Directory => (self.numbers.ino(child.ordinal), FileKind::Directory),
            ChildKind::Symlink => (self.numbers.ino(child.ordinal), FileKind::Symlink),
            ChildKind::Fifo => (self.numbers.ino(child.ordinal), FileKind::Fifo),
            ChildKind::Socket => (self.numbers.ino(child.ordinal), FileKind::Socket),
            ChildKind::CharDevice => (self.numbers.ino(child.ordinal), FileKind::CharDevice),
            ChildKind::BlockDevice => (self.numbers.ino(child.ordinal), FileKind::BlockDevice),
        };
        Ok(ino.map(|ino| BaseName { name: child.name.clone(), ino, kind }))
    }

    fn ask<T>(&self, answer: Result<T, Absent>) -> Now<T> {
        answer.map_err(|what| Missing { tree: Arc::clone(&self.tree), what })
    }
}

/// A node of the snapshot. Whoever copies files out of a mount copies what they are given: nothing
/// that lends rights.
fn plain_node(meta: &Meta, kind: NodeKind) -> Node {
    let mut node = Node::new(meta, kind);
    node.mode = meta.plain_mode();
    node.xattrs.retain(|name, _| is_plain_xattr(name));
    node
}
