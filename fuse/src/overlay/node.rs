//! `Node` is one file, directory or link.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use store::format::tree::{Meta, Time, TreePath};

use super::spans::{Bytes, Spans};
use crate::lower::LowerFile;

/// A number that names a node for as long as the session exists; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ino(pub u64);

impl Ino {
    pub const ROOT: Self = Self(1);
}

/// Holes are told in whole blocks, as other file systems tell them: what is restored
/// elsewhere and captured again is then the same tree.
pub const BLOCK: u64 = 4096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub kind: NodeKind,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many names it has; a directory has one, or none once it is removed.
    pub names: u32,
    /// In which epoch something other than its bytes was changed last; 0 if it is as in the
    /// snapshot.
    pub changed: u64,
    /// Its names in the snapshot below, in order; none if it is new.
    pub below: Vec<TreePath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKind {
    File(FileNode),
    Directory(Directory),
    Symlink { target: Vec<u8> },
    Fifo,
    Socket,
    CharDevice { device: u64 },
    BlockDevice { device: u64 },
}

/// A directory: some of its names are changed, the rest are those of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub parent: Ino,
    /// The names that may not be as below, in the order of their bytes, which is the order of a tree.
    pub slots: BTreeMap<Vec<u8>, Slot>,
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// `None` if the name was removed.
    pub ino: Option<Ino>,
    /// Whether the directory has such a name in the snapshot below, whatever it leads to there.
    pub in_base: bool,
}

/// A regular file: some of its bytes are changed, the rest are those of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileNode {
    pub size: u64,
    pub lower: Option<Arc<LowerFile>>,
    /// Bytes at and after this that no span covers are zeros. It only ever falls, so that
    /// what was cut off never comes back when the file grows again.
    pub limit: u64,
    /// What the limit would be if the last freeze had been the beginning.
    pub limit_since_freeze: u64,
    pub spans: Spans,
    /// The data file that takes the next bytes, and the epoch it was begun in.
    pub generation: u32,
    pub generation_epoch: u64,
    /// What was cut off is still in the data file, so the next bytes go into another.
    pub stale: bool,
}

/// A run of bytes and where to read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Zeros,
    /// In the data file of this generation, at the same offset.
    Upper {
        generation: u32,
    },
    /// In the snapshot, at the same offset.
    Lower,
}

impl FileNode {
    /// A file as the snapshot has it.
    pub fn of(lower: Arc<LowerFile>) -> Self {
        let size = lower.size();
        Self { size, limit: size, limit_since_freeze: size, lower: Some(lower), ..Self::default() }
    }

    /// The generation that bytes written in `epoch` go to. What an earlier epoch has written
    /// is never overwritten: a commit may be reading it.
    pub fn generation_for(&self, epoch: u64) -> u32 {
        let anew = self.stale || (self.generation_epoch != epoch && self.has_data());
        if anew { self.generation + 1 } else { self.generation }
    }

    fn has_data(&self) -> bool {
        self.spans.iter().any(|(_, bytes, _)| bytes != Bytes::Zeros)
    }

    pub fn write(&mut self, range: Range<u64>, generation: u32, epoch: u64) {
        // It never falls, whichever of two writes comes first: what was cut off of an earlier
        // data file would be overwritten.
        if generation > self.generation {
            (self.generation, self.stale) = (generation, false);
        }
        if generation == self.generation {
            self.generation_epoch = epoch;
        }
        self.size = self.size.max(range.end);
        self.spans.set(range, Bytes::Data { generation }, epoch);
    }

    /// Makes `range` zeros, as far as the file goes.
    pub fn zero(&mut self, range: Range<u64>, epoch: u64) {
        let end = range.end.min(self.size);
        if range.start < end {
            self.stale |= self.spans.within(range.start..end).any(|(_, bytes, _)| bytes != Bytes::Zeros);
            self.spans.set(range.start..end, Bytes::Zeros, epoch);
        }
    }

    pub fn truncate(&mut self, size: u64) {
        self.stale |= self.spans.truncate(size);
        self.limit = self.limit.min(size);
        self.limit_since_freeze = self.limit_since_freeze.min(size);
        self.size = size;
    }

    /// Where the bytes of `range` are, in order and without gaps, as far as the file goes.
    pub fn segments(&self, range: Range<u64>) -> Vec<(Range<u64>, Segment)> {
        let end = range.end.min(self.size);
        let mut segments = Vec::new();
        let mut at = range.start;
        for (span, bytes, _) in self.spans.within(range.start.min(end)..end) {
            self.below(at..span.start, &mut segments);
            let segment = match bytes {
                Bytes::Data { generation } => Segment::Upper { generation },
                Bytes::Zeros => Segment::Zeros,
            };
            at = span.end;
            segments.push((span, segment));
        }
        self.below(at..end, &mut segments);
        segments
    }

    /// Where bytes are that no span covers.
    fn below(&self, range: Range<u64>, segments: &mut Vec<(Range<u64>, Segment)>) {
        if range.is_empty() {
            return;
        }
        let split = self.limit.clamp(range.start, range.end);
        if range.start < split {
            segments.push((range.start..split, Segment::Lower));
        }
        if split < range.end {
            segments.push((split..range.end, Segment::Zeros));
        }
    }

    /// Runs of zeros that take no space, in whole blocks; the last may end with the file.
    pub fn holes(&self) -> Vec<Range<u64>> {
        let mut empty: Vec<Range<u64>> = Vec::new();
        let mut push = |range: Range<u64>| match empty.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => empty.push(range),
        };
        for (range, segment) in self.segments(0..self.size) {
            match segment {
                Segment::Zeros => push(range),
                Segment::Upper { .. } => {}
                Segment::Lower => {
                    self.lower.iter().flat_map(|lower| lower.holes(range.clone())).for_each(&mut push);
                }
            }
        }
        let whole = |hole: Range<u64>| {
            let end = if hole.end == self.size { hole.end } else { hole.end / BLOCK * BLOCK };
            hole.start.next_multiple_of(BLOCK)..end
        };
        empty.into_iter().map(whole).filter(|hole| hole.start < hole.end).collect()
    }

    /// Whether its bytes are those of the snapshot.
    pub fn is_as_below(&self) -> bool {
        self.spans.is_empty()
            && self.lower.as_ref().map_or(0, |lower| lower.size()) == self.size
            && self.limit >= self.size
    }
}

impl Node {
    /// A node of this kind that has no name yet.
    pub fn new(meta: &Meta, kind: NodeKind) -> Self {
        Self {
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
            below: Vec::new(),
        }
    }

    pub fn file(&self) -> Option<&FileNode> {
        match &self.kind {
            NodeKind::File(file) => Some(file),
            _ => None,
        }
    }

    pub fn file_mut(&mut self) -> Option<&mut FileNode> {
        match &mut self.kind {
            NodeKind::File(file) => Some(file),
            _ => None,
        }
    }

    pub fn directory(&self) -> Option<&Directory> {
        match &self.kind {
            NodeKind::Directory(directory) => Some(directory),
            _ => None,
        }
    }

    pub fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.kind {
            NodeKind::Directory(directory) => Some(directory),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_off_never_comes_back() {
        let lower = LowerFile::of_holes(10 * BLOCK);
        let mut file = FileNode::of(Arc::new(lower));
        assert!(file.is_as_below());
        file.truncate(3 * BLOCK);
        file.truncate(5 * BLOCK);
        assert_eq!(
            file.segments(0..file.size),
            [(0..3 * BLOCK, Segment::Lower), (3 * BLOCK..5 * BLOCK, Segment::Zeros)]
        );
        assert!(!file.is_as_below());
        file.write(BLOCK..BLOCK + 1, file.generation_for(1), 1);
        assert_eq!(file.segments(BLOCK..BLOCK + 2).len(), 2);
    }

    #[test]
    fn bytes_of_an_earlier_epoch_are_not_overwritten() {
        let mut file = FileNode::default();
        assert_eq!(file.generation_for(1), 0);
        file.write(0..10, 0, 1);
        assert_eq!(file.generation_for(1), 0);
        assert_eq!(file.generation_for(2), 1);
        file.truncate(5);
        assert_eq!(file.generation_for(1), 1, "what was cut off is not overwritten either");
        file.write(5..10, 1, 1);
        assert_eq!(file.generation_for(1), 1);
    }

    #[test]
    fn the_generation_never_falls() {
        let mut file = FileNode::default();
        file.write(0..10, 0, 1);
        file.truncate(0);
        let late = 0;
        file.write(0..10, file.generation_for(1), 1);
        file.write(10..20, late, 1);
        assert_eq!((file.generation, file.generation_for(1)), (1, 1), "a late write has set it back");
        // What the late one wrote may be cut off, too, without making the new one stale for good.
        file.truncate(10);
        assert_eq!(file.generation_for(1), 2);
        file.write(10..20, 2, 1);
        file.write(20..30, 1, 2);
        assert_eq!((file.generation, file.generation_epoch, file.generation_for(1)), (2, 1, 2));
    }

    #[test]
    fn holes_are_whole_blocks() {
        let mut file = FileNode::default();
        file.write(10_000_000..10_000_001, 0, 1);
        assert_eq!(file.holes(), vec![0..10_000_000 / BLOCK * BLOCK; 1]);
        file.truncate(20_000_000);
        assert_eq!(file.holes()[1], (10_000_001u64).next_multiple_of(BLOCK)..20_000_000);
    }
}
