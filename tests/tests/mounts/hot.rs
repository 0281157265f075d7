//! These tests commit while programs have files open, mapped, and databases in the middle of a transaction.
//!
//! `PSTORE_HOT_COMMITS` says how many commits are made beside writers that never pause.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use rusqlite::Connection;
use serde_json::Value;
use tests::{
    binary::assert_says,
    disk::SmallDisk,
    mount_fixture::{ALICE, MountFixture, await_end},
    tree::noise,
};

use super::sqlite::{Writer, assert_whole, make};

/// A script that goes on, step by step, when it is told to.
pub(super) struct Script {
    child: Child,
    told: ChildStdin,
    said: BufReader<std::process::ChildStdout>,
}

impl Script {
    /// Starts it; it has done its first step.
    pub(super) fn start(script: &str, path: &Path) -> Self {
        const STEP: &str = "import sys\ndef step():\n    print(flush=True); sys.stdin.readline()\n";
        let mut command = Command::new("python3");
        command.arg("-c").arg(format!("{STEP}{script}")).arg(path);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, said) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut script = Self { child, told, said };
        script.await_step();
        script
    }

    fn await_step(&mut self) {
        let mut line = String::new();
        assert!(self.said.read_line(&mut line).unwrap() > 0, "it has ended");
    }

    /// Has it do its next step.
    pub(super) fn go_on(&mut self) {
        self.told.write_all(b"\n").unwrap();
        self.await_step();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The current snapshot, and what its record says of it.
fn restored(fixture: &MountFixture, name: &str) -> (std::path::PathBuf, Value) {
    let out = fixture.path(name);
    fixture.host.restore(ALICE, &out);
    (out, fixture.host.succeed(["show", ALICE]))
}

#[test]
fn what_is_open_and_what_is_mapped_is_stored_as_it_is_and_both_go_on() {
    let fixture = MountFixture::hot();
    fixture.mount();
    fs::write(fixture.mountpoint.join("mapped"), vec![0; 8192]).unwrap();
    let mut open = Script::start(
        "file = open(sys.argv[1], 'w', buffering=1)\nfor word in ['one', 'two', 'three']:\n    print(word, file=file); step()",
        &fixture.mountpoint.join("open"),
    );
    // The mapping alone keeps it open, and nobody syncs it.
    let mut mapped = Script::start(
        "import mmap, os\nfd = os.open(sys.argv[1], os.O_RDWR); shared = mmap.mmap(fd, 8192); os.close(fd)\n\
         for at in [0, 4096]:\n    shared[at:at + 4] = b'page'; step()",
        &fixture.mountpoint.join("mapped"),
    );
    let committed = fixture.commit_hot();
    assert!(committed["frozen_ms"].as_f64().unwrap() > 0.0, "{committed:#}");
    let (out, record) = restored(&fixture, "first");
    assert_eq!(fs::read_to_string(out.join("open")).unwrap(), "one\n");
    let pages = |content: &[u8]| [content[..4].to_vec(), content[4096..4100].to_vec()];
    assert_eq!(pages(&fs::read(out.join("mapped")).unwrap()), [b"page".to_vec(), vec![0; 4]]);
    assert_eq!((&record["mode"], &record["health"]["ended"]), (&"hot".into(), &"not_running".into()));

    open.go_on();
    mapped.go_on();
    fixture.commit_hot();
    let (out, _) = restored(&fixture, "second");
    assert_eq!(fs::read_to_string(out.join("open")).unwrap(), "one\ntwo\n");
    assert_eq!(pages(&fs::read(out.join("mapped")).unwrap()), [b"page", b"page"]);

    // One that ends the browser waits for them still.
    assert_eq!(fixture.ask("commit", &[]).code, Some(32));
    drop((open, mapped));
    fixture.unmount(&["--commit"]);
}

/// So much is changed that SQLite writes pages of a transaction that is not finished.
const TRANSACTION: &str = r#"
import sqlite3
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = DELETE")
database.execute("PRAGMA cache_size = 5")
database.execute("CREATE TABLE rows(filler)")
for number in range(200):
    database.execute("INSERT INTO rows VALUES (?)", [b"x" * 2000])
database.execute("BEGIN")
database.execute("UPDATE rows SET filler = ?", [b"y" * 2000])
step()
"#;

#[test]
fn a_database_in_the_middle_of_a_transaction_is_stored_as_it_is_and_recovered_by_whoever_opens_it() {
    let fixture = MountFixture::hot();
    fixture.mount();
    let writer = Script::start(TRANSACTION, &fixture.mountpoint.join("database"));
    fixture.commit_hot();
    let (out, record) = restored(&fixture, "out");
    for name in ["database", "database-journal"] {
        let mounted = fs::read(fixture.mountpoint.join(name)).unwrap();
        assert!(mounted == fs::read(out.join(name)).unwrap(), "{name} is stored as it was");
    }
    let health = &record["health"];
    assert_eq!(health["hot_journals"], serde_json::json!(["database"]), "{health:#}");
    assert_eq!(health["recovered"], serde_json::json!([{"path": "database", "from": "journal"}]));
    let database = Connection::open(out.join("database")).unwrap();
    let as_before = "SELECT count(*) FROM rows WHERE substr(filler, 1, 1) = x'78'";
    let count: i64 = database.query_row(as_before, [], |row| row.get(0)).unwrap();
    assert_eq!(count, 200, "the transaction is rolled back");
    drop(writer);
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_database_that_would_not_recover_holds_the_snapshot_back() {
    let fixture = MountFixture::hot();
    fixture.mount();
    let before = fixture.commit()["record"].clone();
    let mut writer = Script::start(TRANSACTION, &fixture.mountpoint.join("database"));
    // The journal holds what pages were, and now something else.
    let journal = fixture.mountpoint.join("database-journal");
    let database = fixture.mountpoint.join("database");
    fs::write(&journal, vec![0; fs::metadata(&journal).unwrap().len() as usize]).unwrap();
    let torn = fs::read(&database).unwrap();
    fs::write(&database, &torn[..torn.len() / 2]).unwrap();
    writer.child.kill().unwrap();
    let ended = fixture.ask("commit", &["--mode", "hot"]);
    assert_eq!((ended.code, &ended.document["held_back"]), (Some(29), &"damaged".into()), "{ended:#?}");
    assert_eq!(fixture.host.succeed(["show", ALICE])["record"], before);
    fixture.unmount(&["--discard"]);
}

fn commits_beside_writers(mode: &str, how: &[&str]) {
    let commits: u64 = env::var("PSTORE_HOT_COMMITS").map_or(10, |text| text.parse().unwrap());
    let fixture = MountFixture::hot();
    fixture.mount_as(&fixture.host, how);
    let database = fixture.mountpoint.join("database");
    make(&database);
    let writers = ["a", "b"].map(|name| (name, Writer::start(&database, mode, name)));
    let mut acknowledged = vec![("a".to_owned(), 0), ("b".to_owned(), 0)];
    let mut frozen = Vec::new();
    for number in 0..commits {
        for ((_, last), (_, writer)) in acknowledged.iter_mut().zip(&writers) {
            *last = writer.acknowledged().unwrap_or(*last);
        }
        frozen.push(fixture.commit_hot()["frozen_ms"].as_f64().unwrap());
        let (out, _) = restored(&fixture, &number.to_string());
        assert_whole(&out.join("database"), &acknowledged);
        fs::remove_dir_all(&out).unwrap();
    }
    frozen.sort_by(f64::total_cmp);
    println!("{mode}: {commits} commits beside {acknowledged:?}; changes waited {frozen:?} ms");
    for (_, writer) in writers {
        writer.last(true);
    }
    fixture.unmount(&["--discard"]);
}

#[test]
fn every_row_that_was_acknowledged_is_in_a_commit_beside_writers_with_a_rollback_journal() {
    commits_beside_writers("DELETE", &[]);
}

#[test]
fn every_row_that_was_acknowledged_is_in_a_commit_beside_writers_with_a_write_ahead_log() {
    commits_beside_writers("WAL", &[]);
}

#[test]
fn every_row_that_was_acknowledged_is_in_a_commit_though_the_kernel_had_kept_it() {
    commits_beside_writers("WAL", &["--writeback"]);
}

#[test]
fn every_row_that_was_acknowledged_is_in_a_commit_that_a_save_of_work_in_progress_makes_way_for() {
    commits_beside_writers("WAL", &["--autosave", "1s"]);
}

#[test]
fn what_was_committed_beside_a_writer_survives_the_end_of_the_daemon_right_after() {
    let fixture = MountFixture::hot();
    let mut mounted = fixture.mount();
    let database = fixture.mountpoint.join("database");
    make(&database);
    for round in 0..3 {
        let writer = Writer::start(&database, "WAL", &format!("writer{round}"));
        fixture.commit_hot();
        fixture.kill(&mounted);
        await_end(&mounted);
        let last = writer.last(false);
        mounted = fixture.mount();
        assert_eq!(mounted["resumed"], true, "{mounted:#}");
        assert_whole(&database, &[last]);
    }
    fixture.unmount(&["--commit"]);
}

/// A mount whose session lies on a disk of its own.
fn on_a_small_disk() -> (MountFixture, SmallDisk) {
    let (mut fixture, disk) = (MountFixture::hot(), SmallDisk::new(96 << 20));
    let sessions = disk.path().join("sessions");
    fixture.host = fixture.host.clone().with("PSTORE_SESSION_DIR", sessions.to_str().unwrap());
    fixture.mount();
    (fixture, disk)
}

#[test]
fn a_commit_that_the_disk_of_the_session_has_no_room_for_is_refused_before_anything_is_stored() {
    let (fixture, disk) = on_a_small_disk();
    let path = fixture.mountpoint.join("file");
    fs::write(&path, noise(300_000, 1)).unwrap();
    let before = fixture.commit_hot()["record"].clone();
    let mut open = fs::File::create(&path).unwrap();
    open.write_all(&noise(300_000, 2)).unwrap();
    disk.fill_but(0);
    let refused = fixture.ask("commit", &["--mode", "hot"]);
    assert_eq!(refused.code, Some(6), "{refused:#?}");
    let error = &refused.document["error"];
    assert!(error["message"].as_str().unwrap().contains("No space left"), "{refused:#?}");
    assert!(error["hint"].as_str().unwrap().contains("make room"), "{refused:#?}");
    assert_eq!(fixture.host.succeed(["show", ALICE])["record"], before);
    assert!(fs::read(&path).unwrap() == noise(300_000, 2));

    disk.relieve();
    open.write_all(b"and more").unwrap();
    assert_eq!(fixture.commit_hot()["pointer"], "flipped");
    let (out, _) = restored(&fixture, "out");
    assert!(fs::read(out.join("file")).unwrap() == [&noise(300_000, 2)[..], b"and more"].concat());
    drop(open);
    fixture.unmount(&[]);
    fixture.host.verify(ALICE, &["--read-data"]);
}

#[test]
fn a_disk_that_gets_full_while_a_commit_is_under_way_keeps_the_session_from_nothing() {
    let (fixture, disk) = on_a_small_disk();
    let path = fixture.mountpoint.join("large");
    fs::write(&path, noise(32 << 20, 1)).unwrap();
    let session = fs::read_dir(disk.path().join("sessions")).unwrap().next().unwrap().unwrap().path();
    let mut committing =
        fixture.host.start(["commit", fixture.mountpoint.to_str().unwrap(), "--mode", "hot"]);
    let room = session.join("journal.new");
    while committing.runs() && !room.exists() {
        std::thread::yield_now();
    }
    assert!(room.exists(), "no room was set aside");
    disk.fill_but(0);
    let ended = committing.wait();
    assert_eq!((ended.code, &ended.document["pointer"]), (Some(0), &"flipped".into()), "{ended:#?}");
    let status = fixture.host.succeed(["mounts"])["mounts"][0].clone();
    assert_eq!(status["dirty"], false, "{status:#}");
    disk.relieve();
    fs::write(&path, "small").unwrap();
    fixture.commit_hot();
    let (out, _) = restored(&fixture, "out");
    assert_eq!(fs::read_to_string(out.join("large")).unwrap(), "small");
    fixture.unmount(&[]);
}

#[test]
fn a_capture_of_a_running_browser_is_refused_where_it_cannot_be_had() {
    let fixture = MountFixture::hot();
    let (plain, place) = (fixture.place("plain"), fixture.mountpoint.to_str().unwrap());
    let hot = ["--chrome-major", "131", "--mode", "hot"];
    let snapshot = |directory| [&["snapshot", directory, ALICE][..], &hot].concat();
    let refused = fixture.host.fail(30, snapshot(plain.to_str().unwrap()));
    assert_says(&refused, "docs/hot-mode.md");
    // A tenant that loads none would start the next session with an empty profile.
    let cold = fixture.another("cold");
    fixture.mount_as(&cold, &[]);
    fs::write(fixture.mountpoint.join("file"), "content").unwrap();
    let refused = cold.fail(30, ["commit", place, "--mode", "hot"]);
    assert!(refused["hint"].as_str().unwrap().contains("modes"), "{refused:#}");
    cold.fail(30, ["unmount", place, "--commit", "--mode", "hot"]);
    cold.succeed(["unmount", place, "--commit"]);

    // The mount by its directory, as any other is named.
    fixture.mount();
    fs::write(fixture.mountpoint.join("file"), "other content").unwrap();
    let stored = fixture.host.succeed(snapshot(place));
    assert_eq!((&stored["pointer"], stored["frozen_ms"].is_f64()), (&"flipped".into(), true), "{stored:#}");
    assert_eq!(fixture.host.succeed(["show", ALICE])["mode"], "hot");
    fixture.unmount(&[]);
}
