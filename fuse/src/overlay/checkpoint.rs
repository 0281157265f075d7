//! `Checkpoint` is the state that a journal starts from: a snapshot, and the nodes that differ from it.
//!
//! A new session's journal starts from the snapshot alone. When a journal has grown long, or
//! a commit has made a new snapshot the one below, a new journal is written aside that
//! starts from where things are now, made durable, and moved into the old one's place.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use store::{
    format::{
        FormatError, Result,
        bytes::{Put, Reader},
        table::Location,
        tree::{Entry, Meta},
    },
    id::RecordId,
    name::{ChromeMajor, Lineage, ProfileName},
};

use super::{
    change::{put_time, read_time},
    inode_table::{InodeTable, Misfit},
    node::{Directory, FileNode, Ino, Node, NodeKind},
    rebase::Rebase,
    spans::{Bytes, Spans},
};
use crate::lower::LowerFile;

const VERSION: u64 = 1;
const MAX: usize = 1 << 30;

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
    /// The number of each entry of the snapshot; empty if entry `n` has the number `n + 1`.
    numbers: Vec<Ino>,
    nodes: Vec<(Ino, Saved)>,
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
        Self { below, epoch: 1, next: Ino(2), numbers: Vec::new(), nodes }
    }

    /// Where `table` will be after `rebase`, above the snapshot `below` whose entries have these
    /// `numbers`.
    pub fn of(table: &InodeTable, rebase: &Rebase, below: Option<Below>, numbers: Vec<Ino>) -> Self {
        let in_snapshot: HashSet<Ino> = numbers.iter().copied().collect();
        let is_below = |ino: Ino| below.is_some() && (numbers.is_empty() || in_snapshot.contains(&ino));
        let differs = |ino: Ino, node: &Node| {
            !is_below(ino)
                || rebase.changed(node) > 0
                || rebase.file(ino, node).is_some_and(|file| !file.is_as_below())
        };
        let mut nodes: Vec<(Ino, Saved)> = table
            .iter()
            .filter(|(ino, node)| node.names > 0 && differs(*ino, node))
            .map(|(ino, node)| (ino, saved(rebase.node(ino, node))))
            .collect();
        nodes.sort_unstable_by_key(|(ino, _)| *ino);
        Self { below, epoch: table.epoch, next: rebase.next_ino(table), numbers, nodes }
    }

    /// How many changed bytes the nodes hold.
    pub fn data_bytes(&self) -> u64 {
        self.nodes.iter().filter_map(|(_, saved)| saved.node.file()).map(|file| file.spans.data_bytes()).sum()
    }

    /// Whether any node differs from the snapshot.
    pub fn has_changes(&self) -> bool {
        self.nodes.iter().any(|(_, saved)| saved.node.changed > 0)
    }

    /// The number of the entry at this place.
    pub fn number(&self, at: usize) -> Ino {
        self.numbers.get(at).copied().unwrap_or(Ino(at as u64 + 1))
    }

    /// The nodes this base stands for, over the entries of its snapshot.
    pub fn table(self, entries: &[Entry], locations: &[Location]) -> std::result::Result<InodeTable, Misfit> {
        if self.below.is_some() && !self.numbers.is_empty() && self.numbers.len() != entries.len() {
            return Err(Misfit(format!("{} numbers for {} entries", self.numbers.len(), entries.len())));
        }
        let mut table = match self.below {
            Some(_) => InodeTable::of(entries, locations, |at| self.number(at))?,
            None => InodeTable::empty(Meta::default()),
        };
        let is_as_below = self.nodes.is_empty();
        for (ino, Saved { mut node, on_lower }) in self.nodes {
            if let NodeKind::File(file) = &mut node.kind
                && on_lower
            {
                file.lower = table.get(ino).and_then(|node| node.file()?.lower.clone());
                if file.lower.is_none() {
                    return Err(Misfit(format!("node {} is not in the snapshot", ino.0)));
                }
            }
            table.put(ino, node);
        }
        table.epoch = self.epoch;
        table.set_next_ino(self.next);
        // All that a snapshot has can be reached.
        if !is_as_below {
            drop_unreachable(&mut table);
            table.count_folders();
        }
        Ok(table)
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
        out.put_varint(self.numbers.len() as u64);
        let mut before = 0i64;
        for ino in &self.numbers {
            out.put_signed(ino.0 as i64 - before);
            before = ino.0 as i64;
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
        if version != VERSION {
            return Err(FormatError::Version { found: version, writer: "another pstore".to_owned() });
        }
        let below = match reader.u8()? {
            0 => None,
            _ => {
                let lineage = read_lineage(&mut reader)?;
                let record = RecordId::from_bytes(reader.array()?);
                Some(Below { lineage, record, generation: reader.varint()? })
            }
        };
        let (epoch, next) = (reader.varint()?, Ino(reader.varint()?));
        let count = reader.count(1, "numbers")?;
        let mut numbers = Vec::with_capacity(count);
        let mut before = 0i64;
        for _ in 0..count {
            before = before.wrapping_add(reader.signed()?);
            numbers.push(Ino(before as u64));
        }
        let count = reader.count(8, "nodes")?;
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            nodes.push((Ino(reader.varint()?), Saved::read(&mut reader)?));
        }
        reader.finish()?;
        Ok(Self { below, epoch, next, numbers, nodes })
    }
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
    let mut reached = HashSet::from([Ino::ROOT]);
    let mut open = vec![Ino::ROOT];
    while let Some(ino) = open.pop() {
        let children =
            table.get(ino).and_then(Node::directory).into_iter().flat_map(|folder| folder.children.values());
        for child in children {
            if reached.insert(*child) {
                open.push(*child);
            }
        }
    }
    let lost: Vec<Ino> = table.iter().map(|(ino, _)| ino).filter(|ino| !reached.contains(ino)).collect();
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
                out.put_varint(folder.children.len() as u64);
                for (name, ino) in &folder.children {
                    out.put_bytes(name);
                    out.put_varint(ino.0);
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

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
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
                let mut children = BTreeMap::new();
                for _ in 0..reader.count(2, "names")? {
                    let name = reader.bytes(MAX, "a name")?.to_vec();
                    children.insert(name, Ino(reader.varint()?));
                }
                NodeKind::Directory(Directory { parent, children, folders: 0 })
            }
            2 => NodeKind::Symlink { target: reader.bytes(MAX, "a link")?.to_vec() },
            3 => NodeKind::Fifo,
            4 => NodeKind::Socket,
            5 => NodeKind::CharDevice { device: reader.varint()? },
            6 => NodeKind::BlockDevice { device: reader.varint()? },
            other => return Err(FormatError::Malformed(format!("a node of unknown kind {other}"))),
        };
        Ok(Self {
            node: Node { kind, mode, uid, gid, atime, mtime, ctime, xattrs, names, changed },
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
    let lower: Option<Arc<LowerFile>> = None;
    Ok(FileNode { size, lower, limit, limit_since_freeze, spans, generation, generation_epoch, stale })
}
