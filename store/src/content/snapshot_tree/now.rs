//! Answers at once, from memory or this host's disk, or names the part that must be loaded first.

use std::sync::Arc;

use super::{
    Child, FoundEntry, Links, SnapshotTree, TreeFile,
    listing::{Walk, child},
    located_segment::LocatedSegment,
};
use crate::{
    Result,
    format::{
        segment::covered,
        tree::{Entry, Kind, TreePath},
    },
};

/// A part of the tree that must be loaded before the answer is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// The segment at this place.
    Segment(usize),
    /// The hard links of the tree.
    Links,
    /// The names in this directory.
    Names(TreePath),
    /// The file at this path, which takes several segments.
    File(TreePath),
}

type Now<T> = std::result::Result<T, Absent>;

impl SnapshotTree {
    /// Loads an absent part. A caller that asks again soon finds it.
    pub async fn load(&self, absent: &Absent) -> Result<()> {
        match absent {
            Absent::Segment(at) => self.read(*at).await.map(drop),
            Absent::Links => self.links().await.map(drop),
            Absent::Names(directory) => {
                let names = self.names(directory).await?;
                self.listings.put(directory.clone(), names);
                Ok(())
            }
            Absent::File(path) => {
                if let Some(file) = self.file(path).await? {
                    self.files.put(path.clone(), file);
                }
                Ok(())
            }
        }
    }

    /// The entry at a path, if that is known now.
    pub fn find_now(&self, path: &TreePath) -> Now<Option<FoundEntry>> {
        let Some(at) = self.segment_of(path.as_bytes()) else { return Ok(None) };
        let part = self.part_now(at)?;
        Ok(self.found(at, &part, path))
    }

    /// The entry with so many before it, if that is known now.
    pub fn at_now(&self, ordinal: u64) -> Now<Option<Entry>> {
        let Some(at) = self.segment_at(ordinal) else { return Ok(None) };
        let part = self.part_now(at)?;
        Ok(part.tree.entries.get((ordinal - self.before[at]) as usize).cloned())
    }

    /// The entry with so many before it and, if it is a regular file, that file: from one look at its segment.
    pub fn whole_now(&self, ordinal: u64) -> Now<Option<(Entry, Option<Arc<TreeFile>>)>> {
        let Some(at) = self.segment_at(ordinal) else { return Ok(None) };
        let part = self.part_now(at)?;
        let place = (ordinal - self.before[at]) as usize;
        let Some(entry) = part.tree.entries.get(place) else { return Ok(None) };
        Ok(Some((entry.clone(), self.file_of(&part, place)?)))
    }

    /// The regular file that begins there in a segment.
    fn file_of(&self, part: &LocatedSegment, place: usize) -> Now<Option<Arc<TreeFile>>> {
        let entry = &part.tree.entries[place];
        if !matches!(entry.kind, Kind::File { .. }) {
            return Ok(None);
        }
        if covered(entry) < entry.size() || entry.check().is_err() {
            let whole = self.files.get(&entry.path);
            return whole.map(Some).ok_or_else(|| Absent::File(entry.path.clone()));
        }
        Ok(Some(Arc::new(TreeFile { entry: entry.clone(), pieces: part.pieces(place) })))
    }

    /// The names in a directory, if they are known now.
    pub fn names_now(&self, directory: &TreePath) -> Now<Arc<Vec<Child>>> {
        if let Some(names) = self.listings.get(directory) {
            return Ok(names);
        }
        let mut walk = Walk::new(self, directory, child);
        while let Some(at) = walk.at {
            let part = self.part_now(at).map_err(|_| Absent::Names(directory.clone()))?;
            walk.take(self, at, &part);
        }
        Ok(Arc::new(walk.found))
    }

    /// The hard links, if they are known now.
    pub fn links_now(&self) -> Now<Arc<Links>> {
        if let Some(links) = self.links.get() {
            return Ok(Arc::clone(links));
        }
        let mut links = Links::default();
        for at in self.linked() {
            links.add(&*self.part_now(at).map_err(|_| Absent::Links)?);
        }
        Ok(Arc::clone(self.links.get_or_init(|| Arc::new(links))))
    }

    fn part_now(&self, at: usize) -> Now<Arc<LocatedSegment>> {
        self.segments.now(at).ok_or(Absent::Segment(at))
    }
}
