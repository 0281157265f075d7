//! `ReadBase` reads the base before a write, and `follow_base` looks at it again once the lease exists.

use std::sync::Arc;

use super::{SnapshotWriter, lost_of};
use crate::{
    ErrorKind, Result,
    catalog::records,
    content::{
        TenantStore,
        chunk::{Locations, locations_by_id},
        meta::Metadata,
    },
    format::{record::Record, tree::Entry},
};

/// The snapshot that a write builds on, as it was read.
#[derive(Default)]
pub(in crate::ops) struct ReadBase {
    pub record: Option<Record>,
    pub metadata: Option<Arc<Metadata>>,
    pub entries: Vec<Entry>,
    pub locations: Locations,
}

impl ReadBase {
    /// Reads the metadata of `record`. A base that cannot be read must not keep anybody from storing
    /// a good snapshot after it: then there is a record and nothing else.
    pub async fn load(store: &TenantStore, record: Option<Record>) -> Self {
        let Some(record) = record else { return Self::default() };
        let Some(content) = &record.content else {
            return Self { record: Some(record), ..Self::default() };
        };
        let loaded = Metadata::load(store, record.record, record.generation, content).await;
        match loaded.and_then(|metadata| Self::decode(record.clone(), Arc::new(metadata))) {
            Ok(base) => base,
            Err(error) => {
                tracing::warn!(record = %record.record, %error, "the current snapshot cannot be built on");
                Self { record: Some(record), ..Self::default() }
            }
        }
    }

    /// The base whose metadata is this.
    pub fn decode(record: Record, metadata: Arc<Metadata>) -> Result<Self> {
        let (entries, locations) = metadata.decode()?;
        let locations = locations_by_id(&entries, locations);
        Ok(Self { record: Some(record), metadata: Some(metadata), entries, locations })
    }

    /// No base at all, if this one could not be read.
    pub fn if_readable(self) -> Self {
        if self.metadata.is_some() { self } else { Self::default() }
    }
}

impl SnapshotWriter {
    /// Looks at the base again: since it was read, a repair may have found some of it damaged, or
    /// have stored it elsewhere. Whoever starts one from now on finds this write under way.
    pub async fn follow_base(&mut self) -> Result<()> {
        let Some(before) = &self.base else { return self.lease.look_at_packs().await };
        let now = match self.base_now(before).await? {
            // What is still there of it may be referred to all the same.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => return Ok(()),
            now => now?,
        };
        if is_same(before, &now) {
            return Ok(());
        }
        let mut lost = lost_of(&now);
        let read = ReadBase::load(&self.store, Some(now)).await;
        match read.metadata.is_some() {
            true => self.known.learn_moved(read.locations),
            // Where it is now is not known, and where it was it is still lost.
            false => lost.add(&self.known.lost()),
        }
        self.known.learn_lost(lost);
        (self.base, self.base_metadata) = (read.record, read.metadata);
        Ok(())
    }

    /// The record of the base as it is now. All packs that it names while it is a snapshot are there.
    pub(super) async fn base_now(&self, before: &Record) -> Result<Result<Record>> {
        let lineage = before.lineage();
        let now = records::current(&self.store, &lineage, before.record);
        let (looked, now) = futures::future::join(self.lease.look_at_packs(), now).await;
        looked?;
        if let Ok(now) = &now {
            self.known.note_existing(now.packs());
        }
        Ok(now)
    }
}

/// Whether nobody has moved or marked anything of a snapshot between two looks.
pub(super) fn is_same(before: &Record, now: &Record) -> bool {
    now.generation == before.generation && now.damage == before.damage
}
