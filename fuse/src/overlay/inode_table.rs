//! `InodeTable` holds all nodes of the file system by number, and applies changes to them.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry as MapEntry},
    hash::{BuildHasherDefault, Hasher},
    sync::Arc,
};

use store::format::{
    table::Location,
    tree::{Entry, Kind, Meta, Time, is_plain_xattr},
};

use super::{
    change::{Change, NewKind, Setting},
    node::{Directory, FileNode, Ino, Node, NodeKind},
};
use crate::lower::LowerFile;

/// A change that does not fit: the journal is not of this snapshot, or is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a change does not fit the nodes it is about: {0}")]
pub struct Misfit(pub String);

/// Numbers are ours, given out one after another: nobody can choose ones that collide, and a
/// strong hash would only cost time.
#[derive(Debug, Default)]
pub struct InoHasher(u64);

impl Hasher for InoHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// In boxes: a table of nodes themselves would be mostly empty memory, and all of it is touched
/// before a mount is ready.
type Nodes = HashMap<Ino, Box<Node>, BuildHasherDefault<InoHasher>>;

#[derive(Clone, Debug)]
pub struct InodeTable {
    nodes: Nodes,
    next: Ino,
    /// Changes made now belong to this epoch; the first is 1.
    pub epoch: u64,
}

impl InodeTable {
    /// An empty root.
    pub fn empty(root: Meta) -> Self {
        let kind =
            NodeKind::Directory(Directory { parent: Ino::ROOT, children: BTreeMap::new(), folders: 0 });
        let node = Node { names: 1, ..node(&root, kind) };
        Self { nodes: Nodes::from_iter([(Ino::ROOT, Box::new(node))]), next: Ino(2), epoch: 1 }
    }

    /// The nodes of a snapshot. Entry `at` gets the number `number(at)`; another name of a file
    /// gets that of the file. Symbolic links of the same number are names of one node.
    pub fn of(
        entries: &[Entry],
        locations: &[Location],
        number: impl Fn(usize) -> Ino,
    ) -> Result<Self, Misfit> {
        let mut locations = locations.iter().copied();
        let mut nodes = Nodes::with_capacity_and_hasher(entries.len(), Default::default());
        // The directories above the entry before: whatever comes next lies in one of them.
        let mut above: Vec<(&[u8], Ino)> = Vec::new();
        let mut next = Ino(2);
        for (at, entry) in entries.iter().enumerate() {
            let misfit = || Misfit(entry.path.to_string());
            let parent = match entry.path.parent() {
                None => Ino::ROOT,
                Some(path) => {
                    while above.last().is_some_and(|(last, _)| *last != path) {
                        above.pop();
                    }
                    above.last().ok_or_else(misfit)?.1
                }
            };
            let ino = match &entry.kind {
                Kind::HardLink { target } => {
                    let first = entries[..at].binary_search_by(|entry| entry.path.cmp(target));
                    number(first.map_err(|_| misfit())?)
                }
                _ => number(at),
            };
            if entry.kind == Kind::Directory {
                above.push((entry.path.as_bytes(), ino));
            }
            next = next.max(Ino(ino.0 + 1));
            if let Some(kind) = below(entry, parent, &mut locations) {
                let node = plain_node(&entry.meta, kind);
                match nodes.entry(ino) {
                    MapEntry::Vacant(vacant) => drop(vacant.insert(Box::new(node))),
                    // Another name of a link, which a snapshot has as another link.
                    MapEntry::Occupied(first) if is_same_link(first.get(), &node) => {}
                    MapEntry::Occupied(_) => return Err(misfit()),
                }
            }
            let named = nodes.get_mut(&ino).ok_or_else(misfit)?;
            named.names += 1;
            if !entry.path.is_root() {
                let folder =
                    nodes.get_mut(&parent).and_then(|node| node.directory_mut()).ok_or_else(misfit)?;
                folder.children.insert(entry.path.name().to_vec(), ino);
                folder.folders += u32::from(entry.kind == Kind::Directory);
            }
        }
        if !nodes.contains_key(&Ino::ROOT) {
            return Err(Misfit("there is no root".to_owned()));
        }
        Ok(Self { nodes, next, epoch: 1 })
    }

    pub fn get(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino).map(AsRef::as_ref)
    }

    pub fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(&ino).map(AsMut::as_mut)
    }

    pub fn child(&self, parent: Ino, name: &[u8]) -> Option<Ino> {
        self.get(parent)?.directory()?.children.get(name).copied()
    }

    pub fn iter(&self) -> impl Iterator<Item = (Ino, &Node)> {
        self.nodes.iter().map(|(ino, node)| (*ino, node.as_ref()))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Ino, &mut Node)> {
        self.nodes.iter_mut().map(|(ino, node)| (*ino, node.as_mut()))
    }

    /// The number the next new node gets.
    pub fn next_ino(&self) -> Ino {
        self.next
    }

    pub fn set_next_ino(&mut self, next: Ino) {
        self.next = self.next.max(next);
    }

    /// Puts a node in, whatever was there.
    pub fn put(&mut self, ino: Ino, node: Node) {
        self.set_next_ino(Ino(ino.0 + 1));
        self.nodes.insert(ino, Box::new(node));
    }

    /// Forgets a node that has no name and that nobody uses.
    pub fn remove(&mut self, ino: Ino) -> Option<Node> {
        self.nodes.remove(&ino).map(|node| *node)
    }

    /// Counts the directories in each directory, after nodes were put in.
    pub fn count_folders(&mut self) {
        let is_folder = |ino: &&Ino| self.get(**ino).is_some_and(|node| node.directory().is_some());
        let folders = self.iter().filter_map(|(ino, node)| Some((ino, node.directory()?)));
        let counted: Vec<(Ino, usize)> =
            folders.map(|(ino, folder)| (ino, folder.children.values().filter(is_folder).count())).collect();
        for (ino, count) in counted {
            if let Some(folder) = self.get_mut(ino).and_then(Node::directory_mut) {
                folder.folders = count as u32;
            }
        }
    }

    /// Whether `ino` is `of` or lies somewhere in it.
    pub fn is_within(&self, mut ino: Ino, of: Ino) -> bool {
        loop {
            if ino == of {
                return true;
            }
            match self.get(ino).and_then(Node::directory) {
                Some(directory) if directory.parent != ino => ino = directory.parent,
                _ => return false,
            }
        }
    }

    /// The nodes that something was changed of after `epoch`; after 0, since the snapshot.
    pub fn changed_since(&self, epoch: u64) -> impl Iterator<Item = Ino> + '_ {
        self.iter().filter(move |(_, node)| node.names > 0 && node.changed > epoch).map(|(ino, _)| ino)
    }

    /// Does what `change` says. The caller has seen to it that it can be done.
    pub fn apply(&mut self, change: &Change) -> Result<(), Misfit> {
        let misfit = || Misfit(format!("{change:?}"));
        let epoch = self.epoch;
        match change {
            Change::Create { parent, name, ino, kind, mode, uid, gid, time } => {
                let meta = Meta { mode: *mode, uid: *uid, gid: *gid, mtime: *time, ..Meta::default() };
                let node = Node { names: 1, changed: epoch, ..node(&meta, new_kind(kind, *parent)) };
                if *ino < self.next {
                    return Err(misfit());
                }
                self.put(*ino, node);
                self.add_name(*parent, name, *ino, *time).ok_or_else(misfit)
            }
            Change::Link { ino, parent, name, time } => {
                let node = self.changed(*ino, *time).ok_or_else(misfit)?;
                node.names += 1;
                self.add_name(*parent, name, *ino, *time).ok_or_else(misfit)
            }
            Change::Unlink { parent, name, time } => {
                let ino = self.take_name(*parent, name, *time).ok_or_else(misfit)?;
                self.lose_name(ino, *time).ok_or_else(misfit)
            }
            Change::Rename { parent, name, new_parent, new_name, exchange, time } => {
                let moved = self.take_name(*parent, name, *time).ok_or_else(misfit)?;
                let replaced = self.take_name(*new_parent, new_name, *time);
                self.changed(moved, *time).ok_or_else(misfit)?;
                self.add_name(*new_parent, new_name, moved, *time).ok_or_else(misfit)?;
                match replaced {
                    Some(other) if *exchange => {
                        self.changed(other, *time).ok_or_else(misfit)?;
                        self.add_name(*parent, name, other, *time).ok_or_else(misfit)
                    }
                    Some(other) => self.lose_name(other, *time).ok_or_else(misfit),
                    None => Ok(()),
                }
            }
            Change::Set { ino, setting, time } => {
                let node = self.changed(*ino, *time).ok_or_else(misfit)?;
                let Setting { mode, uid, gid, atime, mtime } = setting;
                node.mode = mode.unwrap_or(node.mode);
                node.uid = uid.unwrap_or(node.uid);
                node.gid = gid.unwrap_or(node.gid);
                node.atime = atime.unwrap_or(node.atime);
                node.mtime = mtime.unwrap_or(node.mtime);
                Ok(())
            }
            Change::Xattr { ino, name, value, time } => {
                let node = self.changed(*ino, *time).ok_or_else(misfit)?;
                match value {
                    Some(value) => node.xattrs.insert(name.clone(), value.clone()),
                    None => node.xattrs.remove(name),
                };
                Ok(())
            }
            Change::Write { ino, generation, offset, len, time, .. } => {
                let end = offset.checked_add(*len).ok_or_else(misfit)?;
                let file = self.written(*ino, *time).ok_or_else(misfit)?;
                file.write(*offset..end, *generation, epoch);
                Ok(())
            }
            Change::Zero { ino, offset, len, extend, time } => {
                let end = offset.checked_add(*len).ok_or_else(misfit)?;
                let file = self.written(*ino, *time).ok_or_else(misfit)?;
                if *extend {
                    file.size = file.size.max(end);
                }
                file.zero(*offset..end, epoch);
                Ok(())
            }
            Change::Truncate { ino, size, time } => {
                self.written(*ino, *time).ok_or_else(misfit)?.truncate(*size);
                Ok(())
            }
            Change::Epoch { epoch } => {
                self.freeze(*epoch);
                Ok(())
            }
            Change::Sync { .. } | Change::Intent(_) | Change::NoIntent => Ok(()),
        }
    }

    fn freeze(&mut self, epoch: u64) {
        self.epoch = epoch;
        for node in self.nodes.values_mut() {
            if let NodeKind::File(file) = &mut node.kind {
                file.limit_since_freeze = file.size;
            }
        }
    }

    /// A node whose attributes change.
    fn changed(&mut self, ino: Ino, time: Time) -> Option<&mut Node> {
        let epoch = self.epoch;
        let node = self.nodes.get_mut(&ino)?;
        (node.ctime, node.changed) = (time, epoch);
        Some(node)
    }

    /// A file whose bytes change.
    fn written(&mut self, ino: Ino, time: Time) -> Option<&mut FileNode> {
        let node = self.changed(ino, time)?;
        node.mtime = time;
        node.file_mut()
    }

    fn add_name(&mut self, parent: Ino, name: &[u8], ino: Ino, time: Time) -> Option<()> {
        let folder = self.changed(parent, time)?;
        folder.mtime = time;
        if folder.directory_mut()?.children.insert(name.to_vec(), ino).is_some() {
            return None;
        }
        if let Some(directory) = self.nodes.get_mut(&ino)?.directory_mut() {
            directory.parent = parent;
            self.nodes.get_mut(&parent)?.directory_mut()?.folders += 1;
        }
        Some(())
    }

    fn take_name(&mut self, parent: Ino, name: &[u8], time: Time) -> Option<Ino> {
        let ino = self.nodes.get_mut(&parent)?.directory_mut()?.children.remove(name)?;
        let is_folder = self.nodes.get(&ino).is_some_and(|node| node.directory().is_some());
        let folder = self.changed(parent, time)?;
        folder.mtime = time;
        folder.directory_mut()?.folders -= u32::from(is_folder);
        Some(ino)
    }

    fn lose_name(&mut self, ino: Ino, time: Time) -> Option<()> {
        let node = self.changed(ino, time)?;
        node.names = node.names.checked_sub(1)?;
        Some(())
    }
}

/// Whether both are symbolic links to the same, with the same attributes.
fn is_same_link(first: &Node, other: &Node) -> bool {
    matches!(first.kind, NodeKind::Symlink { .. }) && Node { names: other.names, ..first.clone() } == *other
}

/// A node of the snapshot. Whoever copies files out of a mount copies what they are given: nothing
/// that lends rights.
fn plain_node(meta: &Meta, kind: NodeKind) -> Node {
    let mut node = node(meta, kind);
    node.mode = meta.plain_mode();
    node.xattrs.retain(|name, _| is_plain_xattr(name));
    node
}

fn node(meta: &Meta, kind: NodeKind) -> Node {
    Node {
        kind,
        mode: meta.mode,
        uid: meta.uid,
        gid: meta.gid,
        atime: meta.mtime,
        mtime: meta.mtime,
        ctime: meta.mtime,
        xattrs: meta.xattrs.iter().cloned().collect(),
        names: 0,
        changed: 0,
    }
}

/// What an entry is as a node; `None` for another name of one.
fn below(entry: &Entry, parent: Ino, locations: &mut impl Iterator<Item = Location>) -> Option<NodeKind> {
    Some(match &entry.kind {
        Kind::File { .. } => NodeKind::File(FileNode::of(Arc::new(LowerFile::of(entry, locations)?))),
        Kind::Directory => NodeKind::Directory(Directory { parent, children: BTreeMap::new(), folders: 0 }),
        Kind::Symlink { target } => NodeKind::Symlink { target: target.clone() },
        Kind::Fifo => NodeKind::Fifo,
        Kind::Socket => NodeKind::Socket,
        Kind::CharDevice { device } => NodeKind::CharDevice { device: *device },
        Kind::BlockDevice { device } => NodeKind::BlockDevice { device: *device },
        Kind::HardLink { .. } => return None,
    })
}

fn new_kind(kind: &NewKind, parent: Ino) -> NodeKind {
    match kind {
        NewKind::File => NodeKind::File(FileNode::default()),
        NewKind::Directory => {
            NodeKind::Directory(Directory { parent, children: BTreeMap::new(), folders: 0 })
        }
        NewKind::Symlink { target } => NodeKind::Symlink { target: target.clone() },
        NewKind::Fifo => NodeKind::Fifo,
        NewKind::Socket => NodeKind::Socket,
        NewKind::CharDevice { device } => NodeKind::CharDevice { device: *device },
        NewKind::BlockDevice { device } => NodeKind::BlockDevice { device: *device },
    }
}
