//! These tests run SQLite on a mount: writers and daemons are killed at any moment, the database stays whole, and
//! no transaction that was acknowledged is lost.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use rusqlite::Connection;
use tests::mount_fixture::{ALICE, MountFixture};

/// A process that adds rows, and the numbers it has said.
pub(super) struct Writer {
    name: String,
    child: Child,
    said: Receiver<i64>,
}

impl Writer {
    pub(super) fn start(database: &Path, mode: &str, name: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sqlite-writer"));
        command.arg(database).args([mode, name]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (tell, said) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // A line that was cut short by the end of the process is none.
                line.parse().ok().and_then(|number| tell.send(number).ok());
            }
        });
        let writer = Self { name: name.to_owned(), child, said };
        // It is at work, not starting.
        writer.said.recv_timeout(Duration::from_secs(60)).expect("it writes");
        writer
    }

    /// The last number it has said since it was asked before.
    pub(super) fn acknowledged(&self) -> Option<i64> {
        self.said.try_iter().last()
    }

    /// Waits until it has ended, and gives the last number it has said.
    pub(super) fn last(mut self, kill: bool) -> (String, i64) {
        if kill {
            self.child.kill().unwrap();
        }
        self.child.wait().unwrap();
        (self.name.clone(), self.said.iter().last().unwrap_or(0))
    }
}

pub(super) fn make(database: &Path) {
    let made = Connection::open(database).unwrap();
    made.execute("CREATE TABLE rows(writer TEXT, number INTEGER, filler BLOB)", []).unwrap();
}

/// Fails unless the database is whole and has every row up to the last that was acknowledged.
#[track_caller]
pub(super) fn assert_whole(database: &Path, acknowledged: &[(String, i64)]) {
    let database = Connection::open(database).unwrap();
    let found: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
    for (writer, last) in acknowledged {
        let query = "SELECT count(*), max(number) FROM rows WHERE writer = ?1";
        let (count, highest): (i64, i64) =
            database.query_row(query, [writer], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(count, highest + 1, "rows of {writer} are missing");
        assert!(highest >= *last, "{writer} was told that {last} is stored; there are {highest}");
    }
}

fn moments(rounds: u64) -> impl Iterator<Item = Duration> {
    (0..rounds).map(|_| Duration::from_micros(getrandom::u64().unwrap() % 300_000))
}

fn writers_are_killed(mode: &str) {
    let fixture = MountFixture::local();
    fixture.mount();
    let database = fixture.mountpoint.join("database");
    make(&database);
    let mut acknowledged = Vec::new();
    for (round, moment) in moments(5).enumerate() {
        let writers = ["a", "b"].map(|name| Writer::start(&database, mode, &format!("{name}{round}")));
        println!("{mode}: killed after {moment:?}");
        thread::sleep(moment);
        acknowledged.extend(writers.map(|writer| writer.last(true)));
        assert_whole(&database, &acknowledged);
    }
    fixture.unmount(&["--commit"]);
    let target = fixture.path("restored");
    fixture.host.restore(ALICE, &target);
    assert_whole(&target.join("database"), &acknowledged);
}

#[test]
fn a_database_with_a_rollback_journal_survives_its_writers() {
    writers_are_killed("DELETE");
}

#[test]
fn a_database_with_a_write_ahead_log_survives_its_writers() {
    writers_are_killed("WAL");
}

fn daemons_are_killed(mode: &str) {
    let fixture = MountFixture::local();
    let mut mounted = fixture.mount();
    let database = fixture.mountpoint.join("database");
    make(&database);
    let mut acknowledged = Vec::new();
    for (round, moment) in moments(5).enumerate() {
        let writers = ["a", "b"].map(|name| Writer::start(&database, mode, &format!("{name}{round}")));
        println!("{mode}: the daemon is killed after {moment:?}");
        thread::sleep(moment);
        fixture.kill(&mounted);
        acknowledged.extend(writers.map(|writer| writer.last(false)));
        mounted = fixture.mount();
        assert_eq!(mounted["resumed"], true);
        assert_whole(&database, &acknowledged);
        if round == 2 {
            // What is below changes, and the session goes on.
            fixture.commit();
        }
    }
    fixture.unmount(&["--commit"]);
    let target = fixture.path("restored");
    fixture.host.restore(ALICE, &target);
    assert_whole(&target.join("database"), &acknowledged);
    assert_eq!(fs::read_dir(fixture.path("one/sessions")).unwrap().count(), 0);
}

#[test]
fn a_database_with_a_rollback_journal_survives_the_daemon() {
    daemons_are_killed("DELETE");
}

#[test]
fn a_database_with_a_write_ahead_log_survives_the_daemon() {
    daemons_are_killed("WAL");
}

/// Makes, renames and removes names in a directory without a pause, and syncs it, until it is told
/// to end. Says that it is at work.
const RESTLESS: &str = r#"
import os, select, sys
folder = sys.argv[1]
there = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
one, two = os.path.join(folder, "one"), os.path.join(folder, "two")
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    os.mkdir(one)
    os.rename(one, two)
    os.rmdir(two)
    os.fsync(there)
    rounds += 1
    if rounds == 1:
        print(flush=True)
"#;

#[test]
fn databases_are_checked_while_names_are_made_and_removed_beside_them() {
    const DATABASES: usize = 40;
    let fixture = MountFixture::local();
    fixture.mount();
    let folder = fixture.mountpoint.join("Default");
    fs::create_dir(&folder).unwrap();
    let database = |number: usize| folder.join(format!("database {number}"));
    (0..DATABASES).for_each(|number| make(&database(number)));
    let mut command = Command::new("python3");
    command.args(["-c", RESTLESS]).arg(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut restless = command.spawn().unwrap();
    BufReader::new(restless.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    // The first commit looks at all there is, the others at what has changed.
    for round in 0..3_i64 {
        for number in 0..DATABASES {
            let row = "INSERT INTO rows VALUES ('it', ?1, NULL)";
            Connection::open(database(number)).unwrap().execute(row, [round]).unwrap();
        }
        let committed = fixture.commit();
        assert_eq!(committed["databases_checked"], DATABASES, "{committed:#}");
        assert_eq!(committed["outcome"], "stored", "{committed:#}");
    }
    drop(restless.stdin.take());
    assert!(restless.wait().unwrap().success());
    fixture.unmount(&["--commit"]);
}
