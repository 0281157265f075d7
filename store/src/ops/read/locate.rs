//! `SnapshotLocator` tells where a snapshot's chunks lie now, for readers beside a repack.

use std::sync::Arc;

use parking_lot::Mutex;

use async_trait::async_trait;

use super::open::as_it_is_now;
use crate::{
    Result,
    catalog::{records, rules::Rules},
    content::{
        TenantStore,
        chunk::Locations,
        relocator::{Relocate, Relocator},
        snapshot_tree::SnapshotTree,
    },
    format::record::Record,
    id::RecordId,
    name::Lineage,
};

/// The snapshot somebody reads.
#[derive(Debug)]
pub struct SnapshotLocator {
    store: TenantStore,
    /// Another one after a commit.
    snapshot: Mutex<Option<(Lineage, RecordId)>>,
}

impl SnapshotLocator {
    /// Knows where to look; without a snapshot, nowhere.
    pub fn new(store: TenantStore, snapshot: Option<(Lineage, RecordId)>) -> Self {
        Self { store, snapshot: Mutex::new(snapshot) }
    }

    /// Looks at this snapshot from now on.
    pub fn becomes(&self, lineage: Lineage, record: RecordId) {
        *self.snapshot.lock() = Some((lineage, record));
    }
}

#[async_trait]
impl Relocate for SnapshotLocator {
    async fn locations(&self) -> Result<Locations> {
        let snapshot = self.snapshot.lock().clone();
        let Some((lineage, record)) = snapshot else { return Ok(Locations::new()) };
        let record = records::current(&self.store, &lineage, record).await?;
        let read = |record| async move {
            Arc::new(SnapshotTree::open(&self.store, &record).await?).locations().await
        };
        Ok(as_it_is_now(&self.store, record, read).await?.1)
    }
}

/// Follows the chunks of a snapshot that is read.
pub fn followed(store: &TenantStore, record: &Record, rules: Rules) -> Relocator {
    if !rules.follow_moved {
        return Relocator::default();
    }
    let snapshot = Some((record.lineage(), record.record));
    Relocator::new(Arc::new(SnapshotLocator::new(store.clone(), snapshot)))
}
