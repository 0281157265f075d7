//! These tests empty packs of which little is needed: nothing is lost, whoever is killed where and whoever else is
//! at work, and hardly more is left than a fresh store would hold.

mod commits;
mod histories;
mod plans;
mod readers;
mod shared;
mod wrong;

use std::{fs, path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, DelayBucket, Fault, FaultBucket, Key, MemoryBucket, Rule, Verb, Write},
    content::{TenantStore, meta::Metadata},
    format::{
        layout, limits,
        pin::Pin,
        record::{Earlier, Record},
    },
    ops::{
        gc::{Collector, Options},
        write::snapshot::Request,
    },
};
use tests::{
    store_fixture::{StoreFixture, copy, request},
    tree::{assert_same, noise},
};

const NOW: Options = Options { min_unused_bytes: 0, ..Options::after(Duration::ZERO) };

/// Files that stay, with some between them that are others each round.
fn fill(source: &Path, round: u64) {
    fs::create_dir_all(source).unwrap();
    for file in 0..24 {
        let seed = if file % 3 == 0 { 1000 * (round + 1) + file } else { file };
        fs::write(source.join(format!("{file:02}")), noise(60_000, seed)).unwrap();
    }
}

/// Three snapshots, of which the first two are deleted. The directory is as in the last.
async fn deleted(bucket: Arc<dyn Bucket>, source: &Path) -> StoreFixture {
    let fixture = StoreFixture::open(bucket, None).await;
    assert_eq!(store_and_delete(&fixture, source).await, [false, true, true]);
    fixture
}

/// The same, of a profile that shares nothing with others. Says of each snapshot whether its report tells of indexes that the
/// budget leaves out.
async fn store_and_delete(fixture: &StoreFixture, source: &Path) -> Vec<bool> {
    let (mut records, mut told) = (Vec::new(), Vec::new());
    for round in 0..3 {
        fill(source, round);
        let request = Request { index_budget: 0, ..request(&fixture.lineage, source) };
        let report = fixture.capture(&request).await.unwrap();
        assert_eq!(report.index.indexes, 0);
        told.push(report.index.left_out > 0);
        records.push(report.record);
    }
    for record in &records[..2] {
        fixture.handle("test").delete(*record, "").await.unwrap();
    }
    told
}

/// The pack of the first capture.
fn first_pack(memory: &MemoryBucket) -> Key {
    let first = memory.keys().into_iter().find(|key| key.contains("/packs/")).unwrap();
    Key::new(first).unwrap()
}

async fn packed_bytes(memory: &MemoryBucket) -> u64 {
    let mut bytes = 0;
    for key in memory.keys().into_iter().filter(|key| key.contains("/packs/")) {
        bytes += memory.get(&Key::new(key).unwrap(), u64::MAX).await.unwrap().bytes.len() as u64;
    }
    bytes
}

async fn assert_restores(fixture: &StoreFixture, source: &Path) {
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    fixture.restore(&out).await.unwrap();
    assert_same(source, &out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_is_little_more_than_a_fresh_store_holds() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), &source).await;
    let fresh = Arc::new(MemoryBucket::new());
    StoreFixture::open(fresh.clone(), None).await.snapshot(&source).await.unwrap();
    let collector = Collector::new(fixture.store.clone(), NOW);
    let before = fixture.current().await.unwrap();
    let done = plans::run_as_planned(&collector).await;
    assert!(done.repacked.emptied.packs >= 1 && done.repacked.records == 1, "{done:#?}");
    let after = fixture.current().await.unwrap();
    assert_eq!(after.generation, before.generation + 1);
    assert_eq!(after.content.as_ref().unwrap().snapshot_id, before.content.unwrap().snapshot_id);
    let done = collector.run().await.unwrap();
    assert!(done.deleted.packs > 0 && done.pending.is_empty(), "{done:#?}");
    assert_eq!(done.repacked, Default::default(), "nothing is left to be moved");
    let (left, alone) = (packed_bytes(&memory).await, packed_bytes(&fresh).await);
    assert!(left * 100 <= alone * 105, "{left} bytes are left, a fresh store has {alone}");
    fixture.assert_clean().await;
    assert_restores(&fixture, &source).await;
    // What was moved is found again by the next who has the same.
    let other = StoreFixture { lineage: tests::store_fixture::lineage("acme/bob"), ..fixture };
    assert_eq!(other.snapshot(&source).await.unwrap().counts.new_chunks, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn within_the_limit_nothing_is_moved() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = deleted(Arc::new(MemoryBucket::new()), dir.path()).await;
    for options in [Options { max_unused_percent: 100, ..NOW }, Options::after(Duration::ZERO)] {
        let done = Collector::new(fixture.store.clone(), options).plan().await.unwrap();
        assert_eq!(done.repacked, Default::default());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_moved_for_which_there_is_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    let stored = packed_bytes(&memory).await;
    let within = |quota_bytes| Options { quota_bytes: Some(quota_bytes), ..NOW };
    let done = Collector::new(fixture.store.clone(), within(stored)).run().await.unwrap();
    assert_eq!(done.repacked, Default::default());
    let done = Collector::new(fixture.store.clone(), within(3 * stored)).run().await.unwrap();
    assert_eq!(done.repacked.records, 1, "{done:#?}");
}

/// Another snapshot, of another profile, needs another part of the same packs.
#[tokio::test(flavor = "multi_thread")]
async fn all_snapshots_that_share_a_pack_are_moved_together() {
    let dir = tempfile::tempdir().unwrap();
    let (source, other_source) = (dir.path().join("source"), dir.path().join("other"));
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    fill(&source, 0);
    let first = fixture.snapshot(&source).await.unwrap().record;
    let other = StoreFixture { lineage: tests::store_fixture::lineage("acme/bob"), ..fixture.clone() };
    fs::create_dir(&other_source).unwrap();
    for file in ["00", "01", "02", "23"] {
        fs::copy(source.join(file), other_source.join(file)).unwrap();
    }
    assert_eq!(other.snapshot(&other_source).await.unwrap().counts.new_chunks, 0);
    for round in 1..3 {
        fill(&source, round);
        fixture.snapshot(&source).await.unwrap();
    }
    fixture.handle("test").delete(first, "").await.unwrap();
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert_eq!((done.repacked.records, done.pending.len()), (3, 0), "{done:#?}");
    for (fixture, source) in [(&fixture, &source), (&other, &other_source)] {
        fixture.assert_clean().await;
        assert_restores(fixture, source).await;
    }
    let plan = Collector::new(fixture.store.clone(), NOW).plan().await.unwrap();
    assert_eq!((plan.condemned.len(), plan.repacked), (0, Default::default()));
}

/// Killed at its k-th request, for every k; then, when its lease is over, two more collections.
#[tokio::test(flavor = "multi_thread")]
async fn killed_anywhere_it_loses_nothing_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let stage = Arc::new(MemoryBucket::new());
    let fixture = deleted(stage.clone(), &source).await;
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        let mut requests = 0;
        loop {
            requests += 1;
            let memory = copy(&stage).await;
            let through = |bucket: Arc<dyn Bucket>| TenantStore { bucket, ..fixture.store.clone() };
            let faults = Arc::new(FaultBucket::new(memory.clone()));
            faults.inject(Rule::new(fault).nth(requests));
            let collector = Collector::new(through(faults), NOW);
            let killed = collector.run().await.is_err() || collector.run().await.is_err();
            let fixture = StoreFixture { store: through(memory.clone()), ..fixture.clone() };
            fixture.assert_clean().await;
            let collector = Collector::new(fixture.store.clone(), NOW);
            for _ in 0..3 {
                memory.advance(Duration::from_secs(1000));
                collector.run().await.unwrap();
            }
            fixture.assert_clean().await;
            let plan = collector.plan().await.unwrap();
            assert!(plan.condemned.is_empty() && plan.pending.is_empty(), "killed at {requests}: {plan:#?}");
            assert_eq!(plan.repacked, Default::default(), "killed at {requests}");
            if !killed {
                assert_restores(&fixture, &source).await;
                break;
            }
        }
        assert!(requests > 60, "only {requests}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generation_that_is_pinned_stays_until_it_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), &source).await;
    let before = fixture.current().await.unwrap();
    let pin = layout::pin(&fixture.store.tenant, store::catalog::clock::new_record_id());
    let bytes = Pin::new(before.record, before.generation, Duration::from_secs(600)).encode();
    memory.put(&pin, bytes.into(), Write::Create).await.unwrap();
    let collector = Collector::new(fixture.store.clone(), NOW);
    plans::run_as_planned(&collector).await;
    collector.run_through().await.unwrap();
    let after = fixture.current().await.unwrap();
    assert_eq!((after.generation, after.earlier.len()), (before.generation + 1, 1));
    // As somebody would who has read the record before.
    let out = dir.path().join("out");
    fixture.restore_record(&before, &out).await.unwrap();
    assert_same(&source, &out);
    memory.delete(&pin).await.unwrap();
    collector.run_through().await.unwrap();
    assert_restores(&fixture, &source).await;
    let used = before.content.unwrap().packs.into_iter().map(|used| used.pack);
    let kept = after.content.unwrap().packs;
    for pack in used.filter(|pack| !kept.iter().any(|kept| kept.pack == *pack)) {
        memory.get(&layout::pack(&fixture.store.tenant, pack), u64::MAX).await.unwrap_err();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_pack_is_not_copied_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), &source).await;
    let first = first_pack(&memory);
    let mut bytes = memory.get(&first, u64::MAX).await.unwrap().bytes.to_vec();
    // Every frame, and neither head nor directory.
    let frames = bytes.len() / 2;
    bytes[20..frames].iter_mut().for_each(|byte| *byte ^= 1);
    memory.damage(&first, bytes);
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert_eq!(done.repacked.failed, 1, "{done:#?}");
    memory.get(&first, u64::MAX).await.unwrap();
}

/// Its entry is cut, so that a segment's table has places of chunks that a later segment ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_many_chunks_is_moved_too() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fs::write(source.join("many"), noise(90_000_000, 1)).unwrap();
    fs::write(source.join("gone"), noise(30_000_000, 2)).unwrap();
    let first = fixture.snapshot(source).await.unwrap();
    fs::remove_file(source.join("gone")).unwrap();
    fixture.snapshot(source).await.unwrap();
    fixture.handle("test").delete(first.record, "").await.unwrap();
    let content = fixture.current().await.unwrap().content.unwrap();
    let metadata = Metadata::load(&fixture.store, first.record, u64::MAX, &content).await.unwrap();
    let (entries, _) = metadata.decode().unwrap();
    let chunks = entries.iter().map(|entry| entry.chunks().count()).max().unwrap();
    let in_one_segment = metadata.root.segments.iter().map(|segment| segment.chunks as usize).max().unwrap();
    assert!(chunks > in_one_segment, "{chunks} chunks, at most {in_one_segment} of them in a segment");
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert_eq!((done.repacked.failed, done.repacked.records), (0, 1), "{done:#?}");
    assert_restores(&fixture, source).await;
    fixture.assert_clean().await;
}

/// Garbage that is there already must go even if there is no room to move anything: a store
/// that is full would stay so for ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_garbage_is_condemned_before_anything_is_moved() {
    let dir = tempfile::tempdir().unwrap();
    let stage = Arc::new(MemoryBucket::new());
    let fixture = deleted(stage.clone(), &dir.path().join("source")).await;
    let garbage = Collector::new(fixture.store.clone(), Options { max_unused_percent: 100, ..NOW });
    let garbage = garbage.plan().await.unwrap().condemned.len();
    assert!(garbage > 0);
    for fault in [Fault::KilledBefore, Fault::Before] {
        let memory = copy(&stage).await;
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        faults.inject(Rule::new(fault).on(Verb::Create).at("/packs/").always());
        let store = TenantStore { bucket: faults.clone(), ..fixture.store.clone() };
        let ended = Collector::new(store, NOW).run().await;
        assert!(faults.strikes() > 0, "it was to be moved");
        let fixture = StoreFixture {
            store: TenantStore { bucket: memory.clone(), ..fixture.store.clone() },
            ..fixture.clone()
        };
        let filed = memory.keys().into_iter().filter(|key| key.contains("/condemned/")).count();
        assert_eq!(filed, 1, "{fault:?}");
        match fault {
            Fault::Before => {
                let done = ended.unwrap();
                assert_eq!((done.condemned.len(), done.repacked.failed > 0), (garbage, true), "{done:#?}");
            }
            _ => assert_eq!(ended.unwrap_err().condemned.packs as usize, garbage),
        }
        memory.advance(Duration::from_secs(1000));
        let done = Collector::new(fixture.store.clone(), NOW).run().await.unwrap();
        assert_eq!(done.deleted.packs as usize, garbage);
        fixture.assert_clean().await;
    }
}

/// When even reading fails after that, it is said what was condemned.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_stops_while_it_moves_says_what_it_has_condemned() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), &dir.path().join("source")).await;
    let faults = Arc::new(FaultBucket::new(memory.clone()));
    // The tables are the first ranges that are read.
    faults.inject(Rule::new(Fault::KilledBefore).on(Verb::GetRange).at("-meta").always());
    let store = TenantStore { bucket: faults, ..fixture.store.clone() };
    let stopped = Collector::new(store.clone(), NOW).run().await.unwrap_err();
    assert!(stopped.condemned.packs > 0 && stopped.condemned.bytes > 0, "{stopped:?}");
    let stopped = Collector::new(store, NOW).run().await.unwrap_err();
    assert_eq!(stopped.condemned.packs, 0, "before it has read anything");
}

/// As slow as a store far away that is asked for a lot: longer than a lease holds.
#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_for_as_long_as_chunks_are_moved() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), &dir.path().join("source")).await;
    let slow = Arc::new(DelayBucket::new(memory.clone()));
    slow.set(Duration::from_secs(100));
    let store = TenantStore { bucket: slow, ..fixture.store.clone() };
    let done = Collector::new(store, NOW).run().await.unwrap();
    assert_eq!((done.repacked.records, done.repacked.failed), (1, 0), "{done:#?}");
    let mut renewed = 0;
    for key in memory.keys().into_iter().filter(|key| key.contains("/snap-")) {
        let object = memory.get(&Key::new(key).unwrap(), u64::MAX).await.unwrap();
        let record = Record::decode(&object.bytes).unwrap();
        if record.reason.as_str() == "repack" {
            // Given up once, and before that renewed.
            renewed += record.lease_seq - 1;
        }
    }
    assert!(renewed >= 2, "{renewed}");
    fixture.assert_clean().await;
}

/// What pinned readers need of its earlier generations fills the record.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_can_remember_no_more_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    let mut record = fixture.current().await.unwrap();
    let key = layout::record(&fixture.lineage, record.record);
    let pack = record.content.as_ref().unwrap().packs[0].pack;
    record.generation = 1;
    let mut remembering = |packs: usize| {
        record.earlier =
            vec![Earlier { generation: 0, packs: vec![pack; packs], unknown: Default::default() }];
        record.encode().len()
    };
    let (one, two) = (remembering(1), remembering(2));
    remembering(1 + (limits::RECORD as usize - one) / (two - one));
    record.encode_readable().unwrap();
    memory.damage(&key, record.encode());
    let pin = layout::pin(&fixture.store.tenant, store::catalog::clock::new_record_id());
    let bytes = Pin::new(record.record, 0, Duration::from_secs(600)).encode();
    memory.put(&pin, bytes.into(), Write::Create).await.unwrap();
    // It holds no longer, but whoever made it may be asleep, and renew it.
    memory.advance(Duration::from_secs(700));
    let collector = Collector::new(fixture.store.clone(), NOW);
    let done = plans::run_as_planned(&collector).await;
    assert_eq!(done.repacked.records, 0, "{done:#?}");
    assert!(!done.condemned.is_empty(), "{done:#?}");
    assert_eq!(fixture.current().await.unwrap().generation, 1);
    memory.delete(&pin).await.unwrap();
    let done = plans::run_as_planned(&collector).await;
    assert_eq!(done.repacked.records, 1, "without the pin there is room: {done:#?}");
}
