//! Every reader of bytes that somebody else may have written. A new one is a line below.
//!
//! See [`tests::fuzz`] for how inputs are made, and how to run it for hours.

#![allow(clippy::unwrap_used)]

use std::{convert::identity, fs, hint::black_box, io::Read, path::Path, time::Duration};

use capture::{
    source::Source,
    sqlite,
    state::{Deadline, State},
};
use fuse::overlay::{
    change::{Change, NewKind},
    checkpoint,
    journal::Journal,
    node::Ino,
};
use rusqlite::Connection;
use store::{
    archive::reader::{Limits, Reader},
    bucket::{Key, Prefix},
    format::{
        condemned::Condemned,
        config::{StoreConfig, TenantConfig},
        event::Event,
        frame::{self, Codec},
        index::Index,
        lock::Lock,
        pack,
        pin::Pin,
        pointer::Pointer,
        record::Record,
        root::Root,
        segment::SegmentReader,
        startup::Startup,
        table,
        tree::{Meta, Time},
    },
};
use tests::fuzz::{self, Target, files, vectors};

/// A test of one reader: what it is called, what it begins with, how it is sealed, what it does.
macro_rules! targets {
    ($($name:ident: $corpus:expr, $reseal:expr, $one_in:literal, $read:expr;)*) => {
        $(#[test]
        fn $name() {
            Target { name: stringify!($name), corpus: $corpus, reseal: $reseal, one_in: $one_in, read: $read }.fuzz();
        })*
    };
}

targets! {
    a_pack: vectors("/packs/"), fuzz::pack, 1, |bytes| drop(black_box(pack::decode_directory(bytes, bytes.len() as u64)));
    an_index: vectors("/index/"), fuzz::index, 1, |bytes| drop(black_box(Index::decode(bytes)));
    a_tree: vectors("/tree-"), identity, 1, read_tree;
    a_table: vectors("/table-"), identity, 1, read_table;
    a_root: vectors("segments/root"), identity, 1, |bytes| drop(black_box(Root::decode(bytes)));
    a_frame: vectors("frames/"), identity, 1, read_frame;
    a_record: vectors("/snap-"), fuzz::document, 8, read_record;
    a_pointer: vectors("/latest.json"), fuzz::document, 4, |bytes| drop(black_box(Pointer::decode(bytes)));
    a_lock: vectors("/lock.json"), fuzz::document, 4, |bytes| drop(black_box(Lock::decode(bytes)));
    a_pin: vectors("/pins/"), fuzz::document, 4, |bytes| drop(black_box(Pin::decode(bytes)));
    an_event: vectors("/events/"), fuzz::document, 4, |bytes| drop(black_box(Event::decode(bytes)));
    what_is_condemned: vectors("/condemned/"), fuzz::document, 4, |bytes| drop(black_box(Condemned::decode(bytes)));
    a_store_configuration: vectors("/pstore.json"), fuzz::document, 4, |bytes| drop(black_box(StoreConfig::decode(bytes)));
    a_tenant_configuration: vectors("/tenant.json"), fuzz::document, 4, |bytes| drop(black_box(TenantConfig::decode(bytes)));
    what_a_mount_reads_first: startups(), identity, 1, read_startup;
    an_archive: archives(), fuzz::tar, 4, read_archive;
    a_key: keys(), identity, 1, read_key;
    a_change_of_a_mount: changes(), identity, 1, |bytes| drop(black_box(Change::decode(bytes)));
    the_base_of_a_mount: bases(), identity, 1, |bytes| drop(black_box(checkpoint::Base::decode(bytes)));
    the_journal_of_a_mount: journals(), identity, 20, read_journal;
    the_log_of_a_leveldb: leveldb("/000003.log"), identity, 40, |bytes| check_leveldb("000003.log", bytes);
    the_manifest_of_a_leveldb: leveldb("/MANIFEST"), identity, 40, |bytes| check_leveldb("MANIFEST-000001", bytes);
    a_table_of_a_leveldb: leveldb_tables(), fuzz::leveldb_table, 20, check_leveldb_table;
    a_sqlite_database: databases(), identity, 200, |bytes| check_sqlite("Cookies", bytes);
    the_journal_of_a_sqlite_database: databases(), identity, 200, |bytes| check_sqlite("Cookies-journal", bytes);
    the_wal_of_a_sqlite_database: databases(), identity, 200, |bytes| check_sqlite("Cookies-wal", bytes);
}

fn read_tree(bytes: &[u8]) {
    let mut entries = 0;
    drop(black_box(SegmentReader::default().read(bytes, |_| entries += 1)));
    // No entry is shorter than its kind, its path and what follows.
    assert!(entries <= bytes.len() / 4, "{entries} entries of {} bytes", bytes.len());
}

/// Of as many chunks as the vectors have, and of few.
fn read_table(bytes: &[u8]) {
    for expected in [0, 1, 2, bytes.len() / 3, usize::MAX] {
        drop(black_box(table::decode(bytes, expected)));
    }
}

fn read_frame(bytes: &[u8]) {
    for length in [0, 1, 64, 255, 65_792, 131_073, 16 << 20] {
        for codec in [Codec::Raw, Codec::Zstd] {
            drop(black_box(frame::decode(codec, bytes, length)));
        }
    }
}

/// What is understood is understood again when it is written.
fn read_record(bytes: &[u8]) {
    if let Ok(record) = Record::decode(bytes) {
        let again = Record::decode(&record.encode()).unwrap();
        assert_eq!(format!("{record:?}"), format!("{again:?}"));
    }
}

fn startups() -> Vec<Vec<u8>> {
    [&b"[[0,3],[7,1]]"[..], b"[]", b"null", b"[[9007199254740991,9007199254740991]]"].map(Into::into).into()
}

fn read_startup(bytes: &[u8]) {
    if let Ok(startup) = serde_json::from_slice::<Startup>(bytes) {
        let named = startup.chunks(1000).filter(|chunk| *chunk < 1000).count();
        assert!(named <= 1000 * startup.runs().len());
    }
}

/// What GNU tar makes of a file, a link to it, a sparse one and a long name, in each of its forms.
fn archives() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("folder/file"), "content").unwrap();
    fs::hard_link(path("folder/file"), path("folder/twin")).unwrap();
    std::os::unix::fs::symlink("file", path("folder/link")).unwrap();
    fs::write(path(&"long".repeat(40)), "").unwrap();
    let sparse = fs::File::create(path("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 1 << 19).unwrap();
    let forms: [&[&str]; 4] = [
        &["--format=gnu"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ];
    let archive = |form: &&[&str]| {
        let mut tar = std::process::Command::new("tar");
        let made =
            tar.arg("-C").arg(folder.path()).args(["-S", "-cf", "-"]).args(*form).arg(".").output().unwrap();
        assert!(made.status.success(), "{made:?}");
        made.stdout
    };
    forms.iter().map(archive).collect()
}

fn read_archive(bytes: &[u8]) {
    let mut reader = Reader::new(bytes, Limits { bytes: 4 << 20, entries: 100, metadata_bytes: 1 << 20 });
    while let Ok(Some(member)) = reader.next_member() {
        black_box(member);
        let mut held = 0;
        let mut content = reader.content();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = content.read(&mut buffer) {
            held += read as u64;
            assert!(held <= 4 << 20, "more than is allowed");
        }
    }
}

fn keys() -> Vec<Vec<u8>> {
    [&b"content/acme/packs/01JED0YH00248H248H248H248H-00000"[..], b"a/../b", b"/", b""].map(Into::into).into()
}

/// A key that is taken stays below where it is put.
fn read_key(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes).into_owned();
    drop(black_box(Prefix::new(text.clone())));
    if Key::new(text.clone()).is_ok() {
        let plain = |part: &std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
        assert!(Path::new(&text).components().all(|part| plain(&part)), "{text:?}");
    }
}

const TIME: Time = Time { seconds: -1, nanos: 999_999_999 };

fn changes() -> Vec<Vec<u8>> {
    let changes = [
        Change::Create {
            parent: Ino::ROOT,
            name: b"name".to_vec(),
            ino: Ino(7),
            kind: NewKind::Symlink { target: b"target".to_vec() },
            mode: 0o644,
            uid: 0,
            gid: 0,
            time: TIME,
        },
        Change::Link { ino: Ino(7), parent: Ino::ROOT, name: b"other".to_vec(), time: TIME },
        Change::Rename {
            parent: Ino::ROOT,
            name: b"other".to_vec(),
            new_parent: Ino::ROOT,
            new_name: b"third".to_vec(),
            exchange: false,
            time: TIME,
        },
        Change::Xattr { ino: Ino(7), name: b"user.x".to_vec(), value: Some(vec![0; 9]), time: TIME },
        Change::Unlink { parent: Ino::ROOT, name: b"name".to_vec(), time: TIME },
        Change::Write { ino: Ino(7), generation: 1, offset: 4096, len: 100, crc: 5, time: TIME },
        Change::Truncate { ino: Ino(7), size: 1 << 40, time: TIME },
        Change::Intent { record: [9; 16], epoch: 3 },
    ];
    changes.iter().map(Change::encode).collect()
}

fn bases() -> Vec<Vec<u8>> {
    vec![checkpoint::Base::fresh(None, &Meta { mode: 0o700, ..Meta::default() }).encode()]
}

fn journals() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let decoded: Vec<Change> = changes().iter().map(|bytes| Change::decode(bytes).unwrap()).collect();
    Journal::create(&path, &bases()[0], &decoded).unwrap();
    vec![fs::read(path).unwrap()]
}

fn read_journal(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    drop(black_box(Journal::read(file.path())));
}

fn leveldb(part: &str) -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/testdata/leveldb"), part)
}

/// A database that Chromium wrote, with one file changed.
fn check_leveldb(name: &str, bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    for (known, content) in ["000003.log", "CURRENT", "MANIFEST-000001"].iter().zip(leveldb("/")) {
        fs::write(folder.path().join(known), content).unwrap();
    }
    fs::write(folder.path().join(name), bytes).unwrap();
    let source = Source::open(folder.path()).unwrap();
    black_box(capture::leveldb::check(&source, Path::new(""), Deadline::after(Duration::from_secs(60))));
}

fn leveldb_tables() -> Vec<Vec<u8>> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../capture/testdata/leveldb-table"), ".ldb")
}

/// A database of this table alone, whose MANIFEST says that it is as long as it is.
fn check_leveldb_table(bytes: &[u8]) {
    let folder = tempfile::tempdir().unwrap();
    let mut length = bytes.len();
    let mut edit = b"\x02\x00\x03\x09\x04\x00\x07\x00\x05".to_vec();
    while length >= 0x80 {
        edit.push(length as u8 | 0x80);
        length >>= 7;
    }
    edit.extend([length as u8, 1, b'a', 1, b'z']);
    fs::write(folder.path().join("CURRENT"), "MANIFEST-000001\n").unwrap();
    fs::write(folder.path().join("MANIFEST-000001"), fuzz::leveldb_log(&edit)).unwrap();
    fs::write(folder.path().join("000005.ldb"), bytes).unwrap();
    let checked = capture::leveldb::check(
        &Source::open(folder.path()).unwrap(),
        Path::new(""),
        Deadline::after(Duration::from_secs(60)),
    );
    assert_eq!(checked.notes.tables, 1, "the table was not read: {:?}", checked.state);
    if leveldb_tables().iter().any(|whole| whole == bytes) {
        assert_eq!(checked.state, State::Ok);
    }
}

/// A small database, and its journal or log in the middle of a change.
fn databases() -> Vec<Vec<u8>> {
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

fn check_sqlite(name: &str, bytes: &[u8]) {
    let (folder, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = Connection::open(folder.path().join("Cookies")).unwrap();
    database.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1);").unwrap();
    drop(database);
    fs::write(folder.path().join(name), bytes).unwrap();
    let source = Source::open(folder.path()).unwrap();
    let deadline = Deadline::after(Duration::from_secs(60));
    let means = sqlite::Means { depth: sqlite::Depth::Full, deadline, scratch: scratch.path() };
    black_box(sqlite::check(&source, Path::new("Cookies"), means, |_| None::<()>).0);
}
