//! `SnapshotTree` reads a snapshot's tree by need: its root first, then the segments that hold what is asked for.
//!
//! A small tree is fetched whole, since that takes one round of requests as its root does. Of a large one the
//! segments that were read last are held, and no more.

mod listing;
mod segments;
pub mod stream;
mod windows;

use std::{collections::BTreeSet, sync::Arc};

use self::segments::{Part, Segments};
use super::{TenantStore, chunk::Piece, meta::Metadata};
use crate::{
    Error, Result,
    format::{
        record::{Content, Record},
        root::{Root, Span},
        segment::covered,
        tree::{Entry, Kind, TreePath, in_order},
    },
    id::PackId,
};

/// The tree of one snapshot.
#[derive(Debug)]
pub struct SnapshotTree {
    segments: Segments,
    /// The segments in which an entry begins, in order.
    begins: Vec<usize>,
}

/// A regular file with the places of its chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// The entry, with all its extents.
    pub entry: Entry,
    /// Its chunks, in order.
    pub pieces: Vec<Piece>,
}

impl SnapshotTree {
    /// Reads the root of a snapshot and, of a small one, all segments.
    pub async fn open(store: &TenantStore, record: &Record) -> Result<Self> {
        let content = content(record)?;
        if Metadata::is_small(content) {
            let metadata = Metadata::load(store, record.record, record.generation, content).await?;
            return Ok(Self::new(Segments::whole(store, metadata)?));
        }
        Self::by_need(store, record).await
    }

    /// Reads the root of a snapshot, however small that is. If it is of version 1, all segments are read to find
    /// out what they cover.
    pub async fn by_need(store: &TenantStore, record: &Record) -> Result<Self> {
        let content = content(record)?;
        let root = Metadata::fetch_root(store, content).await?;
        if !root.is_spanned() {
            return Ok(Self::new(Segments::whole(store, Metadata::fetch(store, content).await?)?));
        }
        Ok(Self::new(Segments::by_need(store, root)))
    }

    /// Reads it from the bucket and never from what this host has kept, to find out whether it is whole there.
    pub async fn stored(store: &TenantStore, record: &Record) -> Result<Self> {
        let content = content(record)?;
        if !Metadata::is_small(content) {
            let root = Metadata::fetch_root(store, content).await?;
            if root.is_spanned() {
                return Ok(Self::new(Segments::by_need(store, root)));
            }
        }
        Ok(Self::new(Segments::whole(store, Metadata::fetch(store, content).await?)?))
    }

    fn new(segments: Segments) -> Self {
        let has_first = |at: &usize| segments.first(*at).is_some();
        let begins = (0..segments.len()).filter(has_first).collect();
        Self { segments, begins }
    }

    /// What the tree consists of.
    pub fn root(&self) -> &Root {
        self.segments.root()
    }

    /// How many entries it has.
    pub fn entries(&self) -> u64 {
        self.sum(|span| span.entries)
    }

    /// The sizes of all its files.
    pub fn content_bytes(&self) -> u64 {
        self.sum(|span| span.content_bytes)
    }

    /// The packs that it needs, with those of its segments.
    pub fn packs(&self) -> BTreeSet<PackId> {
        let spans = self.root().segments.iter().filter_map(|segment| segment.span.as_ref());
        let of_chunks = spans.flat_map(|span| span.packs.iter().map(|used| used.pack));
        of_chunks.chain(self.root().blobs().map(|blob| blob.pack)).collect()
    }

    fn sum(&self, of: fn(&Span) -> u64) -> u64 {
        self.root().segments.iter().filter_map(|segment| segment.span.as_ref()).map(of).sum()
    }

    /// What a path names.
    pub async fn entry(&self, path: &TreePath) -> Result<Option<Entry>> {
        let Some(at) = self.segment_of(path.as_bytes()) else { return Ok(None) };
        let part = self.segments.read(at).await?;
        let found = part.tree.entries.binary_search_by(|entry| entry.path.cmp(path));
        Ok(found.ok().map(|found| part.tree.entries[found].clone()))
    }

    /// The file behind an entry: a hard link's is the one it links to. Its extents may not be complete.
    pub async fn behind(&self, entry: &Entry) -> Result<Option<Entry>> {
        match &entry.kind {
            Kind::File { .. } => Ok(Some(entry.clone())),
            Kind::HardLink { target } => self.entry(target).await,
            _ => Ok(None),
        }
    }

    /// The regular file at a path, with where its chunks lie.
    pub async fn file(&self, path: &TreePath) -> Result<Option<TreeFile>> {
        let Some(at) = self.segment_of(path.as_bytes()) else { return Ok(None) };
        let part = self.segments.read(at).await?;
        let Ok(place) = part.tree.entries.binary_search_by(|entry| entry.path.cmp(path)) else {
            return Ok(None);
        };
        let mut entry = part.tree.entries[place].clone();
        let mut pieces = part.pieces(place);
        let mut next = at + 1;
        while covered(&entry) < entry.size() {
            let more = self.segments.continued(next, &entry.path).await?;
            pieces.extend(more.continued_pieces());
            if let Kind::File { extents, .. } = &mut entry.kind {
                extents.extend(more.tree.continued.iter().cloned());
            }
            next += 1;
        }
        entry.check().map_err(|error| error.of(format!("the file {path}")))?;
        Ok(matches!(entry.kind, Kind::File { .. }).then_some(TreeFile { entry, pieces }))
    }

    /// The segment in which an entry of this path would begin.
    fn segment_of(&self, path: &[u8]) -> Option<usize> {
        let is_before = |at: &usize| {
            let first = self.segments.first(*at).map_or(&[][..], TreePath::as_bytes);
            in_order(first, path).is_le()
        };
        let after = self.begins.partition_point(is_before);
        self.begins.get(after.checked_sub(1)?).copied()
    }

    /// The first segment after `at` in which an entry begins.
    fn next_of(&self, at: usize) -> Option<usize> {
        self.begins.get(self.begins.partition_point(|begins| *begins <= at)).copied()
    }

    async fn read(&self, at: usize) -> Result<Arc<Part>> {
        self.segments.read(at).await
    }
}

fn content(record: &Record) -> Result<&Content> {
    let missing = || Error::damaged(format!("record {}", record.record), "it has no content");
    record.content.as_ref().ok_or_else(missing)
}
