//! These tests empty packs that many snapshots share, in as many writes as it takes.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store::{
    bucket::{Bucket, Fault, FaultBucket, MemoryBucket, Recorder, Rule, Verb},
    content::TenantStore,
    format::record::{Record, State},
    ops::gc::{Collector, Options},
};
use tests::{
    store_fixture::{StoreFixture, copy},
    tree::{assert_same, noise},
};

use super::{NOW, packed_bytes, plans};

/// Tables of one snapshot are as much as one write takes.
const ONE_AT_A_TIME: Options = Options { batch_chunks: 1, ..NOW };
const PROFILES: usize = 2;
const SNAPSHOTS: usize = 4;

/// Snapshots of two profiles that have most of a first one in common, which is deleted; each with
/// what it holds.
async fn shared(bucket: Arc<dyn Bucket>, root: &Path) -> (StoreFixture, Vec<(StoreFixture, PathBuf)>) {
    let fixture = StoreFixture::open(bucket, None).await;
    let base = root.join("base");
    fs::create_dir(&base).unwrap();
    for file in 0..12 {
        fs::write(base.join(format!("{file:02}")), noise(20_000, file)).unwrap();
    }
    let first = fixture.of("acme/first");
    let deleted = first.snapshot(&base).await.unwrap().record;
    let mut kept = Vec::new();
    for number in 0..SNAPSHOTS {
        let source = root.join(format!("{number}"));
        fs::create_dir(&source).unwrap();
        for file in 4..12 {
            fs::copy(base.join(format!("{file:02}")), source.join(format!("{file:02}"))).unwrap();
        }
        fs::write(source.join("own"), noise(1000, 100 + number as u64)).unwrap();
        let profile = fixture.of(&format!("acme/p{}", number % PROFILES));
        profile.snapshot(&source).await.unwrap();
        kept.push((profile, source));
    }
    // Its last one stays; it shares nothing.
    let last = tempfile::tempdir().unwrap();
    fs::write(last.path().join("last"), noise(1000, 99)).unwrap();
    first.snapshot(last.path()).await.unwrap();
    first.handle("test").delete(deleted, "").await.unwrap();
    (fixture, kept)
}

/// Every snapshot has what it had, wherever that lies.
async fn assert_whole(store: &TenantStore, kept: &[(StoreFixture, PathBuf)]) {
    for (at, (fixture, source)) in kept.iter().enumerate() {
        let fixture = StoreFixture { store: store.clone(), ..fixture.clone() };
        let live: Vec<Record> = live(&fixture).await;
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("out");
        fixture.restore_record(&live[at / PROFILES], &out).await.unwrap();
        assert_same(source, &out);
    }
}

/// Oldest first.
async fn live(fixture: &StoreFixture) -> Vec<Record> {
    let records = store::catalog::records::list(&fixture.store, &fixture.lineage).await.unwrap();
    let mut live: Vec<Record> = records.into_iter().map(Result::unwrap).collect();
    live.retain(|record| record.state == State::Live);
    live.sort_by_key(|record| record.record);
    live
}

/// What of the packs is needed by nothing, in percent of all.
async fn unused_percent(memory: &MemoryBucket, store: &TenantStore) -> u64 {
    let fresh = Collector::new(store.clone(), Options { max_unused_percent: 100, ..NOW });
    let plan = fresh.plan().await.unwrap();
    assert!(plan.condemned.is_empty() && plan.pending.is_empty(), "{plan:#?}");
    let stored = packed_bytes(memory).await;
    assert_eq!(plan.needed.bytes, stored);
    (stored - plan.live_bytes) * 100 / stored
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_that_many_snapshots_share_are_emptied_in_many_writes() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let (fixture, kept) = shared(memory.clone(), dir.path()).await;
    let collector =
        Collector::new(fixture.store.clone(), Options { max_unused_percent: 10, ..ONE_AT_A_TIME });
    let before = packed_bytes(&memory).await;
    let done = plans::run_as_planned(&collector).await;
    assert_eq!((done.repacked.records, done.repacked.failed), (SNAPSHOTS as u64, 0), "{done:#?}");
    let metas = memory.keys().into_iter().filter(|key| key.contains("-meta")).count();
    assert_eq!(metas, 2 + SNAPSHOTS + SNAPSHOTS, "each has tables of its own");
    collector.run_through().await.unwrap();
    assert!(unused_percent(&memory, &fixture.store).await <= 10);
    assert_whole(&fixture.store, &kept).await;
    // What was copied once is not there twice.
    assert!(packed_bytes(&memory).await < before - 70_000, "{before} {}", packed_bytes(&memory).await);
}

/// Killed after each of its writes: nothing is lost, and the next runs finish it.
#[tokio::test(flavor = "multi_thread")]
async fn interrupted_between_two_writes_it_loses_nothing_and_is_finished_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let stage = Arc::new(MemoryBucket::new());
    let (fixture, kept) = shared(stage.clone(), dir.path()).await;
    for verb in [Verb::Create, Verb::Replace] {
        let mut writes = 0;
        loop {
            writes += 1;
            let memory = copy(&stage).await;
            let through = |bucket: Arc<dyn Bucket>| TenantStore { bucket, ..fixture.store.clone() };
            let faults = Arc::new(FaultBucket::new(memory.clone()));
            faults.inject(Rule::new(Fault::KilledAfter).on(verb).nth(writes));
            let killed = Collector::new(through(faults.clone()), ONE_AT_A_TIME).run().await.is_err();
            let store = through(memory.clone());
            StoreFixture { store: store.clone(), ..fixture.of("acme/p1") }.assert_clean().await;
            let collector = Collector::new(store.clone(), ONE_AT_A_TIME);
            for _ in 0..3 {
                memory.advance(Duration::from_secs(1000));
                collector.run().await.unwrap();
            }
            assert_whole(&store, &kept).await;
            let plan = collector.plan().await.unwrap();
            assert!(plan.condemned.is_empty() && plan.pending.is_empty(), "{verb:?} {writes}: {plan:#?}");
            assert_eq!(plan.repacked, Default::default(), "{verb:?} {writes}");
            if faults.strikes() == 0 {
                assert!(!killed);
                break;
            }
        }
        assert!(writes > SNAPSHOTS as u64, "only {writes}");
    }
}

/// However many writes it takes: a record is read a fixed number of times.
#[tokio::test(flavor = "multi_thread")]
async fn records_are_not_read_again_for_each_write() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let (fixture, _) = shared(memory.clone(), dir.path()).await;
    // Something is to be emptied in each of six packs, and one write takes no more than one of them.
    let mut many = Vec::new();
    for round in 0..6 {
        let folder = dir.path().join(format!("many{round}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..1100 {
            fs::write(folder.join(format!("{file:04}")), noise(300, 10_000 * (round + 1) + file)).unwrap();
        }
        let profile = fixture.of(&format!("acme/many{round}"));
        many.push((profile.clone(), profile.snapshot(&folder).await.unwrap().record));
        for file in 0..60 {
            fs::remove_file(folder.join(format!("{file:04}"))).unwrap();
        }
        profile.snapshot(&folder).await.unwrap();
    }
    for (profile, record) in many {
        profile.handle("test").delete(record, "").await.unwrap();
    }
    let recorder = Arc::new(Recorder::new(memory.clone()));
    let store = TenantStore { bucket: recorder.clone(), ..fixture.store.clone() };
    let little = Options { memory_bytes: 0, ..NOW };
    // A record that is never moved.
    let idle = live(&fixture.of("acme/first")).await.pop().unwrap().record.to_string();
    let plan = Collector::new(store, little).plan().await.unwrap();
    assert!(plan.repacked.emptied.packs >= 7, "{plan:#?}");
    let reads = recorder.take().into_iter().filter(|call| call.key.contains(&idle)).count();
    assert!(reads <= 7, "{reads} reads of a record that stays as it is");
}
