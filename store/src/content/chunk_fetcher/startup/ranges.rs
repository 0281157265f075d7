//! `StartupRanges` names the parts of files that are read first: names outlive the chunks.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use super::{
    Part,
    guess::{Guess, Ranking},
    parts,
};
use crate::{
    format::{
        startup::{MAX_BYTES, Startup},
        tree::{Entry, TreePath},
    },
    id::ChunkId,
};

/// Parts of files, in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub struct StartupRanges(Vec<(TreePath, Range<u64>)>);

impl StartupRanges {
    /// Whether nobody has seen what is read first.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where the chunks that were read first are in the tree they were read of.
    pub fn of(first_reads: &[ChunkId], tree: &[Entry]) -> Self {
        let wanted: HashSet<&ChunkId> = first_reads.iter().collect();
        let mut places: HashMap<ChunkId, (&TreePath, Range<u64>)> = HashMap::new();
        for entry in tree {
            for part in parts(entry) {
                if wanted.contains(&part.id) {
                    let range = part.offset..part.offset + u64::from(part.len);
                    places.entry(part.id).or_insert((&entry.path, range));
                }
            }
        }
        let found = first_reads.iter().filter_map(|id| places.get(id));
        Self(found.map(|(path, range)| ((*path).clone(), range.clone())).collect())
    }

    /// The plan for a tree: of a file that has changed, the same part is meant.
    pub fn plan(&self, tree: &[Entry]) -> Startup {
        let mut planner = self.planner();
        tree.iter().for_each(|entry| planner.push(entry));
        planner.finish()
    }

    /// The same for a tree that is told entry by entry.
    pub fn planner(&self) -> StartupPlanner<'_> {
        let paths = self.0.iter().map(|(path, _)| path).collect();
        StartupPlanner { ranges: self, paths, files: HashMap::new(), chunks: 0 }
    }
}

/// Finds the chunks of a tree that are read first, in the tree's order.
#[derive(Debug)]
pub struct StartupPlanner<'a> {
    ranges: &'a StartupRanges,
    paths: HashSet<&'a TreePath>,
    /// Of the files that are read first, by path: the chunks, numbered over the whole tree.
    files: HashMap<TreePath, Vec<(u64, Part)>>,
    /// How many chunks there were so far.
    chunks: u64,
}

impl StartupPlanner<'_> {
    /// The next entry of the tree.
    pub fn push(&mut self, entry: &Entry) {
        if self.paths.contains(&entry.path) {
            self.files.insert(entry.path.clone(), (self.chunks..).zip(parts(entry)).collect());
        }
        self.chunks += entry.chunks().count() as u64;
    }

    /// The plan, once all entries were told.
    pub fn finish(self) -> Startup {
        let mut bytes = 0;
        let mut seen = HashSet::new();
        let mut chunks = Vec::new();
        for (path, range) in &self.ranges.0 {
            for (number, part) in self.files.get(path).into_iter().flatten() {
                let overlaps = part.offset < range.end && part.offset + u64::from(part.len) > range.start;
                if overlaps && seen.insert(*number) {
                    bytes += u64::from(part.len);
                    if bytes > MAX_BYTES {
                        return Startup::new(chunks);
                    }
                    chunks.push(*number);
                }
            }
        }
        Startup::new(chunks)
    }
}

/// Which parts of a tree's files are read first, told before they are cut into chunks.
#[derive(Clone, Debug)]
pub struct First(Told);

#[derive(Clone, Debug)]
enum Told {
    /// As a mount has read them.
    Seen(HashMap<TreePath, Vec<Range<u64>>>),
    /// As they will probably be read.
    Guessed(Arc<dyn Ranking>),
    Unknown,
}

impl First {
    /// By what a mount has read, else by a guess, which looks at the names in `tree`. Without either, no part is
    /// read first.
    pub fn of(places: &StartupRanges, guess: Option<Guess>, tree: &[Entry]) -> Self {
        if places.0.is_empty() {
            return Self(guess.map_or(Told::Unknown, |guess| Told::Guessed(guess(tree))));
        }
        let mut seen: HashMap<TreePath, Vec<Range<u64>>> = HashMap::new();
        for (path, range) in &places.0 {
            seen.entry(path.clone()).or_default().push(range.clone());
        }
        Self(Told::Seen(seen))
    }

    /// Whether this part of a file of that size is among them.
    pub fn has(&self, path: &TreePath, size: u64, part: Range<u64>) -> bool {
        match &self.0 {
            Told::Seen(seen) => seen.get(path).is_some_and(|ranges| {
                ranges.iter().any(|range| range.start < part.end && part.start < range.end)
            }),
            Told::Guessed(ranking) => ranking.rank(path, size, part).is_some(),
            Told::Unknown => false,
        }
    }
}
