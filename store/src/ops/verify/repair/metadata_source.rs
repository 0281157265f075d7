//! Finds metadata for snapshots whose own is lost.

use std::collections::HashSet;

use crate::{
    Result,
    content::{TenantStore, meta::Metadata},
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
    pub(super) async fn metadata(&self, record: &Record, barred: &[PackId]) -> Result<Option<Metadata>> {
        let Some(own) = &record.content else { return Ok(None) };
        if let Some(metadata) = self.load(record, own).await? {
            return Ok(Some(metadata));
        }
        let barred: HashSet<&PackId> = barred.iter().collect();
        for (_, other) in self.records.iter().filter(|(_, other)| other.record != record.record) {
            let Some(content) = &other.content else { continue };
            let is_barred = content.packs.iter().any(|used| barred.contains(&used.pack));
            if content.snapshot_id == own.snapshot_id
                && !is_barred
                && let Some(metadata) = self.load(other, content).await?
            {
                return Ok(Some(metadata));
            }
        }
        Ok(None)
    }

    async fn load(&self, record: &Record, content: &Content) -> Result<Option<Metadata>> {
        match Metadata::load(self.store, record.record, record.generation, content).await {
            Ok(metadata) => Ok(Some(metadata)),
            Err(error) if is_damage(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
