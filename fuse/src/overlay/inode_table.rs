//! `InodeTable` holds the nodes that differ from the snapshot below by number, and applies changes to them.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

use store::format::tree::{Meta, Time};

use super::{
    change::{Change, NewKind, Setting},
    node::{Directory, FileNode, Ino, Node, NodeKind, Slot},
};

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

/// In boxes: a table of nodes themselves would be mostly empty memory.
type Nodes = HashMap<Ino, Box<Node>, BuildHasherDefault<InoHasher>>;

#[derive(Clone, Debug)]
pub struct InodeTable {
    nodes: Nodes,
    next: Ino,
    /// Changes made now belong to this epoch; the first is 1.
    pub epoch: u64,
    /// Nodes of the snapshot that have lost all their names, and that nobody uses any more.
    gone: HashSet<Ino>,
    /// The last data file of each file that has left the table: it may still be there, and takes no more bytes.
    generations: HashMap<Ino, u32>,
}

impl InodeTable {
    /// Without any node. The next new one gets this number.
    pub fn above(next: Ino) -> Self {
        let (gone, generations) = (HashSet::new(), HashMap::new());
        Self { nodes: Nodes::default(), next: next.max(Ino(2)), epoch: 1, gone, generations }
    }

    /// An empty root.
    pub fn empty(root: Meta) -> Self {
        let kind = NodeKind::Directory(Directory { parent: Ino::ROOT, slots: BTreeMap::new() });
        let mut table = Self::above(Ino(2));
        table.put(Ino::ROOT, Node { names: 1, ..Node::new(&root, kind) });
        table
    }

    /// How many nodes it has.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this node of the snapshot is no more.
    pub fn is_gone(&self, ino: Ino) -> bool {
        self.gone.contains(&ino)
    }

    pub fn get(&self, ino: Ino) -> Option<&Node> {
        self.nodes.get(&ino).map(AsRef::as_ref)
    }

    pub fn get_mut(&mut self, ino: Ino) -> Option<&mut Node> {
        self.nodes.get_mut(&ino).map(AsMut::as_mut)
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

    /// Takes a node of the snapshot in.
    pub fn hold(&mut self, ino: Ino, mut node: Node) {
        if let (Some(file), Some(last)) = (node.file_mut(), self.generations.get(&ino)) {
            (file.generation, file.stale) = (*last, true);
        }
        self.nodes.insert(ino, Box::new(node));
    }

    /// The last data file of a file that has left the table.
    pub fn last_generation(&self, ino: Ino) -> Option<u32> {
        self.generations.get(&ino).copied()
    }

    /// Those of these data files that nothing refers to any more and no byte goes into: what they had was cut off or written
    /// anew. The files are in order.
    pub fn outlived(&self, data_files: &[(Ino, u32)]) -> Vec<(Ino, u32)> {
        let mut outlived = Vec::new();
        for of_one in data_files.chunk_by(|a, b| a.0 == b.0) {
            let Some(&(ino, _)) = of_one.first() else { continue };
            let is_outlived: Box<dyn Fn(u32) -> bool> = match self.get(ino).and_then(Node::file) {
                Some(file) => {
                    let held = file.spans.generations();
                    let takes_bytes = move |generation| match file.stale {
                        true => generation > file.generation,
                        false => generation >= file.generation,
                    };
                    Box::new(move |generation| {
                        !takes_bytes(generation) && held.binary_search(&generation).is_err()
                    })
                }
                // It was dropped: its next bytes go into a later one.
                None => {
                    let last = self.last_generation(ino);
                    Box::new(move |generation| last.is_some_and(|last| generation <= last))
                }
            };
            outlived.extend(of_one.iter().filter(|(_, generation)| is_outlived(*generation)));
        }
        outlived
    }

    /// Forgets a node that has no name and that nobody uses.
    pub fn remove(&mut self, ino: Ino) -> Option<Node> {
        let node = self.nodes.remove(&ino)?;
        if !node.below.is_empty() {
            self.gone.insert(ino);
        }
        Some(*node)
    }

    /// Drops a node that is as the snapshot below has it.
    pub fn release(&mut self, ino: Ino) {
        let node = self.nodes.remove(&ino);
        if let Some(file) = node.as_ref().and_then(|node| node.file())
            && (file.stale || file.generation > 0 || !file.spans.is_empty())
        {
            self.generations.insert(ino, file.generation);
        }
    }

    /// Of the nodes that are no more, those that the snapshot below has from now on are still none.
    pub fn keep_gone(&mut self, is_below: impl Fn(Ino) -> bool) {
        self.gone.retain(|ino| is_below(*ino));
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
                let node = Node { names: 1, changed: epoch, ..Node::new(&meta, new_kind(kind, *parent)) };
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
        let new = Slot { ino: None, in_base: false };
        let slot = folder.directory_mut()?.slots.entry(name.to_vec()).or_insert(new);
        if slot.ino.replace(ino).is_some() {
            return None;
        }
        if let Some(directory) = self.nodes.get_mut(&ino)?.directory_mut() {
            directory.parent = parent;
        }
        Some(())
    }

    fn take_name(&mut self, parent: Ino, name: &[u8], time: Time) -> Option<Ino> {
        let slots = &mut self.nodes.get_mut(&parent)?.directory_mut()?.slots;
        let slot = slots.get_mut(name)?;
        let ino = slot.ino.take()?;
        if !slot.in_base {
            slots.remove(name);
        }
        self.changed(parent, time)?.mtime = time;
        Some(ino)
    }

    fn lose_name(&mut self, ino: Ino, time: Time) -> Option<()> {
        let node = self.changed(ino, time)?;
        node.names = node.names.checked_sub(1)?;
        Some(())
    }
}

fn new_kind(kind: &NewKind, parent: Ino) -> NodeKind {
    match kind {
        NewKind::File => NodeKind::File(FileNode::default()),
        NewKind::Directory => NodeKind::Directory(Directory { parent, slots: BTreeMap::new() }),
        NewKind::Symlink { target } => NodeKind::Symlink { target: target.clone() },
        NewKind::Fifo => NodeKind::Fifo,
        NewKind::Socket => NodeKind::Socket,
        NewKind::CharDevice { device } => NodeKind::CharDevice { device: *device },
        NewKind::BlockDevice { device } => NodeKind::BlockDevice { device: *device },
    }
}
