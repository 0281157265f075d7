//! These tests hold the lease of a write beside collections: it lasts for as long as the write does, whatever the
//! write is waiting for, and no longer.

use std::{sync::Arc, time::Duration};

use store::{
    Error,
    bucket::{Fault, FaultBucket, MemoryBucket, Rule, Verb},
    catalog::{
        lease::{DurableWrite, LEASE_TTL, WriteLease},
        records,
    },
    content::{dedup_index::DedupIndex, upload::WriteSession},
    format::record::{Record, State},
    id::RecordId,
    ops::gc::{Collector, Options},
};
use tests::{store_fixture::StoreFixture, tree::noise};

const MINUTE: Duration = Duration::from_secs(60);

struct LeaseScenario {
    memory: Arc<MemoryBucket>,
    faults: Arc<FaultBucket>,
    fixture: StoreFixture,
    snapshot: RecordId,
}

impl LeaseScenario {
    async fn new() -> Self {
        let memory = Arc::new(MemoryBucket::new());
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        let fixture = StoreFixture::open(faults.clone(), None).await;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), noise(1000, 1)).unwrap();
        let snapshot = fixture.snapshot(folder.path()).await.unwrap().record;
        Self { memory, faults, fixture, snapshot }
    }

    async fn lease(&self) -> WriteLease {
        let (mut draft, _) =
            records::get(&self.fixture.store, &self.fixture.lineage, self.snapshot).await.unwrap();
        draft.content = None;
        let known = Arc::new(DedupIndex::default());
        WriteLease::new(self.fixture.store.clone(), self.fixture.lineage.clone(), draft, known)
    }

    async fn collect(&self) {
        let collector = Collector::new(self.fixture.store.clone(), Options::after(Duration::ZERO));
        collector.run().await.unwrap();
    }

    /// Time goes by, on this host and in the store.
    async fn wait(&self, minutes: u32) {
        for _ in 0..minutes {
            tokio::time::sleep(MINUTE).await;
            self.memory.advance(MINUTE);
        }
    }

    /// As a snapshot of the same content.
    async fn publish(&self, lease: &WriteLease, write: RecordId) {
        let (like, _) =
            records::get(&self.fixture.store, &self.fixture.lineage, self.snapshot).await.unwrap();
        let durable = DurableWrite { write, stored_bytes: 0 };
        let finish = |record: &mut Record| {
            record.content = like.content;
            record.uncompressed_size_bytes = like.uncompressed_size_bytes;
        };
        lease.make_live(&durable, finish).await.unwrap();
        assert_eq!(self.state(write).await, State::Live);
    }

    async fn state(&self, record: RecordId) -> State {
        records::get(&self.fixture.store, &self.fixture.lineage, record).await.unwrap().0.state
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_sends_nothing_for_an_hour_is_not_taken_for_dead() {
    let scenario = LeaseScenario::new().await;
    let (kept, forgotten) = (scenario.lease().await.kept(), scenario.lease().await);
    let (write, dead) = (kept.open().await.unwrap(), forgotten.open().await.unwrap());
    // A while in which no renewal gets through.
    for nth in 1..=5 {
        scenario.faults.inject(Rule::new(Fault::Before).on(Verb::Replace).at(write.to_string()).nth(nth));
    }
    for _ in 0..6 {
        scenario.wait(10).await;
        scenario.collect().await;
        assert_eq!(scenario.state(write).await, State::Writing);
    }
    assert_eq!(scenario.faults.strikes(), 5);
    assert_eq!(scenario.state(dead).await, State::Revoked);
    scenario.publish(&kept, write).await;
    // Nothing is renewed that has become a snapshot.
    let calls = scenario.faults.calls();
    scenario.wait(60).await;
    assert_eq!(scenario.faults.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_gone_is_not_kept() {
    for is_abandoned in [true, false] {
        let scenario = LeaseScenario::new().await;
        let lease = scenario.lease().await.kept();
        let write = lease.open().await.unwrap();
        if is_abandoned {
            lease.abandon().await;
            assert_eq!(scenario.state(write).await, State::Revoked);
        }
        drop(lease);
        let calls = scenario.faults.calls();
        scenario.wait(20).await;
        assert_eq!(scenario.faults.calls(), calls);
        scenario.collect().await;
        assert_eq!(scenario.state(write).await, State::Revoked);
    }
}

/// It learns of it by itself, and not when all its work is done.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_revoked_stops_before_its_end() {
    let scenario = LeaseScenario::new().await;
    let lease = scenario.lease().await.kept();
    let write = lease.open().await.unwrap();
    scenario.memory.advance(LEASE_TTL + MINUTE);
    scenario.collect().await;
    scenario.wait(5).await;
    let calls = scenario.faults.calls();
    assert!(matches!(lease.open().await, Err(Error::WriteRevoked { record }) if record == write));
    assert_eq!(scenario.faults.calls(), calls);
}

/// The answers of a renewal are lost until it is given up, and it was applied all the same.
#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_does_not_stand_in_the_way_of_publishing() {
    for fault in [Fault::Before, Fault::After] {
        let scenario = LeaseScenario::new().await;
        let lease = scenario.lease().await.kept();
        let write = lease.open().await.unwrap();
        scenario.faults.inject(Rule::new(fault).on(Verb::Replace).at(write.to_string()));
        scenario.faults.inject(Rule::new(Fault::Before).on(Verb::Replace).at(write.to_string()).always());
        scenario.wait(4).await;
        tokio::time::sleep(MINUTE / 6).await;
        scenario.faults.heal();
        scenario.publish(&lease, write).await;
    }
}
