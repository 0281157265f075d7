//! Where a snapshot's chunks are by now, for those who read it while they are moved.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::open::Opened;
use crate::{
    Error, Result,
    bucket::BucketError,
    catalog::{pins, records, rules::Rules},
    content::{
        TenantStore,
        known::Locations,
        whereabouts::{Relocate, Whereabouts},
    },
    format::{
        record::{Record, State},
        table::Location,
        tree::Entry,
    },
    id::{PackId, RecordId},
    name::{Lineage, ProfileName},
};

/// The snapshot somebody reads.
#[derive(Debug)]
pub struct Below {
    store: TenantStore,
    /// Another one after a commit.
    snapshot: Mutex<Option<(Lineage, RecordId)>>,
}

impl Below {
    pub fn new(store: TenantStore, snapshot: Option<(Lineage, RecordId)>) -> Self {
        Self { store, snapshot: Mutex::new(snapshot) }
    }

    pub fn becomes(&self, lineage: Lineage, record: RecordId) {
        *self.snapshot.lock().unwrap_or_else(PoisonError::into_inner) = Some((lineage, record));
    }
}

#[async_trait]
impl Relocate for Below {
    async fn locations(&self) -> Result<Locations> {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((lineage, record)) = snapshot else { return Ok(Locations::new()) };
        let record = current(&self.store, &lineage, record).await?;
        let (_, metadata) = Opened::metadata(&self.store, record).await?;
        let (entries, locations) = metadata.decode()?;
        Ok(by_id(&entries, locations))
    }
}

/// Follows the chunks of a snapshot that is read.
pub fn followed(store: &TenantStore, record: &Record, rules: Rules) -> Whereabouts {
    if !rules.follow_moved {
        return Whereabouts::default();
    }
    let snapshot = Some((lineage_of(record), record.record));
    Whereabouts::new(Arc::new(Below::new(store.clone(), snapshot)))
}

/// The record as it is now. Fails with [`Error::NotFound`] if the snapshot was deleted.
pub(super) async fn current(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<Record> {
    match records::get(store, lineage, id).await {
        Ok((record, _)) if matches!(record.state, State::Live | State::Trashed) => Ok(record),
        Ok(_) | Err(Error::Bucket(BucketError::NotFound { .. })) => Err(pins::deleted(lineage, id)),
        Err(error) => Err(error),
    }
}

/// Whose snapshot a record is.
pub(super) fn lineage_of(record: &Record) -> Lineage {
    let name = ProfileName { tenant: record.tenant_id.clone(), profile: record.profile_id.clone() };
    Lineage { name, chrome_major: record.chrome_major_version }
}

/// The packs that a snapshot needs.
pub(super) fn packs_of(record: &Record) -> impl Iterator<Item = PackId> + '_ {
    record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack)
}

/// Where each chunk of a tree lies.
pub(super) fn by_id(entries: &[Entry], locations: Vec<Location>) -> Locations {
    let ids = entries.iter().flat_map(|entry| entry.chunks().map(|(id, _)| id));
    let mut known = Locations::with_capacity(locations.len());
    for (id, location) in ids.zip(locations) {
        known.entry(id).or_insert(location);
    }
    known
}
