//! These tests damage or remove objects, or cut a capture short: no other snapshot suffers, and the next capture heals
//! what it can.
//!
//! Some interrupt at one chosen moment instead: the pointer moves during a capture, or somebody interrupts a restore
//! before or after its last step.

use std::{fs, path::Path, sync::Arc};

use store::{
    Error,
    bucket::{Bucket, Depth, Key, MemoryBucket, Prefix, Write},
    catalog::pointer::{Flip, Move},
    format::{
        layout,
        record::{Record, State},
    },
    name::Lineage,
    ops::{
        point_of_no_return::PointOfNoReturn,
        read::{resolve, restore},
        write::snapshot::Outcome,
    },
    progress::Silent,
    tree::write::Keeping,
};
use tests::{
    interrupter::Interrupter,
    store_fixture::StoreFixture,
    tree::{assert_same, noise},
};

fn fill(source: &Path, seed: u64) {
    fs::create_dir_all(source).unwrap();
    fs::write(source.join("History"), noise(300_000, seed)).unwrap();
    fs::write(source.join("Cookies"), noise(50_000, 7)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_capture_never_moves_the_pointer_back() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new) = (dir.path().join("old"), dir.path().join("new"));
    fill(&old, 1);
    fill(&new, 2);
    let memory: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let other = StoreFixture::open(Arc::clone(&memory), None).await;
    let older = other.snapshot(&old).await.unwrap();
    let newer = other.snapshot(&new).await.unwrap();
    let handle = other.handle("operator");
    let to = |target| Move { target, reason: String::new(), force: true, only_from: None };
    handle.point(&to(older.record)).await.unwrap();
    let wanted = to(newer.record);
    let deed = Box::new(move || Box::pin(async move { drop(handle.point(&wanted).await.unwrap()) }) as _);
    let interrupter = Arc::new(Interrupter::before_reading(memory, "content/acme/packs/", deed));
    let slow = StoreFixture::open(interrupter.clone(), None).await;
    // What is stored already is found, but is no longer what the pointer names.
    let error = slow.snapshot(&old).await.unwrap_err();
    assert!(interrupter.is_done());
    assert!(
        matches!(&error, Error::PointerMoved { record: Some(record), .. } if *record == older.record),
        "{error}"
    );
    assert_eq!(other.current().await.unwrap().record, newer.record, "the newer snapshot was thrown back");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_record_does_not_take_its_lineage_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source, 1);
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let first = fixture.snapshot(&source).await.unwrap();
    let kept = dir.path().join("kept");
    fixture.restore(&kept).await.unwrap();
    fill(&source, 2);
    let second = fixture.snapshot(&source).await.unwrap();
    for missing in [false, true] {
        let key = layout::record(&fixture.lineage, second.record);
        if missing {
            memory.delete(&key).await.unwrap();
        } else {
            memory.damage(&key, &b"{"[..]);
        }
        let listing = resolve::list(&fixture.store, &fixture.lineage).await.unwrap();
        assert!(listing.records.iter().any(|record| record.record == first.record));
        let reference = resolve::Reference::digits(&first.sha256_prefix);
        let older = resolve::snapshot(&fixture.store, &fixture.lineage, reference.as_ref()).await.unwrap();
        let out = dir.path().join(format!("out-{missing}"));
        fixture.restore_record(&older, &out).await.unwrap();
        assert_same(&kept, &out);
        fixture.restore(&dir.path().join("refused")).await.unwrap_err();
    }
    // The next capture heals the lineage.
    fixture.snapshot(&source).await.unwrap();
    fixture.restore(&dir.path().join("healed")).await.unwrap();
    assert_same(&source, &dir.path().join("healed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn packs_that_are_gone_are_stored_again_by_the_next_capture() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source, 1);
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), Some(dir.path().join("cache"))).await;
    fixture.snapshot(&source).await.unwrap();
    let packs = Prefix::new("content/acme/packs/").unwrap();
    for entry in memory.list(&packs, Depth::All, None).await.unwrap().entries {
        memory.delete(&entry.key).await.unwrap();
    }
    fs::write(source.join("new"), "new").unwrap();
    assert_eq!(fixture.rescan(&source).await.unwrap().outcome, Outcome::Stored);
    fixture.restore(&dir.path().join("out")).await.unwrap();
    assert_same(&source, &dir.path().join("out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_cut_short_does_not_hide_the_profile_of_an_older_chrome() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 1);
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    fixture.snapshot(dir.path()).await.unwrap();
    // What a first capture of Chrome 132 leaves that was killed at its start.
    let mut record = fixture.current().await.unwrap();
    record.state = State::Writing;
    record.content = None;
    let newer = Lineage { chrome_major: "132".parse().unwrap(), ..fixture.lineage.clone() };
    let key = layout::record(&newer, record.record);
    memory.put(&key, record.encode().into(), Write::Create).await.unwrap();
    let (found, majors) = resolve::lineage(&fixture.store, &fixture.lineage.name, None).await.unwrap();
    assert_eq!((found, majors.len()), (fixture.lineage, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_capture_killed_before_its_flip_verifies_clean() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 1);
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let stored = fixture.snapshot(dir.path()).await.unwrap();
    let latest: Key = layout::latest(&fixture.lineage);
    memory.delete(&latest).await.unwrap();
    fixture.assert_clean().await;
    // And the next one only has to point at it.
    let again = fixture.snapshot(dir.path()).await.unwrap();
    assert_eq!((again.outcome, again.record), (Outcome::Unchanged, stored.record));
    assert!(matches!(again.flip, Flip::Flipped { .. }));
}

/// Nothing depends on the word, so it is no reason to refuse a snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_a_later_pstore_wrote_is_kept_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fill(&source, 1);
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let record = fixture.snapshot(&source).await.unwrap().record;
    let key = layout::record(&fixture.lineage, record);
    let object = memory.get(&key, u64::MAX).await.unwrap();
    let mut record = Record::decode(&object.bytes).unwrap();
    record.mode = "lukewarm".to_owned().into();
    memory.put(&key, record.encode().into(), Write::Replace(object.version)).await.unwrap();
    let found = fixture.current().await.unwrap();
    assert_eq!((found.mode.as_str(), found.encode()), ("lukewarm", record.encode()));
    fixture.restore(&dir.path().join("restored")).await.unwrap();
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interruption_and_the_last_step_of_a_restore_exclude_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let (source, target) = (dir.path().join("source"), dir.path().join("target"));
    fill(&source, 1);
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fixture.snapshot(&source).await.unwrap();
    let record = fixture.current().await.unwrap();
    let point_of_no_return = PointOfNoReturn::default();
    let request = restore::Request {
        paths: Vec::new(),
        target: target.clone(),
        force: false,
        keeping: Keeping { owner: false, special: true },
        threads: 2,
        inspector: None,
        point_of_no_return: point_of_no_return.clone(),
    };
    assert!(point_of_no_return.prevent());
    let refused = restore::restore(&fixture.store, &record, &request, Arc::new(Silent)).await;
    assert_eq!(refused.unwrap_err().kind(), store::ErrorKind::Io);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something is left beside the source");

    let point_of_no_return = PointOfNoReturn::default();
    let request = restore::Request { point_of_no_return: point_of_no_return.clone(), ..request };
    restore::restore(&fixture.store, &record, &request, Arc::new(Silent)).await.unwrap();
    assert!(!point_of_no_return.prevent());
    assert_same(&source, &target);
}
