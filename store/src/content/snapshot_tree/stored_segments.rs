//! `StoredSegments` reads chosen segments of a tree as they are stored, one after another.
//!
//! It fetches some megabytes at a time, and hands on a segment before it decodes the next.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;

use super::{
    SnapshotTree,
    windows::{Fetched, Windows},
};
use crate::{
    Error, Result,
    content::{
        chunk::Locations,
        meta::{check_span, table_of},
    },
    format::{root::SegmentRef, segment::SegmentPart, table::Location},
    id::ChunkId,
};

/// Some segments of a tree, in its order.
#[derive(Debug)]
pub struct StoredSegments {
    tree: Arc<SnapshotTree>,
    windows: Windows,
    waiting: VecDeque<Fetched>,
}

/// A segment as it is stored but decompressed, checked against its id.
#[derive(Clone, Debug)]
pub struct StoredSegment {
    /// Its place among the tree's segments.
    pub at: usize,
    /// The piece of the tree.
    pub tree: Bytes,
    /// Where its chunks lie.
    table: Bytes,
}

impl StoredSegments {
    /// These segments of a tree, counted from 0, in its order. Those that this host has kept are not fetched.
    pub fn of(tree: &Arc<SnapshotTree>, chosen: Vec<usize>) -> Self {
        let windows = Windows::at_hand(tree, chosen.into_iter());
        Self { tree: Arc::clone(tree), windows, waiting: VecDeque::new() }
    }

    /// The next segment; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<StoredSegment>> {
        if self.waiting.is_empty() {
            self.waiting.extend(self.windows.next().await?.unwrap_or_default());
        }
        let Some(fetched) = self.waiting.pop_front() else { return Ok(None) };
        let at = fetched.at;
        let (tree, table) =
            fetched.verified(self.tree.segments.store().key(), &self.tree.root().segments[at])?;
        Ok(Some(StoredSegment { at, tree, table }))
    }
}

impl StoredSegment {
    /// Where its chunks lie; `segment` is the entry of the tree's root for it.
    pub fn locations(&self, segment: &SegmentRef) -> Result<Vec<Location>> {
        table_of(segment, &self.table)
    }

    /// Its chunks, each with its length and location.
    pub fn chunks(&self, segment: &SegmentRef) -> Result<Vec<(ChunkId, u32, Location)>> {
        let part = SegmentPart::read(&self.tree)
            .map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
        check_span(segment, &part.span)?;
        let locations = self.locations(segment)?;
        let chunks: Vec<(ChunkId, u32)> = part.chunks().collect();
        if chunks.len() != locations.len() {
            let reason = format!("{} chunks, but {} locations", chunks.len(), locations.len());
            return Err(Error::damaged(format!("table segment {}", segment.table.id), reason));
        }
        Ok(chunks
            .into_iter()
            .zip(locations)
            .map(|((id, raw_len), location)| (id, raw_len, location))
            .collect())
    }
}

impl SnapshotTree {
    /// Where each of its chunks lies. Of its entries no more is held than one segment has.
    pub async fn locations(self: &Arc<Self>) -> Result<Locations> {
        let mut locations = Locations::new();
        let mut stored = StoredSegments::of(self, (0..self.root().segments.len()).collect());
        while let Some(found) = stored.next().await? {
            for (id, _, location) in found.chunks(&self.root().segments[found.at])? {
                locations.entry(id).or_insert(location);
            }
        }
        Ok(locations)
    }
}
