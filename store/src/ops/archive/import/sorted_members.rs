//! `SortedMembers` puts members of an archive aside and gives them back in the order of a tree, however many there are.
//!
//! Those that were added last are in memory. When they take a few megabytes, they are sorted and written down, one run after
//! another, in a file without a name. Runs are merged when they are read, a block of each at a time.

use std::{cmp::Reverse, collections::BinaryHeap, path::PathBuf};

use crate::{
    Error, Result,
    format::{
        self,
        bytes::{Put, Reader},
        tree::{Extent, MAX_PATH_BYTES, MAX_TARGET_BYTES, Meta, TreePath},
    },
    tree::{
        codec::{
            put_extents, put_path, put_time, put_xattrs, read_extents, read_path, read_time, read_xattrs,
        },
        records::{RecordReader, Records},
    },
};

/// So much memory the members take that were not written down, about.
const RUN_BYTES: usize = 8 << 20;
/// The memory of a member beside its names and attributes, and that of an extent.
const MEMBER_BYTES: usize = 256;
const EXTENT_BYTES: usize = 48;

/// A member, or a directory that one implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub path: TreePath,
    /// How many members the archive has before it. A directory has the number of the member that implies it.
    pub number: u64,
    pub meta: Meta,
    pub what: ListedKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListedKind {
    /// A directory that is only there because something is in it.
    Implied,
    Directory,
    File(Vec<Extent>),
    Symlink(Vec<u8>),
    /// Another name of what was listed at this path.
    Link(TreePath),
    /// Not stored.
    LeftOut,
}

#[derive(Debug, Default)]
pub(super) struct SortedMembers {
    waiting: Vec<Listed>,
    waiting_bytes: usize,
    records: Records,
    /// Of each run, the number of its first block, and how many members it has.
    runs: Vec<(usize, usize)>,
}

impl SortedMembers {
    /// The runs are written below `folder`; without one, all is in memory.
    pub fn below(folder: Option<PathBuf>) -> Self {
        Self { records: Records::below(folder), ..Self::default() }
    }

    pub fn push(&mut self, listed: Listed) {
        if self.waiting_bytes > RUN_BYTES {
            self.put_away();
        }
        self.waiting_bytes += memory_bytes(&listed);
        self.waiting.push(listed);
    }

    /// Sets the extents of the file that was added last.
    pub fn fill(&mut self, path: &TreePath, content: Vec<Extent>) {
        if let Some(Listed { path: last, what: ListedKind::File(extents), .. }) = self.waiting.last_mut()
            && last == path
        {
            self.waiting_bytes += extents_bytes(&content);
            *extents = content;
        }
    }

    fn put_away(&mut self) {
        let mut members = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        sort(&mut members);
        self.runs.push((self.records.begin_block(), members.len()));
        let mut previous = Vec::new();
        for listed in members {
            self.records.push(|out| put(out, &mut previous, &listed));
        }
    }

    /// Ends the adding. All that is in memory is sorted, too.
    pub fn sort(&mut self) {
        sort(&mut self.waiting);
    }

    /// All members in the order of a tree; those at one path as they came.
    pub fn merged(&self) -> Result<Merged<'_>> {
        let mut merged = Merged { runs: Vec::new(), waiting: self.waiting.iter(), next: BinaryHeap::new() };
        for (block, members) in &self.runs {
            let reader = self.records.reader_from(*block);
            merged.runs.push(Run { reader, left: *members, previous: Vec::new() });
        }
        for at in 0..=merged.runs.len() {
            merged.advance(at)?;
        }
        Ok(merged)
    }

    #[cfg(test)]
    pub fn in_memory(&self) -> usize {
        self.waiting.len()
    }
}

/// Goes through all members, in order.
#[derive(Debug)]
pub(super) struct Merged<'a> {
    runs: Vec<Run<'a>>,
    /// The last run, which was not written down.
    waiting: std::slice::Iter<'a, Listed>,
    /// The next member of each run.
    next: BinaryHeap<Reverse<Head>>,
}

#[derive(Debug)]
struct Run<'a> {
    reader: RecordReader<'a>,
    left: usize,
    previous: Vec<u8>,
}

/// The first member of a run, with the number of that run.
#[derive(Debug)]
struct Head(Listed, usize);

impl Head {
    fn key(&self) -> (&TreePath, u64) {
        (&self.0.path, self.0.number)
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Head {}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Merged<'_> {
    /// The next member; `None` after the last one.
    pub fn next(&mut self) -> Result<Option<Listed>> {
        let Some(Reverse(Head(listed, run))) = self.next.pop() else { return Ok(None) };
        self.advance(run)?;
        Ok(Some(listed))
    }

    /// The next member, if it is at this path.
    pub fn next_at(&mut self, path: &TreePath) -> Result<Option<Listed>> {
        match self.next.peek() {
            Some(Reverse(head)) if head.0.path == *path => self.next(),
            _ => Ok(None),
        }
    }

    fn advance(&mut self, at: usize) -> Result<()> {
        let listed = match self.runs.get_mut(at) {
            Some(run) => run.read()?,
            None => self.waiting.next().cloned(),
        };
        self.next.extend(listed.map(|listed| Reverse(Head(listed, at))));
        Ok(())
    }
}

impl Run<'_> {
    fn read(&mut self) -> Result<Option<Listed>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let previous = &mut self.previous;
        let gone = || Error::Internal { what: "what was put aside ended early".to_owned() };
        self.reader.read_next(|reader| read(reader, previous)).ok_or_else(gone)?.map(Some)
    }
}

fn sort(members: &mut [Listed]) {
    members.sort_by(|a, b| (&a.path, a.number).cmp(&(&b.path, b.number)));
}

const IMPLIED: u8 = 0;
const DIRECTORY: u8 = 1;
const FILE: u8 = 2;
const SYMLINK: u8 = 3;
const LINK: u8 = 4;
const LEFT_OUT: u8 = 5;

fn put(out: &mut Vec<u8>, previous: &mut Vec<u8>, listed: &Listed) {
    let Listed { path, number, meta, what } = listed;
    put_path(out, previous, path.as_bytes());
    out.put_varint(*number);
    [meta.mode, meta.uid, meta.gid].into_iter().for_each(|number| out.put_varint(number.into()));
    put_time(out, meta.mtime);
    put_xattrs(out, &meta.xattrs);
    match what {
        ListedKind::Implied => out.push(IMPLIED),
        ListedKind::Directory => out.push(DIRECTORY),
        ListedKind::File(extents) => {
            out.push(FILE);
            put_extents(out, extents);
        }
        ListedKind::Symlink(target) => {
            out.push(SYMLINK);
            out.put_bytes(target);
        }
        ListedKind::Link(target) => {
            out.push(LINK);
            out.put_bytes(target.as_bytes());
        }
        ListedKind::LeftOut => out.push(LEFT_OUT),
    }
}

fn read(reader: &mut Reader<'_>, previous: &mut Vec<u8>) -> format::Result<Listed> {
    read_path(reader, previous)?;
    let (path, number) = (TreePath::new(previous.clone())?, reader.varint()?);
    let mut numbers = [0; 3];
    for number in &mut numbers {
        *number = reader.bounded(u32::MAX.into(), "a mode or an owner")? as u32;
    }
    let [mode, uid, gid] = numbers;
    let (mtime, xattrs) = (read_time(reader)?, read_xattrs(reader)?);
    let meta = Meta { mode, uid, gid, mtime, xattrs, extensions: Vec::new() };
    let what = match reader.u8()? {
        IMPLIED => ListedKind::Implied,
        DIRECTORY => ListedKind::Directory,
        FILE => ListedKind::File(read_extents(reader)?),
        SYMLINK => ListedKind::Symlink(reader.bytes(MAX_TARGET_BYTES, "a target")?.to_vec()),
        LINK => ListedKind::Link(TreePath::new(reader.bytes(MAX_PATH_BYTES, "a path")?)?),
        _ => ListedKind::LeftOut,
    };
    Ok(Listed { path, number, meta, what })
}

/// How much memory a member takes, about.
fn memory_bytes(listed: &Listed) -> usize {
    let own = match &listed.what {
        ListedKind::File(extents) => extents_bytes(extents),
        ListedKind::Symlink(target) => target.len(),
        ListedKind::Link(target) => target.as_bytes().len(),
        _ => 0,
    };
    let xattrs: usize = listed.meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    MEMBER_BYTES + listed.path.as_bytes().len() + own + xattrs
}

fn extents_bytes(extents: &[Extent]) -> usize {
    let inline = |extent: &Extent| match extent {
        Extent::Inline(bytes) => bytes.len(),
        _ => 0,
    };
    extents.iter().map(|extent| EXTENT_BYTES + inline(extent)).sum()
}
