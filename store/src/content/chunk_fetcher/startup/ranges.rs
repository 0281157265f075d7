//! `StartupRanges` names the parts of files that are read first: names outlive the chunks.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    ops::Range,
    sync::Arc,
};

use super::{
    guess::{Guess, Ranking},
    parts,
};
use crate::{
    Result,
    content::snapshot_tree::SnapshotTree,
    format::{
        startup::{MAX_BYTES, Startup},
        tree::{Entry, TreePath},
    },
    id::ChunkId,
};

/// No plan of ours names so many chunks.
const MOST_CHUNKS: usize = 1 << 16;

/// Parts of files, in the order in which they are read.
#[derive(Clone, Debug, Default)]
pub struct StartupRanges(Vec<(TreePath, Range<u64>)>);

impl StartupRanges {
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

    /// These parts of files, in the order in which they are read.
    pub fn new(places: Vec<(TreePath, Range<u64>)>) -> Self {
        Self(places)
    }

    /// The ranges that a plan names, in the tree that it was made for.
    pub async fn named_by(startup: &Startup, tree: &SnapshotTree) -> Result<Self> {
        let count = tree.root().segments.iter().map(|segment| u64::from(segment.chunks)).sum();
        let numbers: Vec<u64> = startup.chunks(count).take(MOST_CHUNKS).collect();
        let mut left = MAX_BYTES;
        let places = tree.places_of(&numbers).await?;
        let within = places.into_iter().take_while(|(_, range)| {
            let rest = left.checked_sub(range.end - range.start);
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        Ok(Self(within.collect()))
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The plan for a tree that is read by need.
    pub async fn plan_in(&self, tree: &SnapshotTree) -> Result<Startup> {
        let paths: BTreeSet<&TreePath> = self.0.iter().map(|(path, _)| path).collect();
        let files = tree.numbered(&paths).await?;
        Ok(self.plan_of(&files.iter().map(|(path, (first, entry))| (path, (*first, entry))).collect()))
    }

    /// The plan for a tree: of a file that has changed, the same part is meant.
    pub fn plan(&self, tree: &[Entry]) -> Startup {
        let paths: HashSet<&TreePath> = self.0.iter().map(|(path, _)| path).collect();
        let mut files: HashMap<&TreePath, (u64, &Entry)> = HashMap::new();
        let mut number = 0;
        for entry in tree {
            if paths.contains(&entry.path) {
                files.insert(&entry.path, (number, entry));
            }
            number += entry.chunks().count() as u64;
        }
        self.plan_of(&files)
    }

    /// The plan, with the number of each file's first chunk.
    fn plan_of(&self, files: &HashMap<&TreePath, (u64, &Entry)>) -> Startup {
        let mut bytes = 0;
        let mut seen = HashSet::new();
        let mut chunks = Vec::new();
        for (path, range) in &self.0 {
            let Some((first, entry)) = files.get(path) else { continue };
            for (number, part) in (*first..).zip(parts(entry)) {
                let overlaps = part.offset < range.end && part.offset + u64::from(part.len) > range.start;
                if overlaps && seen.insert(number) {
                    bytes += u64::from(part.len);
                    if bytes > MAX_BYTES {
                        return Startup::new(chunks);
                    }
                    chunks.push(number);
                }
            }
        }
        Startup::new(chunks)
    }
}

/// The parts of a tree's files that are read first, known before the files are cut into chunks.
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
    /// By the recorded reads of a mount, else by a guess, which looks at the names in `tree`. Without either,
    /// no part is read first.
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
