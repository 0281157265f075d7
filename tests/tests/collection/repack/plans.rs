//! These tests compare what a dry run says with what a run does.

use std::{fs, ops::Range, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, MemoryBucket, Write},
    catalog::{clock, lease::LEASE_TTL},
    format::{
        layout,
        pin::Pin,
        record::{Record, State},
    },
    id::PackSeq,
    ops::gc::{Candidate, Cause, Collector, Options, Plan},
};
use tests::{
    store_fixture::{StoreFixture, copy},
    tree::noise,
};

use super::{NOW, assert_restores, deleted, fill, packed_bytes};

/// What is told of a run before and after it.
pub(super) async fn run_as_planned(collector: &Collector) -> Plan {
    let told = |plan: &Plan| {
        let condemned: Vec<_> = plan.condemned.iter().map(|one| (one.pack, one.bytes, one.cause)).collect();
        let documents = format!("{:?}", plan.documents);
        let packs = (plan.repacked, plan.needed, plan.live_bytes, plan.deleted, plan.writing, plan.waiting());
        let indexes = (plan.indexes_rewritten, plan.indexes_removed, plan.indexes_merged);
        let numbers = (plan.finished_deletions, plan.pending.len(), plan.leftovers, plan.revoked.len());
        (condemned, documents, packs, indexes, numbers)
    };
    let plan = collector.plan().await.unwrap();
    let done = collector.run().await.unwrap();
    assert_eq!(told(&plan), told(&done));
    done
}

/// What is moved is still there. Without it the rest would be beyond the limit, and a plan would go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_moves_no_more_than_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let (half, most) = (dir.path().join("half"), dir.path().join("most"));
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let mut records = Vec::new();
    for (source, round, every) in [(&half, 0, 2), (&most, 1, 8)] {
        fs::create_dir(source).unwrap();
        for file in 0..24 {
            fs::write(source.join(format!("{file:02}")), noise(60_000, 100 * round + file)).unwrap();
        }
        records.push(fixture.snapshot(dir.path()).await.unwrap().record);
        for file in (0..24).step_by(every) {
            fs::remove_file(source.join(format!("{file:02}"))).unwrap();
        }
    }
    fixture.snapshot(dir.path()).await.unwrap();
    for record in records {
        fixture.handle("test").delete(record, "").await.unwrap();
    }
    let collector = Collector::new(fixture.store.clone(), Options { max_unused_percent: 11, ..NOW });
    let done = run_as_planned(&collector).await;
    assert_eq!(done.repacked.records, 1, "{done:#?}");
    assert_restores(&fixture, dir.path()).await;
}

/// A snapshot is moved, and later moved again. Its tables of the first time, all that their pack holds,
/// are of no use then.
#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_written_anew_are_foreseen() {
    let dir = tempfile::tempdir().unwrap();
    let alice = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let bob = alice.of("acme/bob");
    let mut records = Vec::new();
    for (round, fixture) in [(0, &alice), (1, &bob)] {
        let folder = dir.path().join(format!("{round}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..24 {
            fs::write(folder.join(format!("{file:02}")), noise(60_000, 100 * round + file)).unwrap();
        }
        records.push(fixture.snapshot(&folder).await.unwrap().record);
        for file in 0..12 {
            fs::remove_file(folder.join(format!("{file:02}"))).unwrap();
        }
    }
    // Half of what each of them has stored.
    alice.snapshot(dir.path()).await.unwrap();
    bob.snapshot(tempfile::tempdir().unwrap().path()).await.unwrap();
    let collector = Collector::new(alice.store.clone(), NOW);
    alice.handle("test").delete(records[0], "").await.unwrap();
    let first = run_as_planned(&collector).await;
    assert_eq!((first.repacked.records, first.repacked.emptied.packs), (1, 1), "{first:#?}");
    bob.handle("test").delete(records[1], "").await.unwrap();
    let second = run_as_planned(&collector).await;
    assert_eq!((second.repacked.records, second.repacked.emptied.packs), (1, 1), "{second:#?}");
    let of_the_first_move = |one: &&Candidate| one.cause == Cause::Moved && one.pack.seq == PackSeq::Meta;
    assert_eq!(second.condemned.iter().filter(of_the_first_move).count(), 1, "{second:#?}");
    let third = run_as_planned(&collector).await;
    assert!(third.condemned.is_empty(), "{third:#?}");
    assert_restores(&alice, dir.path()).await;
}

/// More is to be moved than one write may remember; the second begins where the first has ended.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_two_writes_is_foreseen() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let mut records = Vec::new();
    for round in 0..3 {
        let folder = dir.path().join(format!("{round}"));
        fs::create_dir(&folder).unwrap();
        for file in 0..700 {
            fs::write(folder.join(format!("{file:03}")), noise(2000, 1000 * round + file)).unwrap();
        }
        records.push(fixture.snapshot(dir.path()).await.unwrap().record);
        for file in 0..250 {
            fs::remove_file(folder.join(format!("{file:03}"))).unwrap();
        }
    }
    fixture.snapshot(dir.path()).await.unwrap();
    for record in records {
        fixture.handle("test").delete(record, "").await.unwrap();
    }
    let before = fixture.current().await.unwrap();
    let little = Options { memory_bytes: 0, ..NOW };
    let done = run_as_planned(&Collector::new(fixture.store.clone(), little)).await;
    assert_eq!(done.repacked.records, 1, "{done:#?}");
    assert_eq!(fixture.current().await.unwrap().generation, before.generation + 2);
    assert_restores(&fixture, dir.path()).await;
}

/// Of the first pack two snapshots need a half each, and so hardly less than all of it. No record says that.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_needed_by_parts_is_not_moved_for_little() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let write = |folder: &str, files: Range<u64>, seed: u64| {
        let folder = dir.path().join(folder);
        fs::create_dir_all(&folder).unwrap();
        for file in files {
            fs::write(folder.join(format!("{file:02}")), noise(60_000, seed + file)).unwrap();
        }
        folder
    };
    let first = fixture.snapshot(&write("whole", 0..24, 0)).await.unwrap().record;
    for (profile, files) in [("bob", 0..12), ("carol", 12..23)] {
        let report =
            fixture.of(&format!("acme/{profile}")).snapshot(&write(profile, files, 0)).await.unwrap();
        assert_eq!(report.counts.new_chunks, 0);
    }
    fixture.snapshot(&write("whole", 0..24, 100)).await.unwrap();
    fixture.handle("test").delete(first, "").await.unwrap();
    let done = run_as_planned(&Collector::new(fixture.store.clone(), NOW)).await;
    assert_eq!(done.repacked, Default::default(), "one file of 48 is not needed");
}

/// What is swept makes room for what is moved.
#[tokio::test(flavor = "multi_thread")]
async fn what_goes_is_not_counted_against_the_quota() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), dir.path()).await;
    // The files of the second round, and nothing else, are garbage as a whole.
    let condemning = Options { max_unused_percent: 100, ..NOW };
    let garbage =
        Collector::new(fixture.store.clone(), condemning).run().await.unwrap().condemned_total().bytes;
    let stored = packed_bytes(&memory).await;
    let kept = Collector::new(fixture.store.clone(), NOW).plan().await.unwrap().repacked.kept_bytes;
    assert!(kept > garbage && garbage > 400_000, "{kept} {garbage}");
    for (quota, records) in [(stored + kept - garbage - 1, 0), (stored + kept - garbage, 1)] {
        let fixture = fixture.on(copy(&memory).await);
        let within = Options { quota_bytes: Some(quota), ..NOW };
        let done = run_as_planned(&Collector::new(fixture.store.clone(), within)).await;
        assert_eq!((done.deleted.bytes, done.repacked.records), (garbage, records), "{done:#?}");
    }
}

/// One goes on, another is taken back because of a pin.
#[tokio::test(flavor = "multi_thread")]
async fn deletions_that_were_cut_short_are_foreseen() {
    for pinned in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::new());
        let fixture = StoreFixture::open(memory.clone(), None).await;
        let mut records = Vec::new();
        for round in 0..2 {
            fill(dir.path(), round);
            records.push(fixture.snapshot(dir.path()).await.unwrap().record);
        }
        let key = layout::record(&fixture.lineage, records[0]);
        let record = Record::decode(&memory.get(&key, u64::MAX).await.unwrap().bytes).unwrap();
        memory.damage(&key, Record { state: State::Trashed, ..record }.encode());
        memory.advance(LEASE_TTL + Duration::from_secs(1));
        if pinned {
            let pin = layout::pin(&fixture.store.tenant, clock::new_record_id());
            let bytes = Pin::new(records[0], 0, Duration::from_secs(600)).encode();
            memory.put(&pin, bytes.into(), Write::Create).await.unwrap();
        }
        let done = run_as_planned(&Collector::new(fixture.store.clone(), NOW)).await;
        assert_eq!(done.finished_deletions, u64::from(!pinned), "{done:#?}");
        assert_eq!(done.condemned.is_empty(), pinned, "{done:#?}");
        assert_restores(&fixture, dir.path()).await;
    }
}
