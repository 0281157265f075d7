//! `Checkpoint` is the state that a journal starts from: a snapshot, and the nodes that differ from it.
//!
//! A new session's journal starts from the snapshot alone. When a journal has grown long, or
//! a commit has made a new snapshot the one below, a new journal is written aside that
//! starts from where things are now, made durable, and moved into the old one's place.

use std::{collections::BTreeMap, sync::Arc};

use store::{
    content::snapshot_tree::SnapshotTree,
    format::{
        FormatError, Result,
        bytes::{Put, Reader},
        tree::Meta,
    },
    id::RecordId,
    name::{ChromeMajor, Lineage, ProfileName},
};

use super::{
    base_tree::BaseTree,
    change::{put_time, read_time},
    inode_table::InodeTable,
    node::{Directory, FileNode, Ino, Node, NodeKind, Slot},
    nodes::Nodes,
    numbers::Numbers,
    rebase::Rebase,
    spans::{Bytes, Spans},
};

/// Written; of version 1, which has the number of each entry and all names of a changed directory, sessions are read.
const VERSION: u64 = 2;
const WHOLE_DIRECTORIES: u64 = 1;
const MAX: usize = 1 << 30;
/// No session lasts long enough for a higher number.
const MAX_INO: u64 = u64::MAX >> 1;

/// The snapshot below a session, if it started from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Below {
    pub lineage: Lineage,
    pub record: RecordId,
    pub generation: u64,
}

/// A decoded base of a journal.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub below: Option<Below>,
    epoch: u64,
    next: Ino,
    /// The numbers of the snapshot's entries; `None` if they are as in a fresh mount.
    numbers: Option<Numbers>,
    nodes: Vec<(Ino, Saved)>,
    /// Whether its directories have all their names, and not only those that are not as below.
    has_whole_directories: bool,
}

/// A node without what the snapshot says about it.
#[derive(Clone, Debug, PartialEq)]
struct Saved {
    node: Node,
    /// Whether the bytes that no span covers are those of the snapshot's entry of this number.
    on_lower: bool,
}

impl Checkpoint {
    /// Of a session that has changed nothing yet.
    pub fn fresh(below: Option<Below>, root: &Meta) -> Self {
        let nodes = match &below {
            Some(_) => Vec::new(),
            None => {
                InodeTable::empty(root.clone()).iter().map(|(ino, node)| (ino, saved(node.clone()))).collect()
            }
        };
        Self { below, epoch: 1, next: Ino(2), numbers: None, nodes, has_whole_directories: false }
    }

    /// Where `nodes` will be after `rebase`, above the snapshot `below`.
    pub fn of(nodes: &Nodes, rebase: &Rebase, below: Option<Below>) -> Self {
        let (table, base) = (&nodes.table, rebase.base().or(nodes.base.as_ref()));
        let differs = |ino: Ino, node: &Node| {
            !base.is_some_and(|base| base.has(ino))
                || node.changed > 0
                || node.directory().is_some_and(|directory| !directory.slots.is_empty())
                || node.file().is_some_and(|file| !file.is_as_below())
        };
        let mut saved_nodes: Vec<(Ino, Saved)> = rebase
            .nodes(table)
            .filter(|(ino, node)| node.names > 0 && differs(*ino, node))
            .map(|(ino, node)| (ino, saved(node.clone())))
            .collect();
        saved_nodes.sort_unstable_by_key(|(ino, _)| *ino);
        let (epoch, next) = (table.epoch, rebase.next_ino(table));
        let numbers = base.map(|base| Numbers::clone(&base.numbers));
        Self { below, epoch, next, numbers, nodes: saved_nodes, has_whole_directories: false }
    }

    /// How long it is where a snapshot is below that was made of `nodes` and has these `numbers`: the nodes that the snapshot
    /// does not have are still in it.
    pub fn length_above(nodes: &Nodes, numbers: &Numbers, below: Option<Below>) -> u64 {
        let others =
            nodes.table.iter().filter(|(ino, node)| node.names > 0 && numbers.ordinal(*ino).is_none());
        let others = others.map(|(ino, node)| (ino, saved(node.clone()))).collect();
        let (epoch, next, numbers) = (nodes.table.epoch, nodes.table.next_ino(), Some(numbers.clone()));
        let above = Self { below, epoch, next, numbers, nodes: others, has_whole_directories: false };
        above.encode().len() as u64
    }

    /// How many changed bytes the nodes hold.
    pub fn data_bytes(&self) -> u64 {
        self.nodes.iter().filter_map(|(_, saved)| saved.node.file()).map(|file| file.spans.data_bytes()).sum()
    }

    /// Whether any node differs from the snapshot.
    pub fn has_changes(&self) -> bool {
        self.nodes.iter().any(|(_, saved)| saved.node.changed > 0)
    }

    /// The nodes this base stands for, over the tree of its snapshot.
    pub async fn nodes(self, tree: Option<Arc<SnapshotTree>>) -> store::Result<Nodes> {
        let misfit = |what: String| store::Error::damaged("the session's journal", what);
        let base = match (tree, self.numbers) {
            (None, _) => None,
            (Some(tree), None) => Some(BaseTree::fresh(tree)),
            (Some(tree), Some(numbers)) if numbers.len() == tree.len() => {
                Some(BaseTree { tree, numbers: Arc::new(numbers) })
            }
            (Some(tree), Some(numbers)) => {
                return Err(misfit(format!("{} numbers for {} entries", numbers.len(), tree.len())));
            }
        };
        let next = base.as_ref().map_or(Ino(2), |base| base.numbers.next());
        let mut nodes = Nodes::new(InodeTable::above(next.max(self.next)), base);
        nodes.table.epoch = self.epoch;
        for (ino, Saved { mut node, on_lower }) in self.nodes {
            let below = nodes.fetch(ino).await?;
            if let NodeKind::File(file) = &mut node.kind
                && on_lower
            {
                file.lower = below.as_ref().and_then(|below| below.file()?.lower.clone());
                if file.lower.is_none() {
                    return Err(misfit(format!("node {} is not in the snapshot", ino.0)));
                }
            }
            node.below = below.map(|below| below.below).unwrap_or_default();
            if self.has_whole_directories {
                lay_bare(&nodes, &mut node).await?;
            }
            nodes.table.put(ino, node);
        }
        drop_unreachable(&mut nodes.table);
        Ok(nodes)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(VERSION);
        match &self.below {
            Some(Below { lineage, record, generation }) => {
                out.push(1);
                out.put_bytes(lineage.name.to_string().as_bytes());
                out.put_varint(lineage.chrome_major.into());
                out.extend_from_slice(&record.to_bytes());
                out.put_varint(*generation);
            }
            None => out.push(0),
        }
        out.put_varint(self.epoch);
        out.put_varint(self.next.0);
        out.push(self.numbers.is_some().into());
        if let Some(numbers) = &self.numbers {
            out.put_varint(numbers.stored_runs().len() as u64);
            for (len, ino) in numbers.stored_runs() {
                out.put_varint(len);
                out.put_varint(ino.0);
            }
            out.put_varint(numbers.stored_aliases().len() as u64);
            for (ordinal, ino) in numbers.stored_aliases() {
                out.put_varint(*ordinal);
                out.put_varint(ino.0);
            }
        }
        out.put_varint(self.nodes.len() as u64);
        for (ino, saved) in &self.nodes {
            out.put_varint(ino.0);
            saved.put(&mut out);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let version = reader.varint()?;
        if !(WHOLE_DIRECTORIES..=VERSION).contains(&version) {
            return Err(FormatError::Version { found: version, writer: "another pstore".to_owned() });
        }
        let has_whole_directories = version == WHOLE_DIRECTORIES;
        let below = match reader.u8()? {
            0 => None,
            _ => {
                let lineage = read_lineage(&mut reader)?;
                let record = RecordId::from_bytes(reader.array()?);
                Some(Below { lineage, record, generation: reader.varint()? })
            }
        };
        let (epoch, next) = (reader.varint()?, Ino(reader.varint()?));
        let numbers =
            if has_whole_directories { read_list(&mut reader)? } else { read_numbers(&mut reader)? };
        let count = reader.count(8, "nodes")?;
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            nodes.push((Ino(reader.varint()?), Saved::read(&mut reader, has_whole_directories)?));
        }
        reader.finish()?;
        Ok(Self { below, epoch, next, numbers, nodes, has_whole_directories })
    }
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Option<Numbers>> {
    if reader.u8()? == 0 {
        return Ok(None);
    }
    let count = reader.count(2, "runs")?;
    let mut runs = Vec::with_capacity(count);
    let mut total = 0u64;
    for _ in 0..count {
        let (len, ino) = (reader.bounded(MAX as u64, "a run")?, reader.bounded(MAX_INO, "a number")?);
        total += len;
        runs.push((len, Ino(ino)));
    }
    let count = reader.count(2, "links")?;
    let mut aliases = BTreeMap::new();
    for _ in 0..count {
        aliases.insert(reader.bounded(total, "an entry")?, Ino(reader.bounded(MAX_INO, "a number")?));
    }
    Ok(Some(Numbers::from_stored(runs, aliases)))
}

/// The numbers of version 1: of each entry, as the difference to the one before; none if they are as in a fresh mount.
fn read_list(reader: &mut Reader<'_>) -> Result<Option<Numbers>> {
    let count = reader.count(1, "numbers")?;
    let mut numbers = Vec::with_capacity(count);
    let mut before = 0i64;
    for _ in 0..count {
        before = before.wrapping_add(reader.signed()?);
        numbers.push(Ino(before as u64 & MAX_INO));
    }
    Ok((count > 0).then(|| Numbers::of(numbers)))
}

/// Of a directory that has all its names, leaves those that are not as below.
async fn lay_bare(nodes: &Nodes, node: &mut Node) -> store::Result<()> {
    let below = match (node.directory(), node.below.first()) {
        (Some(directory), Some(path)) => {
            let kind = NodeKind::Directory(Directory { parent: directory.parent, slots: BTreeMap::new() });
            nodes.fetch_names(&Node { kind, below: vec![path.clone()], ..node.clone() }).await?
        }
        _ => return Ok(()),
    };
    let Some(directory) = node.directory_mut() else { return Ok(()) };
    for named in below {
        let slot = Slot { ino: None, in_base: true };
        let slot = directory.slots.entry(named.name.clone()).or_insert(slot);
        slot.in_base = true;
        if slot.ino == Some(named.ino) {
            directory.slots.remove(&named.name);
        }
    }
    Ok(())
}

fn read_lineage(reader: &mut Reader<'_>) -> Result<Lineage> {
    let name = String::from_utf8_lossy(reader.bytes(1024, "a profile")?).into_owned();
    let bad = |error: &dyn ToString| FormatError::Malformed(error.to_string());
    let name: ProfileName = name.parse().map_err(|error| bad(&error))?;
    let chrome_major = ChromeMajor::try_from(reader.varint()?).map_err(|error| bad(&error))?;
    Ok(Lineage { name, chrome_major })
}

fn saved(mut node: Node) -> Saved {
    let on_lower = node.file_mut().is_some_and(|file| file.lower.take().is_some());
    Saved { node, on_lower }
}

/// Nodes that no name leads to are gone: nobody has them open after a resume.
pub(super) fn drop_unreachable(table: &mut InodeTable) {
    let lost: Vec<Ino> = table.iter().filter(|(_, node)| node.names == 0).map(|(ino, _)| ino).collect();
    for ino in lost {
        table.remove(ino);
    }
}

impl Saved {
    fn put(&self, out: &mut Vec<u8>) {
        let node = &self.node;
        for value in [node.mode, node.uid, node.gid, node.names] {
            out.put_varint(value.into());
        }
        [node.atime, node.mtime, node.ctime].into_iter().for_each(|time| put_time(out, time));
        out.put_varint(node.changed);
        out.put_varint(node.xattrs.len() as u64);
        for (name, value) in &node.xattrs {
            out.put_bytes(name);
            out.put_bytes(value);
        }
        match &node.kind {
            NodeKind::File(file) => {
                out.push(0);
                out.push(u8::from(self.on_lower) | u8::from(file.stale) << 1);
                for value in [file.size, file.limit, file.limit_since_freeze, file.generation_epoch] {
                    out.put_varint(value);
                }
                out.put_varint(file.generation.into());
                out.put_varint(file.spans.iter().count() as u64);
                for (range, bytes, epoch) in file.spans.iter() {
                    out.put_varint(range.start);
                    out.put_varint(range.end - range.start);
                    out.put_varint(match bytes {
                        Bytes::Zeros => 0,
                        Bytes::Data { generation } => u64::from(generation) + 1,
                    });
                    out.put_varint(epoch);
                }
            }
            NodeKind::Directory(folder) => {
                out.push(1);
                out.put_varint(folder.parent.0);
                out.put_varint(folder.slots.len() as u64);
                for (name, slot) in &folder.slots {
                    out.put_bytes(name);
                    out.put_varint(slot.ino.map_or(0, |ino| ino.0));
                    out.push(slot.in_base.into());
                }
            }
            NodeKind::Symlink { target } => {
                out.push(2);
                out.put_bytes(target);
            }
            NodeKind::Fifo => out.push(3),
            NodeKind::Socket => out.push(4),
            NodeKind::CharDevice { device } => {
                out.push(5);
                out.put_varint(*device);
            }
            NodeKind::BlockDevice { device } => {
                out.push(6);
                out.put_varint(*device);
            }
        }
    }

    fn read(reader: &mut Reader<'_>, has_whole_directories: bool) -> Result<Self> {
        let mut number = || reader.bounded(u32::MAX.into(), "a number").map(|value| value as u32);
        let (mode, uid, gid, names) = (number()?, number()?, number()?, number()?);
        let (atime, mtime, ctime) = (read_time(reader)?, read_time(reader)?, read_time(reader)?);
        let changed = reader.varint()?;
        let mut xattrs = BTreeMap::new();
        for _ in 0..reader.count(2, "attributes")? {
            let name = reader.bytes(MAX, "a name")?.to_vec();
            xattrs.insert(name, reader.bytes(MAX, "a value")?.to_vec());
        }
        let mut on_lower = false;
        let kind = match reader.u8()? {
            0 => {
                let flags = reader.u8()?;
                on_lower = flags & 1 != 0;
                NodeKind::File(read_file(reader, flags & 2 != 0)?)
            }
            1 => {
                let parent = Ino(reader.varint()?);
                let mut slots = BTreeMap::new();
                for _ in 0..reader.count(2, "names")? {
                    let name = reader.bytes(MAX, "a name")?.to_vec();
                    let ino = Some(Ino(reader.varint()?)).filter(|ino| ino.0 > 0);
                    let in_base = !has_whole_directories && reader.u8()? != 0;
                    slots.insert(name, Slot { ino, in_base });
                }
                NodeKind::Directory(Directory { parent, slots })
            }
            2 => NodeKind::Symlink { target: reader.bytes(MAX, "a link")?.to_vec() },
            3 => NodeKind::Fifo,
            4 => NodeKind::Socket,
            5 => NodeKind::CharDevice { device: reader.varint()? },
            6 => NodeKind::BlockDevice { device: reader.varint()? },
            other => return Err(FormatError::Malformed(format!("a node of unknown kind {other}"))),
        };
        Ok(Self {
            node: Node {
                kind,
                mode,
                uid,
                gid,
                atime,
                mtime,
                ctime,
                xattrs,
                names,
                changed,
                below: Vec::new(),
            },
            on_lower,
        })
    }
}

fn read_file(reader: &mut Reader<'_>, stale: bool) -> Result<FileNode> {
    let (size, limit) = (reader.varint()?, reader.varint()?);
    let (limit_since_freeze, generation_epoch) = (reader.varint()?, reader.varint()?);
    let generation = reader.bounded(u32::MAX.into(), "a generation")? as u32;
    let mut spans = Spans::default();
    for _ in 0..reader.count(4, "spans")? {
        let (start, len) = (reader.varint()?, reader.varint()?);
        let bytes = match reader.bounded(u64::from(u32::MAX) + 1, "a generation")? {
            0 => Bytes::Zeros,
            generation => Bytes::Data { generation: (generation - 1) as u32 },
        };
        let epoch = reader.varint()?;
        let end =
            start.checked_add(len).ok_or_else(|| FormatError::Malformed("an impossible span".to_owned()))?;
        spans.set(start..end, bytes, epoch);
    }
    Ok(FileNode { size, lower: None, limit, limit_since_freeze, spans, generation, generation_epoch, stale })
}
