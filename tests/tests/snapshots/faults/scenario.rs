//! `FaultScenario` is a store with three snapshots; `Template` makes the same one again and again.

use std::{path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, MemoryBucket},
    id::RecordId,
    ops::gc::Options,
};
use tests::store_fixture::{StoreFixture, copy};

use crate::faults::fill;

pub(crate) const NOW: Options = Options::after(Duration::ZERO);
/// Longer than any lock is held.
pub(crate) const LATER: Duration = Duration::from_secs(3600);

/// A store with three snapshots, of which the last is current, and the next one to be made.
pub(crate) struct FaultScenario<'a> {
    pub(crate) fixture: StoreFixture,
    pub(crate) records: &'a [RecordId],
    pub(crate) next: &'a Path,
}

/// What every scenario starts with.
pub(crate) struct Template {
    memory: Arc<MemoryBucket>,
    records: Vec<RecordId>,
    folder: tempfile::TempDir,
}

impl Template {
    pub(crate) async fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::new());
        let fixture = StoreFixture::open(memory.clone(), None).await;
        let mut records = Vec::new();
        for generation in 0..3 {
            fill(folder.path(), generation);
            records.push(fixture.snapshot(folder.path()).await.unwrap().record);
        }
        fill(folder.path(), 3);
        Self { memory, records, folder }
    }

    pub(crate) async fn bucket(&self) -> Arc<MemoryBucket> {
        copy(&self.memory).await
    }

    pub(crate) async fn scenario(&self, bucket: Arc<dyn Bucket>) -> FaultScenario<'_> {
        let fixture = StoreFixture::open(bucket, None).await;
        FaultScenario { fixture, records: &self.records, next: self.folder.path() }
    }
}
