//! `MovedTree` is the tree of a stored snapshot of which some chunks lie elsewhere by now.
//!
//! It reads the segments whose tables change, one after another, and holds the list of the segments alone. Moves follow each
//! other: each is made on the tree that the one before has left.

use std::{collections::HashSet, sync::Arc};

use super::{
    TenantStore,
    meta::{MetaPack, SharedBlobs},
    snapshot_tree::{
        SnapshotTree,
        stored_segments::{StoredSegment, StoredSegments},
    },
};
use crate::{
    Result,
    format::{
        pack::EntryKind,
        record::Content,
        root::{PackBytes, Root, SegmentRef, Span, packs_of},
        table::{self, Location},
    },
    id::{ChunkId, PackId, RecordId},
};

/// A tree whose segments are read as they are stored, and its root as it is by now.
#[derive(Debug)]
pub struct MovedTree {
    tree: Arc<SnapshotTree>,
    root: Root,
}

/// The table that a segment has after a move.
struct NextTable {
    id: ChunkId,
    packs: Vec<PackBytes>,
}

impl MovedTree {
    /// Of a record of this generation; nothing has moved yet. A tree that is not read by need takes no more than `most`
    /// bytes.
    pub async fn open(
        store: &TenantStore,
        record: (RecordId, u64),
        content: &Content,
        most: u64,
    ) -> Result<Self> {
        Ok(Self::new(Arc::new(SnapshotTree::open_within(store, record, content, most).await?)))
    }

    /// Nothing has moved yet.
    pub fn new(tree: Arc<SnapshotTree>) -> Self {
        let root = tree.root().clone();
        Self { tree, root }
    }

    /// The list of its segments by now.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The segments that need something of these packs, counted from 0.
    pub fn segments_in(&self, is_one: impl Fn(&PackId) -> bool) -> Vec<usize> {
        let needs = |segment: &SegmentRef| {
            segment.span.as_ref().is_none_or(|span| span.packs.iter().any(|used| is_one(&used.pack)))
        };
        (0..self.root.segments.len()).filter(|at| needs(&self.root.segments[*at])).collect()
    }

    /// Some of its segments, as they were stored before anything has moved.
    pub fn stored(&self, chosen: Vec<usize>) -> StoredSegments {
        StoredSegments::of(&self.tree, chosen)
    }

    /// Has the chunks lie where `moved` says, which knows all moves so far by where a chunk was before the first one. What
    /// lies in an emptied pack is stored again. `None` if that changes nothing of the snapshot, whose root is in the pack
    /// `root_in`.
    pub async fn move_on(
        &mut self,
        (meta, store): (&mut MetaPack, &TenantStore),
        moved: impl Fn(&Location) -> Location,
        is_emptied: impl Fn(&PackId) -> bool,
        root_in: PackId,
    ) -> Result<Option<Content>> {
        let tables = self.next_tables(store, &moved, &is_emptied).await?;
        let segments = || self.root.segments.iter().zip(&tables);
        let has_moved = segments().any(|(segment, table)| table.id != segment.table.id);
        let has_emptied = is_emptied(&root_in) || self.root.blobs().any(|blob| is_emptied(&blob.pack));
        if !has_moved && !has_emptied {
            return Ok(None);
        }
        let wanted: HashSet<ChunkId> =
            segments().flat_map(|(segment, table)| [segment.tree.id, table.id]).collect();
        let shared = SharedBlobs::of(&self.root, &wanted, &is_emptied);
        let is_new =
            |segment: &SegmentRef, table: &NextTable| !shared.has(&segment.tree.id) || !shared.has(&table.id);
        let new: Vec<usize> = segments()
            .enumerate()
            .filter(|(_, (segment, table))| is_new(segment, table))
            .map(|(at, _)| at)
            .collect();
        // A table may be stored in more bytes after a move, by a little.
        let blobs = new.iter().flat_map(|at| [&self.root.segments[*at].tree, &self.root.segments[*at].table]);
        meta.reserve(blobs.map(|blob| blob.stored_len as usize).sum());
        let mut stored = self.stored(new);
        let mut next = stored.next().await?;
        let mut root = Root { segments: Vec::with_capacity(tables.len()) };
        for (at, (segment, table)) in segments().enumerate() {
            let (mut tree_bytes, mut table_bytes) = (None, None);
            if let Some(found) = next.take_if(|found| found.at == at) {
                let locations = self.locations(&found, &moved)?;
                (tree_bytes, table_bytes) = (Some(found.tree), Some(table::encode(&locations)));
                next = stored.next().await?;
            }
            let span = segment.span.clone().unwrap_or_default();
            root.segments.push(SegmentRef {
                tree: meta.place(&shared, segment.tree.id, EntryKind::Tree, tree_bytes.as_deref())?,
                table: meta.place(&shared, table.id, EntryKind::Table, table_bytes.as_deref())?,
                chunks: segment.chunks,
                span: Some(Span { packs: table.packs.clone(), ..span }),
            });
        }
        let content = meta.end(store, &root, &shared)?;
        self.root = root;
        Ok(Some(content))
    }

    /// The table of each segment after a move.
    async fn next_tables(
        &self,
        store: &TenantStore,
        moved: &impl Fn(&Location) -> Location,
        is_emptied: &impl Fn(&PackId) -> bool,
    ) -> Result<Vec<NextTable>> {
        let packs =
            |segment: &SegmentRef| segment.span.iter().flat_map(|span| &span.packs).copied().collect();
        let now = |segment: &SegmentRef| NextTable { id: segment.table.id, packs: packs(segment) };
        let mut tables: Vec<NextTable> = self.root.segments.iter().map(now).collect();
        let mut stored = self.stored(self.segments_in(is_emptied));
        while let Some(found) = stored.next().await? {
            let locations = self.locations(&found, moved)?;
            let id = store.key().id_of(&table::encode(&locations));
            tables[found.at] = NextTable { id, packs: packs_of(&locations) };
        }
        Ok(tables)
    }

    /// The chunks of one of its segments, each with its length, and where it lay before anything has moved.
    pub fn chunks(&self, found: &StoredSegment) -> Result<Vec<(ChunkId, u32, Location)>> {
        found.chunks(&self.tree.root().segments[found.at])
    }

    fn locations(
        &self,
        found: &StoredSegment,
        moved: impl Fn(&Location) -> Location,
    ) -> Result<Vec<Location>> {
        let locations = found.locations(&self.tree.root().segments[found.at])?;
        Ok(locations.iter().map(moved).collect())
    }
}
