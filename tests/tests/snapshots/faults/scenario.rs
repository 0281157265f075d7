//! `FaultScenario` is a store in which one call goes wrong, and checks what must hold of it then.

use std::{path::Path, sync::Arc, time::Duration};

use store::{
    Error,
    bucket::{Bucket, Fault, FaultBucket, Key, MemoryBucket, Rule, Write},
    id::RecordId,
    ops::gc::{Collector, Options},
};
use tests::{
    checker::{self, State},
    store_fixture::StoreFixture,
};

use crate::faults::{act::Act, fill};

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

    async fn bucket(&self) -> Arc<MemoryBucket> {
        let memory = Arc::new(MemoryBucket::new());
        for (key, bytes) in &self.objects {
            memory.put(key, bytes.clone().into(), Write::Create).await.unwrap();
        }
        memory
    }

    async fn scenario(&self, bucket: Arc<dyn Bucket>) -> FaultScenario<'_> {
        let fixture = StoreFixture::open(bucket, None).await;
        FaultScenario { fixture, records: &self.records, next: self.folder.path() }
    }

    /// How many calls an act makes when nothing goes wrong.
    pub(crate) async fn calls(&self, act: Act) -> u64 {
        let memory = self.bucket().await;
        act.prepare(&self.scenario(memory.clone()).await, &memory).await;
        let counting = Arc::new(FaultBucket::new(memory));
        let scenario = self.scenario(counting.clone()).await;
        let opening = counting.calls();
        act.act(&scenario).await.unwrap();
        counting.calls() - opening
    }

    /// Lets the k-th call of an act fail, and looks at what is left.
    pub(crate) async fn run_with_fault(&self, act: Act, fault: Fault, k: u64) {
        let at = format!("{act:?} with {fault:?} at call {k}");
        let memory = self.bucket().await;
        let calm = self.scenario(memory.clone()).await;
        act.prepare(&calm, &memory).await;
        let before = checker::look(&*memory).await;
        let faulty = Arc::new(FaultBucket::new(memory.clone()));
        let scenario = self.scenario(faulty.clone()).await;
        // Counted from here: opening the store is over.
        faulty.inject(Rule::new(fault).nth(k));
        let result = act.act(&scenario).await;
        assert_eq!(faulty.strikes(), 1, "{at}: it was not struck");
        assert_ne!(result.as_ref().map_err(Error::kind).err(), Some(store::ErrorKind::Internal), "{at}");

        let after = checker::look(&*memory).await;
        whole(&after, &before, act, &at);
        calm.fixture.assert_clean().await;
        // Whoever died may have left a lock and a lease; they expire.
        memory.advance(LATER);
        let next = calm.fixture.snapshot(calm.next).await;
        assert!(next.is_ok(), "{at}: the next snapshot: {next:?}");
        Collector::new(calm.fixture.store.clone(), NOW).run_through().await.unwrap();
        whole(&checker::look(&*memory).await, &after, Act::Snapshot, &at);
        calm.fixture.assert_clean().await;
    }
}

/// All invariants hold, and what was stored is.
fn whole(after: &State, before: &State, act: Act, at: &str) {
    eprintln!("{at}");
    after.must_be_whole();
    after.must_follow(before);
    let live = after.records("live");
    let kept = before.records("live").iter().filter(|record| live.contains(record)).count();
    let least = if act.removes() { 1 } else { before.records("live").len() };
    assert!(kept >= least, "{at}: snapshots are gone");
}
