//! Finds metadata for snapshots whose own is lost.

use std::{collections::HashSet, sync::Arc};

use crate::{
    Result,
    content::{
        TenantStore,
        meta::Metadata,
        snapshot_tree::{SnapshotTree, stored_segments::StoredSegments},
    },
    format::record::{Content, Record},
    id::PackId,
    name::Lineage,
    ops::verify::findings::is_damage,
};

/// Snapshots with the same tree: metadata that one of them lacks, another may have.
pub(super) struct MetadataSource<'a> {
    store: &'a TenantStore,
    records: &'a [(Lineage, Record)],
}

impl<'a> MetadataSource<'a> {
    pub(super) fn new(store: &'a TenantStore, records: &'a [(Lineage, Record)]) -> Self {
        Self { store, records }
    }

    /// From this host's cache, from the bucket, or from a snapshot with the same tree that needs
    /// none of the `barred` packs. `None` if it is nowhere.
    pub(super) async fn tree(&self, record: &Record, barred: &[PackId]) -> Result<Option<Arc<SnapshotTree>>> {
        let Some(own) = &record.content else { return Ok(None) };
        if let Some(tree) = self.load(record, own).await? {
            return Ok(Some(tree));
        }
        let barred: HashSet<&PackId> = barred.iter().collect();
        for (_, other) in self.records.iter().filter(|(_, other)| other.record != record.record) {
            let Some(content) = &other.content else { continue };
            let is_barred = content.packs.iter().any(|used| barred.contains(&used.pack));
            if content.snapshot_id == own.snapshot_id
                && !is_barred
                && let Some(tree) = self.load(other, content).await?
            {
                return Ok(Some(tree));
            }
        }
        Ok(None)
    }

    async fn load(&self, record: &Record, content: &Content) -> Result<Option<Arc<SnapshotTree>>> {
        match self.read_through(record).await {
            Err(error) if is_damage(&error) => {}
            read => return read.map(Some),
        }
        // This host may have kept all of what is lost.
        match Metadata::load(self.store, record.record, record.generation, content).await {
            Ok(metadata) => SnapshotTree::of_metadata(self.store, Arc::new(metadata)).map(Arc::new).map(Some),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A tree that is there whole: each of its segments was read once.
    async fn read_through(&self, record: &Record) -> Result<Arc<SnapshotTree>> {
        let tree = Arc::new(SnapshotTree::open(self.store, record).await?);
        let mut stored = StoredSegments::of(&tree, (0..tree.root().segments.len()).collect());
        while stored.next().await?.is_some() {}
        Ok(tree)
    }
}
