//! These tests save beside writers that never pause, and count what is in each saved state.

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
};

use crate::shop::{ALL, Shop, rows};

/// How often a database is saved beside a writer: so often as PSTORE_SAVE_ROUNDS says, else `few`.
pub fn rounds(few: usize) -> usize {
    match env::var("PSTORE_SAVE_ROUNDS") {
        Ok(text) => text.parse().expect("PSTORE_SAVE_ROUNDS is a number"),
        Err(_) => few,
    }
}

/// Each transaction writes one row to each of two tables.
fn linked_rows_are_never_one_without_the_other(mode: &'static str) {
    let shop = Shop::new(ALL);
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let writer = {
        let (mut database, stop, written) = (shop.database(mode), Arc::clone(&stop), Arc::clone(&written));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let behaviour = rusqlite::TransactionBehavior::Immediate;
                let writing = database.transaction_with_behavior(behaviour).unwrap();
                writing.execute("INSERT INTO a VALUES (randomblob(500))", []).unwrap();
                writing.execute("INSERT INTO b VALUES (randomblob(500))", []).unwrap();
                writing.commit().unwrap();
                written.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let mut last = 0;
    for round in 0..rounds(5) {
        let told = written.load(Ordering::SeqCst);
        let saved = shop.save(&[]);
        let then = written.load(Ordering::SeqCst);
        let copy = &saved["snapshot"]["volumeManifests"]["db"]["sqlite"][0];
        assert_eq!(copy["integrityCheck"], "ok", "{mode}");
        assert!(copy["writersWaitedMs"].is_u64(), "{copy:#}");
        let restored = shop.restore_to("", &format!("out-{round}")).join("volumes/db/app.db");
        let (a, b) = (rows(&restored, "a"), rows(&restored, "b"));
        assert_eq!(a, b, "{mode}: one without the other");
        // One more may be committed and not counted yet.
        assert!((told.max(last)..=then + 1).contains(&a), "{mode}: {a} of {told} to {then}");
        last = a;
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
    assert!(last > 0, "{mode}: nobody wrote");
    shop.assert_tidy();
}

#[test]
fn linked_rows_beside_a_writer_with_a_write_ahead_log() {
    linked_rows_are_never_one_without_the_other("wal");
}

#[test]
fn linked_rows_beside_a_writer_with_a_rollback_journal() {
    linked_rows_are_never_one_without_the_other("delete");
}
