//! These tests check LevelDB directories that are whole, unfinished and damaged.

use std::{fs, path::PathBuf};

use proptest::prelude::*;

use super::*;
use crate::leveldb::writer;

struct Fixture {
    dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        writer::database(dir.path());
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        edit(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    fn check(&self) -> Checked {
        check(&ProfileDir::open(self.dir.path()).unwrap(), Path::new(""), Deadline::NEVER)
    }

    fn check_logs(&self) -> Checked {
        check_logs(&ProfileDir::open(self.dir.path()).unwrap(), Path::new(""), Deadline::NEVER)
    }

    fn problems(&self) -> String {
        match self.check().state {
            DbState::Damaged(problems) => problems.join("; "),
            other => panic!("not damaged but {other:?}"),
        }
    }
}

#[test]
fn a_whole_database_is_ok() {
    let checked = Fixture::new().check();
    assert_eq!(checked.state, DbState::Ok);
    let comparator = Some("leveldb.BytewiseComparator".to_owned());
    assert_eq!(checked.notes, Notes { torn: Vec::new(), comparator, tables: 2, logs: 2 });
}

/// Its Chromium was killed, started again and killed again.
#[test]
fn what_chromium_leaves_behind_is_ok() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/leveldb");
    let path = Path::new("chromium-156-service-worker");
    let checked = check(&ProfileDir::open(&root).unwrap(), path, Deadline::NEVER);
    assert_eq!(checked.state, DbState::Ok);
    let comparator = Some("leveldb.BytewiseComparator".to_owned());
    assert_eq!(checked.notes, Notes { torn: Vec::new(), comparator, tables: 0, logs: 1 });
}

#[test]
fn a_torn_end_of_the_newest_log_or_the_manifest_is_noted() {
    for (name, cut, torn) in [("000008.log", 7, 60), ("MANIFEST-000002", 1, 8)] {
        let fixture = Fixture::new();
        fixture.edit(name, |bytes| bytes.truncate(bytes.len() - cut));
        let bytes = fs::metadata(fixture.path(name)).unwrap().len();
        let whole_bytes = bytes - torn;
        for checked in [fixture.check(), fixture.check_logs()] {
            assert_eq!(checked.state, DbState::Ok);
            assert_eq!(checked.notes.torn, [TornLog { name: name.to_owned(), whole_bytes, bytes }]);
        }
        // Nothing is torn any more, and nothing that LevelDB would read is gone.
        fixture.edit(name, |bytes| bytes.truncate(whole_bytes as usize));
        let checked = fixture.check();
        assert_eq!((checked.state, checked.notes.torn), (DbState::Ok, Vec::new()));
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    type Damage = (&'static str, fn(&Fixture), &'static str);
    let damages: &[Damage] = &[
        ("middle of the newest log", |f| f.edit("000008.log", |b| b[500] ^= 1), "checksum"),
        ("middle of an older log", |f| f.edit("000006.log", |b| b[50] ^= 1), "checksum"),
        ("end of an older log", |f| f.edit("000006.log", |b| b.truncate(b.len() - 9)), "torn"),
        ("log is gone", |f| f.remove("000006.log"), "000006.log, which the MANIFEST names"),
        ("no MANIFEST", |f| f.remove("MANIFEST-000002"), "which CURRENT names, is missing"),
        ("MANIFEST", |f| f.edit("MANIFEST-000002", |b| b[20] ^= 4), "checksum"),
        ("empty MANIFEST", |f| f.edit("MANIFEST-000002", Vec::clear), "does not say"),
        ("CURRENT is garbage", |f| f.edit("CURRENT", |b| b[3] = 0xff), "names no MANIFEST"),
        ("CURRENT leads away", |f| f.edit("CURRENT", |b| *b = b"../x\n".to_vec()), "names no"),
        ("CURRENT without end", |f| f.edit("CURRENT", |b| b.truncate(b.len() - 1)), "names no MANIFEST"),
        ("CURRENT is huge", |f| f.edit("CURRENT", |b| b.resize(1 << 20, b'1')), "names no"),
        ("empty CURRENT", |f| f.edit("CURRENT", Vec::clear), "names no MANIFEST"),
        ("no CURRENT", |f| f.remove("CURRENT"), "CURRENT is missing"),
        ("table is gone", |f| f.remove("000004.ldb"), "000004.ldb, which the MANIFEST names"),
        ("short table", |f| f.edit("000004.ldb", |b| b.truncate(b.len() - 1)), "instead of"),
        ("data block", |f| f.edit("000004.ldb", |b| b[4000] ^= 1), "a data block at 0"),
        ("compressed block", |f| f.edit("000005.ldb", |b| b[10] ^= 1), "a data block at 0"),
        ("footer", |f| f.edit("000005.ldb", |b| *b.last_mut().unwrap() ^= 1), "its end"),
        (
            "log of odd records",
            |f| fs::write(f.path("000008.log"), writer::log(&[vec![1]])).unwrap(),
            "short",
        ),
        ("no edit", |f| fs::write(f.path("MANIFEST-000002"), writer::log(&[vec![2]])).unwrap(), "no edit"),
    ];
    for (what, damage, said) in damages {
        let fixture = Fixture::new();
        damage(&fixture);
        let problems = fixture.problems();
        assert!(problems.contains(said), "{what}: {problems}");
    }
}

#[test]
fn every_byte_of_a_table_but_its_padding_matters() {
    let fixture = Fixture::new();
    for name in ["000004.ldb", "000005.ldb"] {
        let whole = fs::read(fixture.path(name)).unwrap();
        let footer = whole.len() - 48;
        for at in (0..footer).step_by(23).chain(footer - 100..footer).chain(footer + 40..whole.len()) {
            fixture.edit(name, |bytes| bytes[at] ^= 0x10);
            fixture.problems();
            fs::write(fixture.path(name), &whole).unwrap();
        }
    }
    assert_eq!(fixture.check().state, DbState::Ok);
}

#[test]
fn what_is_not_live_or_not_finished_does_not_matter() {
    let fixture = Fixture::new();
    fixture.remove("000003.log");
    fs::write(fixture.path("000077.ldb"), "left behind").unwrap();
    fs::write(fixture.path("MANIFEST-000001"), "left behind").unwrap();
    fs::write(fixture.path("000001.dbtmp"), "left behind").unwrap();
    assert_eq!(fixture.check().state, DbState::Ok);
    let unfinished = tempfile::tempdir().unwrap();
    fs::write(unfinished.path().join("MANIFEST-000001"), "").unwrap();
    let dir = ProfileDir::open(unfinished.path()).unwrap();
    assert_eq!(check(&dir, Path::new(""), Deadline::NEVER).state, DbState::Ok);
    assert!(matches!(check(&dir, Path::new("gone"), Deadline::NEVER).state, DbState::Unchecked(_)));
}

#[test]
fn what_is_not_known_is_not_called_damaged() {
    let fixture = Fixture::new();
    fs::write(fixture.path("MANIFEST-000002"), writer::log(&[vec![2, 6, 3, 9, 4, 1, 200, 1, 7]])).unwrap();
    assert!(matches!(fixture.check().state, DbState::Unchecked(_)));
    let late = Deadline::after(std::time::Duration::ZERO);
    let fixture = Fixture::new();
    let dir = ProfileDir::open(fixture.dir.path()).unwrap();
    assert_eq!(check(&dir, Path::new(""), late).state, DbState::out_of_time());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_damage_to_any_file_is_survived(
        file in 0_usize..6, at in any::<prop::sample::Index>(), with in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<bool>()
    ) {
        let fixture = Fixture::new();
        let names = ["CURRENT", "MANIFEST-000002", "000004.ldb", "000005.ldb", "000006.log", "000008.log"];
        fixture.edit(names[file], |bytes| {
            let at = at.index(bytes.len());
            let end = if cut { bytes.len() } else { (at + with.len()).min(bytes.len()) };
            bytes.splice(at..end, with);
        });
        fixture.check();
    }
}
