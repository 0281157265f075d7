//! These tests move the pointer: what its writers are promised.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use serde_json::Value;
use store::{
    Error, ErrorKind,
    bucket::{
        Access, Bucket, Fault, FaultBucket, LocalBucket, MemoryBucket, Recorder, Rule, S3Bucket, Verb, Write,
    },
    catalog::{
        events,
        lock::{Hold, Terms},
        pointer::{Fate, Flip, IntendedFlip, Move},
        records,
    },
    format::{
        event::EventKind,
        layout,
        pointer::{Pointer, Target},
        record::{Record, State},
    },
    id::RecordId,
};
use tests::{
    contract_client::pointer_to,
    interrupter::{Deed, Interrupter},
    server::SeaweedFs,
    store_fixture::StoreFixture,
};

const TERMS: Terms = Terms { ttl: Duration::from_secs(300), with_process: false };
/// A name that no snapshot of ours has.
const FOREIGN: &str = "0123456789ab";

async fn start(bucket: Arc<dyn Bucket>) -> (StoreFixture, Vec<RecordId>) {
    let fixture = StoreFixture::open(bucket, None).await;
    let records = fixture.snapshots(4).await;
    (fixture, records)
}

async fn in_memory() -> (StoreFixture, Vec<RecordId>) {
    start(Arc::new(MemoryBucket::new())).await
}

async fn hold(fixture: &StoreFixture, run: &str) -> Hold {
    fixture.handle(run).acquire(TERMS, Duration::ZERO).await.unwrap()
}

async fn pointer(fixture: &StoreFixture) -> Pointer {
    fixture.handle("reader").pointer().await.unwrap().unwrap().pointer
}

fn to(target: RecordId, force: bool) -> Move {
    Move { target, reason: "a test".to_owned(), force, only_from: None }
}

async fn kinds(fixture: &StoreFixture) -> Vec<EventKind> {
    let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
    log.into_iter().map(|event| event.unwrap().kind).collect()
}

/// Changes the pointer's JSON as a program would that knows nothing of pstore.
async fn rewrite(fixture: &StoreFixture, change: impl FnOnce(&mut Value)) {
    let key = layout::latest(&fixture.lineage);
    let object = fixture.store.bucket.get(&key, u64::MAX).await.unwrap();
    let mut json: Value = serde_json::from_slice(&object.bytes).unwrap();
    change(&mut json);
    let body = json.to_string().into_bytes().into();
    fixture.store.bucket.put(&key, body, Write::Replace(object.version)).await.unwrap();
}

/// As a program of the contract flips: six fields, nothing else.
async fn flip_by_contract(fixture: &StoreFixture, from: Option<&str>) {
    rewrite(fixture, |json| {
        let from = from.map_or_else(|| json["active_sha256_prefix"].clone(), Value::from);
        *json = pointer_to(FOREIGN, from.as_str().unwrap());
    })
    .await;
}

async fn a_flip_names_what_was_before(bucket: Arc<dyn Bucket>) {
    let (fixture, records) = start(bucket).await;
    let before = pointer(&fixture).await;
    let hold = hold(&fixture, "one").await;
    let Flip::Flipped { from, flip_id } = hold.flip(records[0]).await.unwrap() else { panic!("no flip") };
    assert_eq!(from, before.active_sha256_prefix);
    let now = pointer(&fixture).await;
    assert_eq!(now.target(), Target::Record(records[0]));
    assert_eq!(now.flipped_from_sha256_prefix, before.active_sha256_prefix);
    assert_eq!(now.block().unwrap().flip_id, flip_id);
    assert_eq!(hold.flip(records[0]).await.unwrap(), Flip::Unchanged);
    hold.release().await.unwrap();
    assert_eq!(kinds(&fixture).await.last(), Some(&EventKind::Flip));
}

#[tokio::test]
async fn a_flip_in_memory_names_what_was_before() {
    a_flip_names_what_was_before(Arc::new(MemoryBucket::new())).await;
}

#[tokio::test]
async fn a_flip_in_a_directory_names_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = LocalBucket::open(folder.path(), Access::ReadWrite).unwrap();
    a_flip_names_what_was_before(Arc::new(bucket)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flip_on_a_server_names_what_was_before() {
    let server = SeaweedFs::shared().await;
    a_flip_names_what_was_before(Arc::new(S3Bucket::open(server.config()).await)).await;
}

/// The loser's condition fails; it reads again and wins.
#[tokio::test(start_paused = true)]
async fn the_loser_of_a_race_sees_it_and_tries_again() {
    let memory: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
    let (fixture, records) = start(Arc::clone(&memory)).await;
    let (winner, first) = (fixture.handle("winner"), to(records[0], true));
    let deed = Box::new(move || async move { drop(winner.point(&first).await.unwrap()) }.boxed());
    let latest = layout::latest(&fixture.lineage);
    let recorder = Arc::new(Recorder::new(memory));
    let interrupter = Arc::new(Interrupter::before(recorder.clone(), Verb::Replace, latest.as_str(), deed));
    let slow = StoreFixture::open(interrupter.clone(), None).await;
    let answer = slow.handle("loser").point(&to(records[1], true)).await.unwrap();
    assert!(interrupter.is_done());
    let writes: Vec<bool> = recorder
        .calls()
        .into_iter()
        .filter(|call| call.verb == Verb::Replace && call.key == latest.as_str())
        .map(|call| call.ok)
        .collect();
    assert_eq!(writes, [false, true]);
    let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
    let moves = log.into_iter().map(Result::unwrap).filter(|event| event.kind == EventKind::Rollback);
    let [first, second] = &moves.collect::<Vec<_>>()[..] else { panic!("two moves were made") };
    let (first, second) = if first.by.run_id == "winner" { (first, second) } else { (second, first) };
    assert_eq!(second.from_sha256_prefix, first.to_sha256_prefix);
    assert!(matches!(answer, Flip::Flipped { from, .. } if Some(&from) == first.to_sha256_prefix.as_ref()));
    assert_eq!(pointer(&fixture).await.target(), Target::Record(records[1]));
}

#[tokio::test]
async fn a_rollback_needs_a_free_lock_or_force_and_fences_the_holder() {
    let (fixture, records) = in_memory().await;
    let operator = fixture.handle("operator");
    assert!(matches!(operator.point(&to(records[0], false)).await.unwrap(), Flip::Flipped { .. }));
    assert_eq!(operator.point(&to(records[0], false)).await.unwrap(), Flip::Unchanged);

    let hold = hold(&fixture, "holder").await;
    let refused = operator.point(&to(records[1], false)).await.unwrap_err();
    assert!(matches!(&refused, Error::LockHeld { holder, .. } if holder.run_id == "holder"), "{refused}");
    operator.point(&to(records[1], true)).await.unwrap();
    let fenced = hold.flip(records[2]).await.unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::PointerMoved, "{fenced}");
    assert_eq!(pointer(&fixture).await.target(), Target::Record(records[1]));
    let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
    let last = log.into_iter().map(Result::unwrap).rfind(|event| event.kind == EventKind::Rollback).unwrap();
    assert_eq!((last.reason.as_str(), last.by.run_id.as_str()), ("a test", "operator"));
}

#[tokio::test]
async fn unknown_fields_survive_a_flip_a_claim_and_a_rollback() {
    let (fixture, records) = in_memory().await;
    rewrite(&fixture, |json| json["region"] = "eu-west-1".into()).await;
    let hold = hold(&fixture, "one").await;
    assert_eq!(pointer(&fixture).await.unknown["region"], "eu-west-1");
    hold.flip(records[0]).await.unwrap();
    hold.release().await.unwrap();
    fixture.handle("operator").point(&to(records[1], false)).await.unwrap();
    assert_eq!(pointer(&fixture).await.unknown["region"], "eu-west-1");
}

#[tokio::test]
async fn a_foreign_flip_is_honoured_and_told() {
    for (from, kind) in [(None, EventKind::ForeignFlip), (Some("ffffffffffff"), EventKind::ForeignFork)] {
        let (fixture, records) = in_memory().await;
        flip_by_contract(&fixture, from).await;
        let hold = hold(&fixture, "one").await;
        assert_eq!((hold.base().await, pointer(&fixture).await.target()), (None, Target::Foreign(FOREIGN)));
        assert!(kinds(&fixture).await.contains(&kind));
        let Flip::Flipped { from, .. } = hold.flip(records[0]).await.unwrap() else { panic!("no flip") };
        assert_eq!(from, FOREIGN);
    }
}

/// It keeps what it does not know, so our block stays; but the block is not bound any more.
#[tokio::test]
async fn a_foreign_flip_that_keeps_our_block_is_noticed_all_the_same() {
    let (fixture, _) = in_memory().await;
    rewrite(&fixture, |json| json["active_sha256_prefix"] = FOREIGN.into()).await;
    assert_eq!(pointer(&fixture).await.target(), Target::Foreign(FOREIGN));
    hold(&fixture, "one").await;
    assert!(
        kinds(&fixture)
            .await
            .iter()
            .any(|kind| matches!(kind, EventKind::ForeignFlip | EventKind::ForeignFork))
    );
}

#[tokio::test]
async fn a_foreign_flip_under_a_deletion_is_told() {
    let (fixture, records) = in_memory().await;
    flip_by_contract(&fixture, None).await;
    fixture.handle("operator").delete(records[0], "a test").await.unwrap();
    assert!(kinds(&fixture).await.contains(&EventKind::ForeignFlip));
    assert_eq!(pointer(&fixture).await.target(), Target::Foreign(FOREIGN));
}

#[tokio::test(start_paused = true)]
async fn a_flip_whose_answer_is_lost_is_made_once_and_reported() {
    for fault in [Fault::Before, Fault::After, Fault::Refused] {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let (fixture, records) = start(faults.clone()).await;
        let hold = hold(&fixture, "one").await;
        let before = pointer(&fixture).await;
        faults.inject(Rule::new(fault).on(Verb::Replace).at("latest.json"));
        let Flip::Flipped { from, .. } = hold.flip(records[0]).await.unwrap() else { panic!("no flip") };
        assert_eq!((faults.strikes(), from), (1, before.active_sha256_prefix));
        assert_eq!(pointer(&fixture).await.target(), Target::Record(records[0]));
        let flips = kinds(&fixture).await.into_iter().filter(|kind| *kind == EventKind::Flip).count();
        assert_eq!(flips, 5, "four snapshots and this one");
    }
}

#[tokio::test]
async fn a_deleted_snapshot_cannot_be_pointed_at_and_a_current_one_not_deleted() {
    let (fixture, records) = in_memory().await;
    let operator = fixture.handle("operator");
    let refused = operator.delete(records[3], "a test").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SnapshotNeeded, "{refused}");
    operator.delete(records[0], "a test").await.unwrap();
    let refused = operator.point(&to(records[0], true)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PointerNotFlipped, "{refused}");
    assert_eq!(pointer(&fixture).await.target(), Target::Record(records[3]));
}

/// Replaces a record as a collection does that moves its chunks.
async fn touch(fixture: &StoreFixture, id: RecordId) {
    let (mut record, version) = records::get(&fixture.store, &fixture.lineage, id).await.unwrap();
    record.lease_seq += 1;
    fixture.handle("collector").replace_record(&record, version).await.unwrap();
}

/// Deletes the first snapshot, and something happens to it before the first call of this kind.
async fn delete_beside(
    verb: Verb,
    below: &str,
    deed: Deed,
    fixture: &StoreFixture,
    first: RecordId,
) -> Record {
    let interrupter = Arc::new(Interrupter::before(Arc::clone(&fixture.root), verb, below, deed));
    let slow = fixture.on(interrupter.clone());
    let buried = slow.handle("retention").delete(first, "a test").await.unwrap();
    assert!(interrupter.is_done());
    assert_eq!(records::get(&fixture.store, &fixture.lineage, first).await.unwrap().0, buried);
    buried
}

/// Whenever a collection replaces the record, and even if another ends what was begun.
#[tokio::test]
async fn a_deletion_goes_on_when_somebody_replaces_the_record_meanwhile() {
    let (fixture, ids) = in_memory().await;
    let (record, events) = (layout::record(&fixture.lineage, ids[0]), layout::events(&fixture.lineage));
    let (other, first) = (fixture.clone(), ids[0]);
    let touched = Box::new(move || async move { touch(&other, first).await }.boxed());
    let buried = delete_beside(Verb::Replace, record.as_str(), touched, &fixture, ids[0]).await;
    assert_eq!(buried.state, State::Tombstone);

    let (other, second) = (fixture.clone(), ids[1]);
    let touched = Box::new(move || async move { touch(&other, second).await }.boxed());
    let buried = delete_beside(Verb::Get, events.as_str(), touched, &fixture, ids[1]).await;
    assert_eq!(buried.state, State::Tombstone);

    let (other, third) = (fixture.clone(), ids[2]);
    let ended = async move { drop(other.handle("collector").delete(third, "").await.unwrap()) };
    let ended = Box::new(move || ended.boxed());
    let buried = delete_beside(Verb::Get, events.as_str(), ended, &fixture, ids[2]).await;
    assert_eq!(buried.state, State::Tombstone);
    assert_eq!(buried.deletion.unwrap().by.run_id, "retention");
    assert_eq!(pointer(&fixture).await.target(), Target::Record(ids[3]));
}

const DAMAGED: [&[u8]; 4] = [b"", b"{", b"\0\xff not json", br#"{"version": 1, "active_sha256_prefix": 7}"#];

async fn damage(fixture: &StoreFixture, with: &'static [u8]) {
    let key = layout::latest(&fixture.lineage);
    let object = fixture.store.bucket.get(&key, u64::MAX).await.unwrap();
    fixture.store.bucket.put(&key, with.to_vec().into(), Write::Replace(object.version)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_pointer_is_replaced_by_an_operator_who_insists() {
    let folder = tempfile::tempdir().unwrap();
    let local = Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap());
    for (fixture, records) in [in_memory().await, start(local).await] {
        for bytes in DAMAGED {
            let holder = hold(&fixture, "holder").await;
            damage(&fixture, bytes).await;
            let operator = fixture.handle("operator");
            let refused = operator.point(&to(records[1], false)).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PointerNotFlipped, "{refused}");
            let moved = operator.point(&to(records[1], true)).await.unwrap();
            assert!(matches!(moved, Flip::Flipped { .. }));
            assert_eq!(pointer(&fixture).await.target(), Target::Record(records[1]));
            let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
            let last = log.into_iter().rfind(|event| event.as_ref().unwrap().kind == EventKind::Rollback);
            let last = last.unwrap().unwrap();
            assert_eq!(last.reason, "a test (over a pointer that was damaged)");
            assert_eq!((last.by.run_id.as_str(), last.record), ("operator", Some(records[1])));
            // Whoever had the claim has it no more.
            let error = holder.flip(records[2]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PointerMoved, "{error}");
            holder.release().await.unwrap();
            fixture.assert_clean().await;
        }
    }
}

#[tokio::test]
async fn a_pointer_of_a_newer_pstore_is_not_taken_for_damage() {
    let (fixture, records) = in_memory().await;
    damage(&fixture, br#"{"version": 2, "writer": "pstore 9.0.0"}"#).await;
    let error = fixture.handle("operator").point(&to(records[1], true)).await.unwrap_err();
    assert!(error.to_string().contains("pstore 9.0.0"), "{error}");
    fixture.handle("reader").pointer().await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_whose_answer_was_lost_is_made_once() {
    for fault in [Fault::Before, Fault::After, Fault::Refused] {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let (fixture, records) = start(faults.clone()).await;
        damage(&fixture, b"{").await;
        faults.inject(Rule::new(fault).on(Verb::Replace).at("latest.json"));
        let moved = fixture.handle("operator").point(&to(records[0], true)).await.unwrap();
        assert!(matches!(moved, Flip::Flipped { .. }), "{fault:?}");
        assert_eq!(faults.strikes(), 1);
        faults.heal();
        assert_eq!(pointer(&fixture).await.target(), Target::Record(records[0]));
        let rollbacks = kinds(&fixture).await.into_iter().filter(|kind| *kind == EventKind::Rollback);
        assert_eq!(rollbacks.count(), 1, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_repair_a_pointer_one_comes_second() {
    let (fixture, records) = in_memory().await;
    damage(&fixture, b"{").await;
    let (second, target) = (fixture.handle("second"), records[1]);
    // Between the other's look and its write.
    let inner = fixture.root.clone();
    let deed = Box::new(move || async move { drop(second.point(&to(target, true)).await.unwrap()) }.boxed());
    let prefix = layout::latest(&fixture.lineage).to_string();
    let meddled =
        StoreFixture::open(Arc::new(Interrupter::before(inner, Verb::Replace, &prefix, deed)), None).await;
    let moved = meddled.handle("first").point(&to(records[2], true)).await.unwrap();
    let from = match moved {
        Flip::Flipped { from, .. } => from,
        Flip::Unchanged => panic!("it named another"),
    };
    assert!(!from.is_empty(), "it is built on what the other wrote");
    assert_eq!(pointer(&fixture).await.target(), Target::Record(records[2]));
    fixture.assert_clean().await;
}

/// Whoever goes on with a flip that another has meant.
#[tokio::test]
async fn what_became_of_a_flip_is_known_for_as_long_as_the_pointer_remembers() {
    let (fixture, records) = in_memory().await;
    let begin = async |run: &str| {
        let hold = hold(&fixture, run).await;
        let flip_id = hold.handle().new_flip_id();
        let meant = hold.intended_flip(flip_id).await;
        hold.release().await.unwrap();
        meant
    };
    let fate = async |target, meant| {
        let hold = hold(&fixture, "later").await;
        let fate = hold.fate(target, meant).await;
        hold.release().await.unwrap();
        fate
    };
    let operate = async |target| drop(fixture.handle("operator").point(&to(target, true)).await.unwrap());
    let flip = async |target, meant: IntendedFlip| {
        let hold = hold(&fixture, "one").await;
        hold.flip_as(target, meant.flip_id).await.unwrap();
        hold.release().await.unwrap();
    };
    operate(records[0]).await;
    // However often the pointer is claimed, nobody has moved it.
    let meant = begin("one").await;
    for _ in 0..20 {
        assert_eq!(fate(records[1], Some(meant)).await, Fate::Open);
    }
    // Without its id nobody can tell that it was not made.
    assert_eq!(fate(records[1], None).await, Fate::Unknown);
    assert_eq!(fate(records[0], None).await, Fate::Current);
    // Somebody has moved it elsewhere and back: whatever is meant now, it is not this.
    operate(records[2]).await;
    operate(records[0]).await;
    assert_eq!(fate(records[1], Some(meant)).await, Fate::Overtaken);
    let meant = begin("one").await;
    flip(records[1], meant).await;
    assert_eq!(fate(records[1], Some(meant)).await, Fate::Current);
    operate(records[0]).await;
    assert_eq!(fate(records[1], Some(meant)).await, Fate::Passed);
    // It is remembered for so long, and then nobody claims to know.
    let mut asked = 0;
    while fate(records[1], Some(meant)).await == Fate::Passed {
        asked += 1;
    }
    assert!(asked >= 16, "{asked}");
    assert_eq!(fate(records[1], Some(meant)).await, Fate::Unknown);
}

/// The answer of a flip was lost, and it may still arrive.
#[tokio::test]
async fn a_flip_that_was_overtaken_never_arrives() {
    let (fixture, records) = in_memory().await;
    let holding = hold(&fixture, "one").await;
    let flip_id = holding.handle().new_flip_id();
    let meant = holding.intended_flip(flip_id).await;
    let key = layout::latest(&fixture.lineage);
    let seen = fixture.store.bucket.get(&key, u64::MAX).await.unwrap();
    holding.overtake(records[1]).await.unwrap();
    let late = fixture.store.bucket.put(&key, seen.bytes.into(), Write::Replace(seen.version)).await;
    late.unwrap_err();
    assert_eq!(holding.fate(records[1], Some(meant)).await, Fate::Open);
    assert!(matches!(holding.flip_as(records[1], flip_id).await.unwrap(), Flip::Flipped { .. }));
    assert_eq!(holding.fate(records[1], Some(meant)).await, Fate::Current);
    // Nobody overtakes what somebody else has moved.
    fixture.handle("operator").point(&to(records[2], true)).await.unwrap();
    assert_eq!(holding.overtake(records[1]).await.unwrap_err().kind(), ErrorKind::PointerMoved);
}
