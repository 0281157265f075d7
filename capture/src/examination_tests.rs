//! These tests check the databases of small profiles.

use std::fs;

use super::*;
use crate::cookies::Count;

fn profile() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("Default/Network")).unwrap();
    for at in 0..12 {
        let connection = rusqlite::Connection::open(dir.path().join(format!("Default/db{at}"))).unwrap();
        connection.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1)").unwrap();
    }
    let connection = rusqlite::Connection::open(dir.path().join("Default/Network/Cookies")).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE cookies (host_key TEXT, value TEXT, encrypted_value BLOB);
             INSERT INTO cookies VALUES ('a', '', 'v10x'), ('a', '', 'v11x'), ('a', 'plain', '');",
        )
        .unwrap();
    let leveldb = dir.path().join("Default/Session Storage");
    fs::create_dir(&leveldb).unwrap();
    fs::write(leveldb.join("CURRENT"), "").unwrap();
    fs::write(leveldb.join("000003.log"), "").unwrap();
    dir
}

fn options(scratch: &Path) -> Options {
    let scratch = scratch.to_owned();
    Options {
        depth: Depth::Quick,
        isolation: Isolation::InProcess,
        threads: 3,
        deadline: Deadline::NEVER,
        scratch,
    }
}

#[test]
fn a_profile_is_examined_in_one_go() {
    let (profile, scratch) = (profile(), tempfile::tempdir().unwrap());
    let examination = examine(profile.path(), Scope::All, &options(scratch.path())).unwrap();
    assert_eq!(examination.sqlite.len(), 13);
    assert!(examination.sqlite.iter().all(|checked| checked.state == DbState::Ok));
    assert!(examination.sqlite.is_sorted_by_key(|checked| &checked.path));
    let damaged: Vec<_> = examination.damaged().map(|(path, _)| path).collect();
    assert_eq!(damaged, [Path::new("Default/Session Storage")]);
    assert_eq!(examination.unchecked().count(), 0);
    let census = examination.cookies.clone().unwrap();
    assert_eq!(census.total(), Count { rows: 3, plain: 1, v10: 1, v11: 1, other: 0 });
    assert!(examination.bytes > 0);
    let json = serde_json::to_value(&examination).unwrap();
    assert_eq!(json["leveldb"][0]["state"], "damaged");
    assert_eq!(json["sqlite"][0]["state"], "ok");
}

#[test]
fn only_what_changed_is_examined_if_that_is_asked_for() {
    let (profile, scratch) = (profile(), tempfile::tempdir().unwrap());
    let changed = BTreeSet::from(["Default/db3-journal".into(), "Default/Preferences".into()]);
    let examination = examine(profile.path(), Scope::Changed(&changed), &options(scratch.path())).unwrap();
    assert_eq!(examination.sqlite.len(), 1);
    assert_eq!((examination.leveldb.len(), examination.cookies), (0, None));
    let nothing = BTreeSet::new();
    let examination = examine(profile.path(), Scope::Changed(&nothing), &options(scratch.path())).unwrap();
    assert_eq!(examination.bytes, 0);
}

#[test]
fn what_there_is_no_time_for_is_unchecked() {
    let (profile, scratch) = (profile(), tempfile::tempdir().unwrap());
    let options = Options { deadline: Deadline::after(Duration::ZERO), ..options(scratch.path()) };
    let examination = examine(profile.path(), Scope::All, &options).unwrap();
    assert_eq!(examination.unchecked().count(), 13);
    assert_eq!(examination.cookies, None);
    examine(&profile.path().join("gone"), Scope::All, &options).unwrap_err();
}
