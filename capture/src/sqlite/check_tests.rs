//! These tests check databases that are whole, damaged, foreign and in use.

use std::{fs, time::Duration};

use proptest::prelude::*;

use super::*;
use crate::{db_state::Deadline, sqlite::fixture::Fixture};

#[test]
fn a_whole_database_is_ok() {
    let fixture = Fixture::new();
    assert_eq!(fixture.check(), (DbState::Ok, Some(500)));
    fs::write(fixture.path("empty"), "").unwrap();
    let (empty, _) = fixture.check_at("empty", Depth::Quick, Deadline::NEVER);
    assert_eq!((empty.state, empty.bytes), (DbState::Ok, 0));
    let (gone, _) = fixture.check_at("gone", Depth::Quick, Deadline::NEVER);
    assert!(matches!(gone.state, DbState::Unchecked(_)));
}

#[test]
fn a_hot_journal_is_rolled_back_on_the_copy_alone() {
    let fixture = Fixture::new();
    fixture.killed_within_a_transaction();
    let before = fixture.listing();
    let (checked, rows) = fixture.check_at("Cookies", Depth::Full, Deadline::NEVER);
    assert!(checked.hot_journal);
    assert_eq!((checked.state, rows), (DbState::Ok, Some(500)));
    assert!(fixture.listing() == before, "the source is as it was");
    // And without its journal, the same database is torn.
    fs::remove_file(fixture.path("Cookies-journal")).unwrap();
    assert!(fixture.check().0.is_damaged());
}

#[test]
fn a_journal_that_is_not_hot_is_left_alone() {
    let fixture = Fixture::new();
    for journal in [&b""[..], &[0; 4096], b"text"] {
        fs::write(fixture.path("Cookies-journal"), journal).unwrap();
        let (checked, rows) = fixture.check_at("Cookies", Depth::Quick, Deadline::NEVER);
        assert_eq!((checked.state, checked.hot_journal, rows), (DbState::Ok, false, Some(500)));
    }
}

#[test]
fn a_journal_cannot_have_another_file_read_or_removed() {
    let fixture = Fixture::new();
    fixture.killed_within_a_transaction();
    let victim = fixture.path("victim");
    fs::write(&victim, "precious").unwrap();
    fixture.edit("Cookies-journal", |bytes| {
        let magic = bytes[..8].to_vec();
        let name = victim.to_str().unwrap().as_bytes();
        let sum = name.iter().fold(0_u32, |sum, byte| sum.wrapping_add(u32::from(*byte)));
        bytes.extend([0, 0, 0, 0]);
        bytes.extend(name);
        bytes.extend((name.len() as u32).to_be_bytes());
        bytes.extend(sum.to_be_bytes());
        bytes.extend(magic);
    });
    assert!(matches!(fixture.check().0, DbState::Unchecked(reason) if reason.contains("several databases")));
    assert_eq!(fs::read(victim).unwrap(), b"precious");
}

#[test]
fn committed_frames_of_a_wal_count_and_others_do_not() {
    let fixture = Fixture::new();
    let writer = fixture.open();
    writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").unwrap();
    writer.execute("INSERT INTO cookies VALUES (1000, 'new', '', 'v10')", []).unwrap();
    let before = fixture.listing();
    let (checked, rows) = fixture.check_at("Cookies", Depth::Full, Deadline::NEVER);
    assert_eq!((checked.state, checked.wal, rows), (DbState::Ok, true, Some(501)));
    assert!(fixture.listing() == before, "the source is as it was");
    let committed = fs::read(fixture.path("Cookies-wal")).unwrap();
    writer.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE cookies SET value = zeroblob(2000);").unwrap();
    assert!(fs::metadata(fixture.path("Cookies-wal")).unwrap().len() > committed.len() as u64);
    assert_eq!(fixture.check(), (DbState::Ok, Some(501)), "what is not committed is not there");
    drop(writer);
    // A torn frame ends a WAL, as it does for the browser.
    fs::write(fixture.path("Cookies-wal"), &committed[..committed.len() - 100]).unwrap();
    assert_eq!(fixture.check().0, DbState::Ok);
}

#[test]
fn damage_is_found() {
    for (what, damage) in [
        ("a page", (|bytes| bytes[4096..4106].fill(0xff)) as fn(&mut Vec<u8>)),
        ("a page of an index", |bytes| bytes[2 * 4096 + 3] ^= 0x40),
        ("half a page", |bytes| bytes.truncate(4096 * 3 + 2048)),
        ("the end", |bytes| bytes.truncate(bytes.len() - 4096)),
        ("all but the header", |bytes| bytes.truncate(100)),
        ("part of the header", |bytes| bytes.truncate(50)),
        ("the page size", |bytes| bytes[16] = 0x13),
        ("the beginning", |bytes| bytes[0] = b'x'),
        ("the schema", |bytes| bytes[100] = 0x77),
    ] {
        let fixture = Fixture::new();
        fs::write(fixture.path("Cookies-journal"), "").unwrap();
        fixture.edit("Cookies", damage);
        let (state, _) = fixture.check();
        assert!(state.is_damaged(), "{what}: {state:?}");
    }
}

#[test]
fn a_file_that_is_too_short_is_said_to_be() {
    let fixture = Fixture::new();
    fixture.edit("Cookies", |bytes| bytes.truncate(8192));
    let DbState::Damaged(problems) = fixture.check().0 else { panic!() };
    assert!(problems[0].starts_with("it is 8192 bytes instead of "), "{problems:?}");
}

/// SQLite has no checksums: a value that is another value is one.
#[test]
fn a_changed_value_is_seen_by_no_check() {
    let fixture = Fixture::new();
    fixture.edit("Cookies", |bytes| {
        let at = bytes.windows(6).rposition(|window| window == b"v10499").unwrap();
        bytes[at + 5] = b'8';
    });
    assert_eq!(fixture.check(), (DbState::Ok, Some(500)));
}

#[test]
fn what_only_the_browser_knows_is_not_damage_and_hides_none() {
    for (schema, known) in [
        ("CREATE TABLE t (a TEXT COLLATE BINARY); CREATE INDEX i ON t (a COLLATE BINARY);", "BINARY"),
        ("CREATE TABLE t (a); CREATE INDEX i ON t (lower(a));", "lower"),
        ("CREATE VIRTUAL TABLE t USING fts5(a, tokenize = 'unicode61');", "unicode61"),
    ] {
        let fixture = Fixture::new();
        let connection = fixture.open();
        connection.execute_batch(schema).unwrap();
        connection.execute("INSERT INTO t VALUES ('x')", []).unwrap();
        let unknown = &"unknown_of_chrome"[..known.len()];
        let rename = format!(
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, '{known}', '{unknown}');"
        );
        connection.execute_batch(&rename).unwrap();
        drop(connection);
        let (state, rows) = fixture.check();
        assert!(matches!(&state, DbState::Unchecked(_)), "{schema}: {state:?}");
        assert_eq!(rows, Some(500));
        fixture.edit("Cookies", |bytes| bytes[4096..4106].fill(0xff));
        assert!(fixture.check().0.is_damaged(), "{schema}");
    }
    let fixture = Fixture::new();
    let connection = fixture.open();
    connection
        .execute_batch(
            "CREATE VIRTUAL TABLE t USING fts5(a); PRAGMA writable_schema = ON;
                        UPDATE sqlite_schema SET sql = replace(sql, 'fts5', 'ftsX');",
        )
        .unwrap();
    drop(connection);
    assert!(!fixture.check().0.is_damaged(), "a module that is not known here");
}

#[test]
fn newer_and_foreign_files_are_not_judged() {
    let fixture = Fixture::new();
    fixture.edit("Cookies", |bytes| bytes[18..20].fill(3));
    assert!(matches!(fixture.check().0, DbState::Unchecked(_)));
    fs::write(fixture.path("vault"), [0x5a; 8192]).unwrap();
    fs::write(fixture.path("vault-journal"), "").unwrap();
    let (checked, _) = fixture.check_at("vault", Depth::Full, Deadline::NEVER);
    assert!(matches!(checked.state, DbState::Unchecked(_)));
}

#[test]
fn time_may_run_out_before_or_within_a_check() {
    let fixture = Fixture::new();
    let state = |time| fixture.check_at("Cookies", Depth::Full, Deadline::after(time)).0.state;
    assert_eq!(state(Duration::ZERO), DbState::out_of_time());
    let dir = ProfileDir::open(fixture.dir.path()).unwrap();
    let copy = Copy::make(&dir, Path::new("Cookies"), fixture.scratch.path(), Deadline::NEVER);
    let copy = copy.unwrap().unwrap();
    let deadline = Deadline::after(Duration::ZERO);
    let means = Means { depth: Depth::Full, deadline, scratch: fixture.scratch.path() };
    let mut connection = connection::open(&copy.path(), Deadline::NEVER).unwrap();
    connection.progress_handler(1, Some(move || deadline.passed())).unwrap();
    assert_eq!(examine(&connection, means), Err(Meaning::OutOfTime));
}

#[test]
fn all_page_sizes_are_checked() {
    for page_bytes in [512, 1024, 65536] {
        let fixture = Fixture::new();
        let connection = fixture.open();
        connection.execute_batch(&format!("PRAGMA page_size = {page_bytes}; VACUUM;")).unwrap();
        drop(connection);
        assert_eq!(fixture.check(), (DbState::Ok, Some(500)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_damage_to_database_or_journal_is_survived(
        journal in any::<bool>(), at in any::<prop::sample::Index>(),
        with in proptest::collection::vec(any::<u8>(), 1..60), cut in any::<bool>()
    ) {
        let fixture = Fixture::new();
        if journal {
            fixture.killed_within_a_transaction();
        }
        fixture.edit(if journal { "Cookies-journal" } else { "Cookies" }, |bytes| {
            let at = at.index(bytes.len());
            let end = if cut { bytes.len() } else { (at + with.len()).min(bytes.len()) };
            bytes.splice(at..end, with);
        });
        fixture.check();
    }
}
