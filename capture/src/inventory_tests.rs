//! These tests take the inventory of directories with and without databases.

use std::{
    fs,
    os::unix::{ffi::OsStrExt, fs::symlink},
};

use super::*;

fn database(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.execute_batch("CREATE TABLE t (a)").unwrap();
}

fn profile() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::create_dir_all(path("Default/Local Storage/leveldb/lost")).unwrap();
    fs::create_dir_all(path("Default/Cache")).unwrap();
    for name in ["Default/History", "Default/named.txt"] {
        database(&path(name));
    }
    database(&dir.path().join(OsStr::from_bytes(b"Default/\xff\xfe")));
    for (name, content) in [
        ("Default/Broken", "no header"),
        ("Default/Broken-journal", ""),
        ("Default/Empty", ""),
        ("Default/Empty-journal", ""),
        ("Default/Preferences", "{}                  "),
        ("Default/Local Storage/leveldb/CURRENT", "MANIFEST-000001\n"),
        ("Default/Local Storage/leveldb/LOCK", ""),
        ("Default/Local Storage/leveldb/000003.log", ""),
        ("Default/Cache/000001.log", "a page's own"),
    ] {
        fs::write(path(name), content).unwrap();
    }
    symlink("History", path("Default/link")).unwrap();
    symlink("/", path("Default/slash")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("Default/fifo"), 0o600.into()).unwrap();
    dir
}

fn paths(paths: &[&[u8]]) -> BTreeSet<PathBuf> {
    paths.iter().map(|path| OsStr::from_bytes(path).into()).collect()
}

#[test]
fn databases_are_found_by_what_they_are() {
    let profile = profile();
    let inventory = Inventory::of_all(&ProfileDir::open(profile.path()).unwrap()).unwrap();
    let sqlite = paths(&[b"Default/Broken", b"Default/History", b"Default/named.txt", b"Default/\xff\xfe"]);
    assert_eq!(inventory, Inventory { sqlite, leveldb: paths(&[b"Default/Local Storage/leveldb"]) });
}

#[test]
fn leveldbs_are_found_by_names_alone() {
    let profile = profile();
    let dir = ProfileDir::open(profile.path()).unwrap();
    let all = paths(&[b"Default/Local Storage/leveldb"]);
    assert_eq!(leveldbs(&dir, None).unwrap(), all);
    let of = |files: &[&[u8]]| leveldbs(&dir, Some(&paths(files))).unwrap();
    assert_eq!(of(&[b"Default/Local Storage/leveldb/000009.log", b"Default/Cache/000001.log"]), all);
    assert_eq!(of(&[b"Default/History", b"Gone/CURRENT", b"CURRENT"]), paths(&[]));
}

#[test]
fn changes_concern_the_databases_they_belong_to() {
    let profile = profile();
    let dir = ProfileDir::open(profile.path()).unwrap();
    let of = |changed: &[&[u8]]| Inventory::of_changed(&dir, &paths(changed)).unwrap();
    let sqlite = |path: &[u8]| Inventory { sqlite: paths(&[path]), ..Inventory::default() };
    assert_eq!(of(&[]), Inventory::default());
    assert_eq!(of(&[b"Default/History"]), sqlite(b"Default/History"));
    assert_eq!(of(&[b"Default/History-journal"]), sqlite(b"Default/History"), "removed, as after a commit");
    assert_eq!(of(&[b"Default/\xff\xfe-wal"]), sqlite(b"Default/\xff\xfe"));
    assert_eq!(of(&[b"Default/Broken"]), sqlite(b"Default/Broken"));
    let leveldb = Inventory { leveldb: paths(&[b"Default/Local Storage/leveldb"]), ..Inventory::default() };
    assert_eq!(of(&[b"Default/Local Storage/leveldb/000009.ldb"]), leveldb, "also one that is gone");
    assert_eq!(
        of(&[b"Default/Local Storage/leveldb/CURRENT", b"Default/Local Storage/leveldb/LOG"]),
        leveldb
    );
    for other in [
        &b"Default/Preferences"[..],
        b"Default/Cache/000001.log",
        b"Default/Empty",
        b"Default/link",
        b"Default/fifo",
        b"Default/slash/etc/passwd",
        b"Default",
        b"-journal",
        b"Default/-journal",
        b"../History",
        b"gone/CURRENT",
        b"",
    ] {
        assert_eq!(of(&[other]), Inventory::default(), "{}", String::from_utf8_lossy(other));
    }
}

#[test]
fn sizes_name_the_directories_that_hold_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: usize| {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; bytes]).unwrap();
    };
    for at in 0..200 {
        write(&format!("Default/Storage/{at}/data"), 500);
    }
    write("Default/Cache/Cache_Data/f", 300_000);
    write("Default/Preferences", 3000);
    write("small/x", 10);
    let dir = ProfileDir::open(dir.path()).unwrap();
    let sizes = Sizes::of(&dir, 2).unwrap();
    assert_eq!(sizes.bytes, 403_010);
    let size = |path: &str, bytes| DirectorySize { path: path.into(), bytes };
    assert_eq!(sizes.largest, [size("Default/Cache/Cache_Data", 300_000), size("Default/Storage", 100_000)]);
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Sizes::of(&ProfileDir::open(empty.path()).unwrap(), 9).unwrap(), Sizes::default());
}
