//! These tests kill the host, or let the store answer badly, at any moment of a snapshot: what was there stays
//! whole, and the next snapshot succeeds.

use std::{fs, path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Fault, FaultBucket, MemoryBucket, Rule},
    catalog::{events, lock, records},
    format::event::EventKind,
    ops::write::snapshot::{HoldBack, Request},
};
use tests::{
    store_fixture::{StoreFixture, request},
    tree::{assert_same, noise},
};

fn first(source: &Path) {
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Default/History"), noise(700_000, 1)).unwrap();
    fs::write(source.join("Default/Cookies"), "cookie ".repeat(9000)).unwrap();
    fs::write(source.join("Local State"), "{}").unwrap();
}

fn second(source: &Path) {
    fs::write(source.join("Default/History"), noise(800_000, 2)).unwrap();
    fs::write(source.join("Default/New"), noise(100_000, 3)).unwrap();
    fs::remove_file(source.join("Local State")).unwrap();
}

/// Lets the k-th call of a snapshot go wrong, for every k, and looks at what is left.
async fn survives(fault: Fault) {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    first(&before);
    first(&after);
    second(&after);
    let mut k = 1;
    loop {
        let memory = Arc::new(MemoryBucket::new());
        let calm = StoreFixture::open(memory.clone(), None).await;
        calm.snapshot(&before).await.unwrap();
        let faulty = Arc::new(FaultBucket::new(memory.clone()));
        let struck = StoreFixture::open(faulty.clone(), None).await;
        faulty.inject(Rule::new(fault).nth(k));
        let result = struck.snapshot(&after).await;
        if faulty.strikes() == 0 {
            assert!(k > 8, "only {k} calls");
            return;
        }
        calm.assert_clean().await;
        let out = dir.path().join(format!("out{k}"));
        calm.restore(&out).await.unwrap();
        let current = if result.is_ok() { &after } else { &before };
        // A pointer whose flip was not confirmed may be at either, but never at anything else.
        let flipped = calm.current().await.unwrap().parent.is_some();
        assert_same(if flipped { &after } else { current }, &out);
        // Whoever died may have left a lock; it expires.
        memory.advance(lock::DEFAULT_TTL + Duration::from_secs(1));
        calm.snapshot(&after).await.unwrap();
        calm.assert_clean().await;
        let again = dir.path().join(format!("again{k}"));
        calm.restore(&again).await.unwrap();
        assert_same(&after, &again);
        k += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_any_call() {
    survives(Fault::KilledBefore).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_any_call() {
    survives(Fault::KilledAfter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_unanswered_and_not_applied() {
    survives(Fault::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_unanswered_though_applied() {
    survives(Fault::After).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_call_refused_though_applied() {
    survives(Fault::Refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_answer_with_a_flipped_bit() {
    survives(Fault::Flipped).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_answer_cut_short() {
    survives(Fault::Truncated).await;
}

/// Killed anywhere, no snapshot is held back of which the log does not tell.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_held_back_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    first(&before);
    first(&after);
    second(&after);
    let mut held_back = 0;
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        for k in 1.. {
            let memory = Arc::new(MemoryBucket::new());
            let calm = StoreFixture::open(memory.clone(), None).await;
            calm.snapshot(&before).await.unwrap();
            let faulty = Arc::new(FaultBucket::new(memory.clone()));
            let struck = StoreFixture::open(faulty.clone(), None).await;
            faulty.inject(Rule::new(fault).nth(k));
            let hold_back = Some(HoldBack { word: "shrunk", reason: "most cookies are gone".to_owned() });
            struck.capture(&Request { hold_back, ..request(&struck.lineage, &after) }).await.ok();
            let log = events::log(&calm.store, &calm.lineage, None).await.unwrap();
            let told = |record: &store::format::record::Record| {
                let mut events = log.iter().flatten();
                events.any(|event| event.kind == EventKind::HeldBack && event.record == Some(record.record))
            };
            let live = records::live(&calm.store, &calm.lineage).await.unwrap();
            for record in live.iter().filter(|record| record.held_back.is_some()) {
                assert!(told(record), "{fault:?} at call {k}");
                held_back += 1;
            }
            if faulty.strikes() == 0 {
                break;
            }
        }
    }
    assert!(held_back > 2, "only {held_back}");
}
