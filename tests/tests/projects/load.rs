//! These tests save beside writers that never pause, and count what is in each saved state.

use std::{
    env,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread,
    time::Instant,
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

/// A copy beside a writer is torn, though it may look whole.
#[test]
fn nobody_writes_while_a_database_without_a_log_is_copied() {
    let shop = Shop::new(ALL);
    let database = shop.database("delete");
    // So large that its copy takes a while.
    let rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150) \
                INSERT INTO large SELECT randomblob(1000000) FROM n";
    database.execute_batch("CREATE TABLE large(bytes)").unwrap();
    database.execute_batch(rows).unwrap();
    database.pragma_update(None, "synchronous", "OFF").unwrap();
    let (stop, longest) = (AtomicBool::new(false), AtomicI64::new(0));
    thread::scope(|scope| {
        let (database, stop, longest) = (database, &stop, &longest);
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                database.execute("INSERT INTO a VALUES (1)", []).unwrap();
                longest.fetch_max(began.elapsed().as_millis() as i64, Ordering::Relaxed);
            }
        });
        let saved = shop.save(&[]);
        stop.store(true, Ordering::Relaxed);
        let waited =
            saved["snapshot"]["volumeManifests"]["db"]["sqlite"][0]["writersWaitedMs"].as_i64().unwrap();
        let longest = longest.load(Ordering::Relaxed);
        assert!(
            longest * 10 >= waited * 8,
            "no write took longer than {longest} ms; they were to wait {waited} ms"
        );
    });
}
