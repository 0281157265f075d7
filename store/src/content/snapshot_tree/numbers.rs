//! Finds chunks by their number in the tree, and the numbers of a file's chunks: hints of what is read first name both.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
};

use futures::{StreamExt, TryStreamExt, stream};

use super::SnapshotTree;
use crate::{
    Result,
    format::tree::{Entry, Extent, Kind, TreePath},
};

/// Segments that are fetched at once.
const REQUESTS_AT_ONCE: usize = 16;

impl SnapshotTree {
    /// Of chunks by number, the parts of files that they are, as far as the tree has so many.
    pub(crate) async fn places_of(&self, numbers: &[u64]) -> Result<Vec<(TreePath, Range<u64>)>> {
        let firsts = self.first_numbers();
        let segment_of = |number: u64| firsts.partition_point(|first| *first <= number).checked_sub(1);
        self.fetch(numbers.iter().filter_map(|number| segment_of(*number))).await?;
        let mut places = Vec::new();
        let mut file: Option<(u64, Entry)> = None;
        for number in numbers {
            let is_in = |(first, entry): &(u64, Entry)| {
                (*first..*first + entry.chunks().count() as u64).contains(number)
            };
            if !file.as_ref().is_some_and(is_in) {
                let Some(at) = segment_of(*number) else { continue };
                file = self.file_with(at, firsts[at], *number, &firsts).await?;
            }
            if let Some((first, entry)) = &file
                && let Some(range) = chunk_ranges(entry).nth((number - first) as usize)
            {
                places.push((entry.path.clone(), range));
            }
        }
        Ok(places)
    }

    /// The files at these paths, each with the number of its first chunk.
    pub(crate) async fn numbered(
        &self,
        paths: &BTreeSet<&TreePath>,
    ) -> Result<HashMap<TreePath, (u64, Entry)>> {
        let firsts = self.first_numbers();
        self.fetch(paths.iter().filter_map(|path| self.segment_of(path.as_bytes()))).await?;
        let mut found = HashMap::new();
        for path in paths {
            let Some(at) = self.segment_of(path.as_bytes()) else { continue };
            let part = self.read(at).await?;
            let Ok(place) = part.tree.entries.binary_search_by(|entry| entry.path.cmp(path)) else {
                continue;
            };
            if let Some(file) = self.file(path).await? {
                let first = firsts[at] + chunks_before(&part.tree.continued, &part.tree.entries[..place]);
                found.insert((*path).clone(), (first, file.entry));
            }
        }
        Ok(found)
    }

    /// The file that has a chunk of this number, which the segment `at` has, with the number of its first one.
    async fn file_with(
        &self,
        at: usize,
        first: u64,
        number: u64,
        firsts: &[u64],
    ) -> Result<Option<(u64, Entry)>> {
        let part = self.read(at).await?;
        let mut next = first + chunks_before(&part.tree.continued, &[]);
        if number < next {
            // It began in a segment before.
            let began = (0..at).rev().find(|at| self.segments.first(*at).is_some());
            let Some(began) = began else { return Ok(None) };
            let part = self.read(began).await?;
            let Some((last, others)) = part.tree.entries.split_last() else { return Ok(None) };
            let first = firsts[began] + chunks_before(&part.tree.continued, others);
            return Ok(self.file(&last.path).await?.map(|file| (first, file.entry)));
        }
        for entry in &part.tree.entries {
            let count = entry.chunks().count() as u64;
            if number < next + count {
                return Ok(self.file(&entry.path).await?.map(|file| (next, file.entry)));
            }
            next += count;
        }
        Ok(None)
    }

    /// The number of the first chunk of each segment.
    fn first_numbers(&self) -> Vec<u64> {
        let mut next = 0;
        let segments = self.root().segments.iter();
        let firsts = segments.map(|segment| {
            let first = next;
            next += u64::from(segment.chunks);
            first
        });
        firsts.collect()
    }

    /// Reads segments ahead, several at once.
    async fn fetch(&self, segments: impl Iterator<Item = usize>) -> Result<()> {
        let segments: BTreeSet<usize> = segments.collect();
        let reads = stream::iter(segments).map(|at| self.read(at)).buffer_unordered(REQUESTS_AT_ONCE);
        reads.try_for_each(|_| async { Ok(()) }).await
    }
}

/// How many chunks a segment has before an entry.
fn chunks_before(continued: &[Extent], entries: &[Entry]) -> u64 {
    let is_chunk = |extent: &&Extent| matches!(extent, Extent::Chunk { .. });
    let continued = continued.iter().filter(is_chunk).count();
    (continued + entries.iter().flat_map(Entry::chunks).count()) as u64
}

/// The ranges of a file that its chunks cover.
fn chunk_ranges(entry: &Entry) -> impl Iterator<Item = Range<u64>> + '_ {
    let extents = if let Kind::File { extents, .. } = &entry.kind { extents.as_slice() } else { &[] };
    let mut end = 0;
    extents.iter().filter_map(move |extent| {
        let start = end;
        end += extent.len();
        matches!(extent, Extent::Chunk { .. }).then_some(start..end)
    })
}
