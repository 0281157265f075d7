//! `databases` fuzzes the readers of what a browser left in its profile.

use std::{fs, hint::black_box, path::Path, time::Duration};

use capture::{
    db_state::{DbState, Deadline},
    profile_dir::ProfileDir,
    sqlite,
};
use rusqlite::Connection;

use tests::{mutation::reseal, vectors::files};

pub(super) fn leveldb(part: &str) -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/testdata/leveldb"), part)
}

/// A database that Chromium wrote, with one file changed.
pub(super) fn check_leveldb(name: &str, bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    for (known, content) in ["000003.log", "CURRENT", "MANIFEST-000001"].iter().zip(leveldb("/")) {
        fs::write(folder.path().join(known), content).unwrap();
    }
    fs::write(folder.path().join(name), bytes).unwrap();
    let dir = ProfileDir::open(folder.path()).unwrap();
    let deadline = Deadline::after(Duration::from_secs(60));
    black_box(capture::leveldb::check(&dir, Path::new(""), deadline));
    black_box(count_keys(&dir, deadline).ok());
}

fn count_keys(dir: &ProfileDir, deadline: Deadline) -> Result<usize, String> {
    let mut count = 0;
    capture::leveldb::keys(dir, Path::new(""), deadline, |_| count += 1)?;
    Ok(count)
}

pub(super) fn leveldb_tables() -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/testdata/leveldb-table"), ".ldb")
}

/// A database of this table alone, whose MANIFEST says that it is as long as it is.
pub(super) fn check_leveldb_table(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let mut length = bytes.len();
    let mut edit = b"\x02\x00\x03\x09\x04\x00\x07\x00\x05".to_vec();
    while length >= 0x80 {
        edit.push(length as u8 | 0x80);
        length >>= 7;
    }
    edit.extend([length as u8, 1, b'a', 1, b'z']);
    fs::write(folder.path().join("CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(folder.path().join("MANIFEST-000001"), reseal::leveldb_log(&edit)).unwrap();
    fs::write(folder.path().join("000005.ldb"), bytes).unwrap();
    let (dir, deadline) =
        (ProfileDir::open(folder.path()).unwrap(), Deadline::after(Duration::from_secs(60)));
    let checked = capture::leveldb::check(&dir, Path::new(""), deadline);
    let keys = count_keys(&dir, deadline);
    assert_eq!(checked.notes.tables, 1, "the table was not read: {:?}", checked.state);
    if leveldb_tables().iter().any(|whole| whole == bytes) {
        assert_eq!(checked.state, DbState::Ok);
        assert!(keys.is_ok_and(|keys| keys > 0));
    }
}

/// A small database, and its journal or log in the middle of a change.
pub(super) fn databases() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let mut found = Vec::new();
    for mode in ["delete", "wal"] {
        let path = folder.path().join(mode);
        let database = Connection::open(&path).unwrap();
        database.pragma_update(None, "journal_mode", mode).unwrap();
        let rows = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT UNIQUE);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
            INSERT INTO t SELECT i, hex(randomblob(20)) FROM n;";
        database.execute_batch(rows).unwrap();
        database.execute_batch("PRAGMA cache_size = 1; BEGIN; UPDATE t SET b = b || 'x';").unwrap();
        for suffix in ["", "-journal", "-wal"] {
            found.extend(fs::read(path.with_file_name(format!("{mode}{suffix}"))).ok());
        }
        database.execute_batch("ROLLBACK").unwrap();
    }
    found
}

/// What a process that examines databases says of two of them, and of cookies that it compares.
pub(super) fn answers() -> Vec<Vec<u8>> {
    let answers = r#"{"ready":{"seccomp":true,"landlock":true}}
{"began":0}
{"began":1}
{"sqlite":[0,{"state":{"state":"unchecked","detail":"why"},"hot_journal":false,"wal":true,"bytes":9,"cookies":{"rows":1,"plain":0,"v10":1,"v11":0,"other":0}}]}
{"level_db":[1,{"state":{"state":"damaged","detail":["a","b"]},"notes":{"torn":[{"name":"000003.log","whole_bytes":7,"bytes":14}],"comparator":"x","tables":1,"logs":1},"bytes":9}]}
{"began":2}
{"sites":[2,{"sites":[{"site":"a.test","before":1,"after":2,"added":1,"gone":0,"expiring":1}],"more":0,"problem":null}]}
"#;
    assert!(capture::cell::is_understood(answers.as_bytes()));
    vec![answers.as_bytes().to_vec()]
}

/// The settings of a browser, as far as they matter here.
pub(super) fn settings() -> Vec<Vec<u8>> {
    vec![br#"{"homepage": "x", "profile": {"exit_type": "Normal", "a": {"b": [1, {"c": null}]}}}"#.to_vec()]
}

pub(super) fn check_sqlite(name: &str, bytes: &[u8]) {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = Connection::open(folder.path().join("Cookies")).unwrap();
    database.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1);").unwrap();
    drop(database);
    fs::write(folder.path().join(name), bytes).unwrap();
    let dir = ProfileDir::open(folder.path()).unwrap();
    let deadline = Deadline::after(Duration::from_secs(60));
    let means = sqlite::Means { depth: sqlite::Depth::Full, deadline, scratch: scratch.path() };
    black_box(sqlite::check(&dir, Path::new("Cookies"), means, |_| None::<()>).0);
}
