//! These tests run several writers at once: on one profile, in one tenant, and beside a collection.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Access, Bucket, LocalBucket, MemoryBucket, Write},
    catalog::{
        lock::{self, Terms},
        pointer,
    },
    format::{condemned::Condemned, layout, record::State},
    name::Lineage,
    ops::{
        read::resolve,
        write::snapshot::{self, LockUse, Request},
    },
};
use tests::{
    store_fixture::{StoreFixture, lineage, request},
    tree::{assert_same, noise},
};

/// A directory that shares most of its content with every other writer's.
pub(super) fn fill(source: &Path, writer: u64, round: u64) {
    fs::create_dir_all(source).unwrap();
    fs::write(source.join("shared"), noise(600_000, 7)).unwrap();
    fs::write(source.join("round"), noise(300_000, 100 + round)).unwrap();
    fs::write(source.join("own"), noise(100_000, 1000 + 100 * writer + round)).unwrap();
}

async fn many_writers_end_well(bucket: Arc<dyn Bucket>, writers: u64, rounds: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut tasks = Vec::new();
    for writer in 0..writers {
        let (bucket, source) = (Arc::clone(&bucket), dir.path().join(format!("source{writer}")));
        // Half of them write to one profile, the others each to their own.
        let lineage =
            if writer % 2 == 0 { lineage("acme/alice") } else { lineage(&format!("acme/own{writer}")) };
        tasks.push(tokio::spawn(async move {
            let fixture = StoreFixture::open(bucket, None).await;
            let mut moved = 0;
            for round in 0..rounds {
                fill(&source, writer, round);
                // Half of them wait for the lock, the others are told who holds it.
                let wait = if writer % 4 < 2 { Duration::from_secs(60) } else { Duration::ZERO };
                let renew_every = lock::DEFAULT_RENEW_EVERY;
                let lock = LockUse::Take { terms: Terms::default(), renew_every, patience: wait.into() };
                let request = Request { lock, ..request(&lineage, &source) };
                match fixture.capture(&request).await {
                    Ok(_) => moved += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), store::ErrorKind::LockHeld, "{error}");
                        assert_eq!(wait, Duration::ZERO, "{error}");
                    }
                }
            }
            (lineage, source, moved)
        }));
    }
    let fixture = StoreFixture::open(bucket, None).await;
    let mut lineages: BTreeSet<Lineage> = BTreeSet::new();
    for task in tasks {
        let (lineage, source, moved) = task.await.unwrap();
        assert!(moved > 0 || lineage.name.profile.as_str() == "alice", "a writer never got through");
        if lineage.name.profile.as_str() != "alice" {
            let out = dir.path().join(format!("out-{}", lineage.name.profile));
            let record = resolve::snapshot(&fixture.store, &lineage, None).await.unwrap();
            fixture.restore_record(&record, &out).await.unwrap();
            assert_same(&source, &out);
        }
        lineages.insert(lineage);
    }
    for lineage in lineages {
        let fixture = StoreFixture { lineage, ..fixture.clone() };
        fixture.assert_clean().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_in_memory() {
    many_writers_end_well(Arc::new(MemoryBucket::new()), 6, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_writers_in_a_directory() {
    let root = tempfile::tempdir().unwrap();
    many_writers_end_well(Arc::new(LocalBucket::open(root.path(), Access::ReadWrite).unwrap()), 4, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flip_names_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let mut before = String::new();
    for round in 0..5 {
        fill(dir.path(), 0, round);
        let report = fixture.snapshot(dir.path()).await.unwrap();
        let read = pointer::read(&fixture.store, &fixture.lineage).await.unwrap().unwrap().pointer;
        assert_eq!(read.flipped_from_sha256_prefix, before);
        assert_eq!(read.active_sha256_prefix, report.sha256_prefix);
        assert_eq!(
            read.active_archive_key,
            format!("snapshots/acme/alice/131/profile-{}.tar.zst", report.sha256_prefix)
        );
        before = read.active_sha256_prefix;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_was_stored_but_not_pointed_at_is_not_stored_twice() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fill(dir.path(), 0, 0);
    fixture.snapshot(dir.path()).await.unwrap();
    let key = layout::latest(&fixture.lineage);
    let old = fixture.store.bucket.get(&key, u64::MAX).await.unwrap();
    fill(dir.path(), 0, 1);
    let stored = fixture.snapshot(dir.path()).await.unwrap();
    // As if the flip had never happened.
    let now = fixture.store.bucket.get(&key, u64::MAX).await.unwrap();
    fixture.store.bucket.put(&key, old.bytes.into(), Write::Replace(now.version)).await.unwrap();
    let again = fixture.rescan(dir.path()).await.unwrap();
    assert_eq!((again.outcome, again.record), (snapshot::Outcome::Unchanged, stored.record));
    assert!(matches!(again.flip, pointer::Flip::Flipped { .. }));
    assert_eq!(fixture.current().await.unwrap().record, stored.record);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_refers_to_a_pack_that_a_collection_has_condemned() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fill(dir.path(), 0, 0);
    let first = fixture.snapshot(dir.path()).await.unwrap();
    let packs = fixture.current().await.unwrap().content.unwrap().packs;
    // A collection condemns everything the first snapshot stored.
    let condemned = Condemned::new(packs.iter().map(|used| used.pack).collect());
    let key = layout::condemned_by(&fixture.store.tenant, "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap());
    fixture.store.bucket.put(&key, condemned.encode().into(), Write::Create).await.unwrap();
    // Little changes, so that most of the metadata could be shared too.
    fs::write(dir.path().join("new"), "new").unwrap();
    let second = fixture.snapshot(dir.path()).await.unwrap();
    assert_ne!(first.snapshot_id, second.snapshot_id);
    let content = fixture.current().await.unwrap().content.unwrap();
    for used in &content.packs {
        assert_eq!(used.pack.write, second.record, "a condemned pack is referred to");
    }
    // So the collection may go on.
    for used in packs {
        fixture.store.bucket.delete(&layout::pack(&fixture.store.tenant, used.pack)).await.unwrap();
    }
    let out = dir.path().with_extension("out");
    fixture.restore(&out).await.unwrap();
    assert_same(dir.path(), &out);
    fs::remove_dir_all(&out).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_revoked_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 0, 0);
    let memory: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(Arc::clone(&memory), None).await;
    let revoker = Arc::new(tests::interrupter::Interrupter::revoking(memory));
    let struck = StoreFixture::open(revoker.clone(), None).await;
    let report = struck.snapshot(dir.path()).await.unwrap();
    assert!(revoker.is_done());
    let record = fixture.current().await.unwrap();
    assert_eq!((record.record, record.state), (report.record, State::Live));
    fixture.assert_clean().await;
}
