//! `Fixture` is a directory with a database, for tests.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rusqlite::Connection;

use super::{Checked, Depth, Means, check};
use crate::{
    db_state::{DbState, Deadline},
    profile_dir::ProfileDir,
};

type Listed = (String, Vec<u8>, SystemTime, (i64, i64), u64);

pub(super) struct Fixture {
    pub(super) dir: tempfile::TempDir,
    pub(super) scratch: tempfile::TempDir,
}

impl Fixture {
    /// With a database at `Cookies` of some hundred rows and an index.
    pub(super) fn new() -> Self {
        let fixture = Self { dir: tempfile::tempdir().unwrap(), scratch: tempfile::tempdir().unwrap() };
        let connection = fixture.open();
        connection
            .execute_batch(
                "PRAGMA page_size = 4096;
                 CREATE TABLE cookies (id INTEGER PRIMARY KEY, name TEXT, value TEXT, encrypted_value BLOB);
                 CREATE INDEX by_name ON cookies (name);
                 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
                 INSERT INTO cookies SELECT i, 'name' || i, '', 'v10' || i FROM n;",
            )
            .unwrap();
        fixture
    }

    pub(super) fn open(&self) -> Connection {
        Connection::open(self.path("Cookies")).unwrap()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn edit(&self, name: &str, edit: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        edit(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(super) fn check_at(&self, name: &str, depth: Depth, deadline: Deadline) -> (Checked, Option<i64>) {
        let means = Means { depth, deadline, scratch: self.scratch.path() };
        let rows = |c: &Connection| c.query_row("SELECT count(*) FROM cookies", [], |row| row.get(0)).ok();
        let checked = check(&ProfileDir::open(self.dir.path()).unwrap(), Path::new(name), means, rows);
        assert_eq!(fs::read_dir(self.scratch.path()).unwrap().count(), 0, "copies are removed");
        checked
    }

    pub(super) fn check(&self) -> (DbState, Option<i64>) {
        let (checked, rows) = self.check_at("Cookies", Depth::Full, Deadline::NEVER);
        (checked.state, rows)
    }

    /// As the directory would be if a transaction over many pages was killed.
    pub(super) fn killed_within_a_transaction(&self) {
        let connection = self.open();
        connection.execute_batch("PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN;").unwrap();
        connection.execute("UPDATE cookies SET value = zeroblob(300)", []).unwrap();
        let aside = tempfile::tempdir().unwrap();
        for name in ["Cookies", "Cookies-journal"] {
            fs::copy(self.path(name), aside.path().join(name)).unwrap();
        }
        drop(connection);
        for name in ["Cookies", "Cookies-journal"] {
            fs::copy(aside.path().join(name), self.path(name)).unwrap();
        }
    }

    /// All that a check must leave as it is.
    pub(super) fn listing(&self) -> Vec<Listed> {
        let mut found: Vec<_> = fs::read_dir(self.dir.path())
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let meta = entry.metadata().unwrap();
                let name = entry.file_name().into_string().unwrap();
                let times = (meta.ctime(), meta.ctime_nsec());
                (name, fs::read(entry.path()).unwrap(), meta.modified().unwrap(), times, meta.ino())
            })
            .collect();
        found.sort();
        found
    }
}
