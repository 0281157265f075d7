//! `FaultScenario` is a store with three snapshots; `Template` makes the same one again and again.

use std::{path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, Key, MemoryBucket, Write},
    id::RecordId,
    ops::gc::Options,
};
use tests::store_fixture::StoreFixture;

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
    objects: Vec<(Key, bytes::Bytes)>,
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
        let mut objects = Vec::new();
        for key in memory.keys() {
            let key = Key::new(key).unwrap();
            let bytes = memory.get(&key, u64::MAX).await.unwrap().bytes;
            objects.push((key, bytes));
        }
        Self { objects, records, folder }
    }

    pub(crate) async fn bucket(&self) -> Arc<MemoryBucket> {
        let memory = Arc::new(MemoryBucket::new());
        for (key, bytes) in &self.objects {
            memory.put(key, bytes.clone().into(), Write::Create).await.unwrap();
        }
        memory
    }

    pub(crate) async fn scenario(&self, bucket: Arc<dyn Bucket>) -> FaultScenario<'_> {
        let fixture = StoreFixture::open(bucket, None).await;
        FaultScenario { fixture, records: &self.records, next: self.folder.path() }
    }
}
