//! These tests save the work in progress of mounts, end their hosts, and go on from what was saved.

use std::{
    fs,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::Value;
use tests::{
    binary::{Host, assert_says, program},
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

const PATIENCE: Duration = Duration::from_secs(60);
const WIP: &str = "acme/alice@wip";

/// A profile of one snapshot, of a tenant that may load snapshots of running browsers.
fn filled() -> MountFixture {
    let fixture = MountFixture::hot();
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("Local State"), "{}").unwrap();
    fs::write(source.join("History"), noise(200_000, 1)).unwrap();
    fixture.host.snapshot(&source, ALICE);
    fixture
}

/// A host that has nothing of the first, which is gone.
fn next_host(fixture: &MountFixture) -> Host {
    let host = fixture.another("two").with("PSTORE_MODES", "cold,hot");
    host.succeed(["force-unlock", ALICE, "--reason", "the host is gone", "--confirm"]);
    host
}

/// What the file says in a snapshot, if that has it.
fn notes(host: &Host, snapshot: &str) -> Option<String> {
    let mut command = Command::new(program());
    host.prepare(&mut command);
    let ended = command.args(["cat", snapshot, "notes"]).output().unwrap();
    ended.status.success().then(|| String::from_utf8(ended.stdout).unwrap())
}

/// Writes `text` to a file of the mount, and waits until a work in progress has it. Its record.
#[track_caller]
fn saved(fixture: &MountFixture, text: &str) -> Value {
    fs::write(fixture.mountpoint.join("notes"), text).unwrap();
    let began = Instant::now();
    loop {
        if notes(&fixture.host, WIP).as_deref() == Some(text) {
            return fixture.host.succeed(["show", WIP])["record"].clone();
        }
        assert!(began.elapsed() < PATIENCE, "{text:?} is not saved");
        thread::sleep(Duration::from_millis(50));
    }
}

fn snapshots(host: &Host) -> Vec<Value> {
    host.succeed(["list", ALICE])["snapshots"].as_array().unwrap().clone()
}

fn in_progress(host: &Host) -> usize {
    snapshots(host).iter().filter(|line| line["tags"].as_array().unwrap().contains(&"wip".into())).count()
}

fn current(host: &Host) -> Value {
    host.succeed(["show", ALICE])["record"].clone()
}

fn warnings(document: &Value) -> String {
    document["warnings"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

#[test]
fn what_is_saved_while_a_browser_runs_is_there_after_its_host_has_died() {
    let fixture = filled();
    let before = current(&fixture.host);
    let mounted = fixture.mount_as(&fixture.host, &["--autosave", "1s"]);
    let wip = saved(&fixture, "half done");
    assert_eq!(current(&fixture.host), before, "what is saved never becomes the current one");
    let record = fixture.host.succeed(["show", WIP]);
    assert_eq!((&record["mode"], &record["reason"]), (&"hot".into(), &"autosave".into()), "{record:#}");
    fixture.kill(&mounted);

    let host = next_host(&fixture);
    // Collections leave it alone.
    for _ in 0..2 {
        host.succeed(["gc", "acme", "--grace", "0", "--wait"]);
    }
    let told = fixture.mount_as(&host, &[]);
    let warned = warnings(&told);
    for words in ["did not end", " s old", "--from wip", "pstore delete acme/alice@wip --tagged"] {
        assert!(warned.contains(words), "{words} is not in {warned}");
    }
    assert!(!fixture.mountpoint.join("notes").exists());
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap()]);
    assert_eq!(in_progress(&host), 1, "who only looked has not decided about it");

    let mounted = fixture.mount_as(&host, &["--from", "wip"]);
    assert_eq!(warnings(&mounted), "");
    assert_eq!(fs::read_to_string(fixture.mountpoint.join("notes")).unwrap(), "half done");
    assert_eq!(current(&host), wip, "whoever goes on from it has made it the current one");
    assert_eq!(in_progress(&host), 0);
    host.fail(3, ["show", WIP]);
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap()]);
    host.verify(ALICE, &[]);
}

#[test]
fn a_run_has_one_work_in_progress_and_its_commit_ends_it() {
    let fixture = filled();
    fixture.mount_as(&fixture.host, &["--autosave", "1s"]);
    let first = saved(&fixture, "one");
    let second = saved(&fixture, "two");
    assert_ne!(first, second);
    let began = Instant::now();
    // The one before goes after the next is there; one that was just read, with a save after that.
    while snapshots(&fixture.host).len() > 2 {
        assert!(began.elapsed() < PATIENCE, "{:#?}", snapshots(&fixture.host));
        fs::write(fixture.mountpoint.join("more"), format!("{:?}", began.elapsed())).unwrap();
        thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(in_progress(&fixture.host), 1);
    assert_says(&fixture.host.fail(2, ["tag", ALICE, "wip"]), "what a run has saved");

    fixture.commit();
    assert_eq!((in_progress(&fixture.host), snapshots(&fixture.host).len()), (0, 2));
    saved(&fixture, "three");
    fixture.unmount(&["--discard"]);
    assert_eq!((in_progress(&fixture.host), snapshots(&fixture.host).len()), (0, 2));
    let told = fixture.host.succeed(["log", ALICE]);
    let deletions = told["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "delete");
    assert_eq!(deletions.count(), 0, "{told:#}");
}

#[test]
fn a_mount_that_nobody_changes_saves_nothing() {
    let fixture = filled();
    fixture.mount_as(&fixture.host, &["--autosave", "1s"]);
    let wip = saved(&fixture, "and that is all");
    let objects = |folder: &str| fs::read_dir(fixture.path(folder)).unwrap().count();
    let stored =
        || [objects("store/objects/content/acme/packs"), objects("store/objects/snapshots/acme/alice/131")];
    let began = Instant::now();
    while snapshots(&fixture.host).len() > 2 {
        assert!(began.elapsed() < PATIENCE);
    }
    let before = stored();
    thread::sleep(Duration::from_millis(3500));
    assert_eq!(fixture.host.succeed(["show", WIP])["record"], wip);
    assert_eq!(stored(), before);
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_save_that_is_held_back_is_tried_again_when_something_has_changed() {
    let fixture = filled();
    fixture.mount_as(&fixture.host, &["--autosave", "1s"]);
    saved(&fixture, "whole");
    let kept = || fixture.host.succeed(["show", WIP])["record"].clone();
    let failures = || {
        let sessions = fs::read_dir(fixture.path("one/sessions")).unwrap();
        let logs =
            sessions.filter_map(|session| fs::read_to_string(session.unwrap().path().join("log")).ok());
        logs.map(|log| log.matches("could not be saved").count()).sum::<usize>()
    };
    let whole = fixture.path("database");
    let database = Connection::open(&whole).unwrap();
    database.execute_batch("CREATE TABLE rows(filler)").unwrap();
    for torn in 1..3 {
        for _ in 0..100 {
            database.execute("INSERT INTO rows VALUES (zeroblob(2000))", []).unwrap();
        }
        let bytes = fs::read(&whole).unwrap();
        fs::write(fixture.mountpoint.join("database"), &bytes[..bytes.len() / 2]).unwrap();
        let began = Instant::now();
        while failures() < torn {
            assert!(began.elapsed() < PATIENCE, "nothing is held back");
            thread::sleep(Duration::from_millis(50));
        }
        let wip = kept();
        thread::sleep(Duration::from_millis(3500));
        assert_eq!((failures(), kept()), (torn, wip));
    }
    fs::remove_file(fixture.mountpoint.join("database")).unwrap();
    saved(&fixture, "whole again");
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_save_costs_what_was_changed_since_the_one_before() {
    let fixture = filled();
    fixture.mount_as(&fixture.host, &["--autosave", "1s"]);
    fs::write(fixture.mountpoint.join("large"), noise(8 << 20, 2)).unwrap();
    let stored = || {
        let packs = fs::read_dir(fixture.path("store/objects/content/acme/packs")).unwrap();
        let folders: Vec<_> = packs.map(|entry| entry.unwrap().path()).collect();
        let files = folders.iter().flat_map(|path| match path.is_dir() {
            true => fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => vec![path.clone()],
        });
        files.map(|path| fs::metadata(path).unwrap().len()).sum::<u64>()
    };
    saved(&fixture, "one");
    let before = stored();
    assert!(before > 8 << 20);
    for text in ["two", "three", "four"] {
        saved(&fixture, text);
    }
    let more = stored() - before;
    assert!(more < 1 << 20, "{more} bytes are stored for three words");
    // What the saves have is not stored by the commit after them either.
    fixture.commit();
    assert!(stored() - before < 1 << 20);
    fixture.host.succeed(["gc", "acme", "--grace", "0", "--wait"]);
    fixture.host.verify(ALICE, &["--read-data", "--no-cache"]);
    let out = fixture.path("out");
    fixture.another("two").restore(ALICE, &out);
    assert_eq!(fs::read(out.join("large")).unwrap(), noise(8 << 20, 2));
    assert_eq!(fs::read_to_string(out.join("notes")).unwrap(), "four");
    fixture.unmount(&[]);
}

#[test]
fn work_that_another_run_has_gone_on_without_stays_and_is_not_told_of_again() {
    let fixture = filled();
    let mounted = fixture.mount_as(&fixture.host, &["--autosave", "1s"]);
    let left = saved(&fixture, "never finished");
    fixture.kill(&mounted);
    let host = next_host(&fixture);
    fixture.mount_as(&host, &[]);
    fs::write(fixture.mountpoint.join("other"), "done").unwrap();
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap(), "--commit"]);
    assert_eq!(host.succeed(["show", WIP])["record"], left);
    assert_ne!(host.succeed(["show", "acme/alice@latest~1"])["record"], left, "it was never current");
    let again = fixture.mount_as(&host, &[]);
    assert_eq!(warnings(&again), "");
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap()]);
    assert_says(
        &host.fail(3, ["mount", ALICE, fixture.mountpoint.to_str().unwrap(), "--from", "wip"]),
        "work in progress",
    );
}

#[test]
fn a_session_that_goes_on_where_it_was_needs_no_work_in_progress() {
    let fixture = filled();
    // Seldom enough that the daemon is not killed in the midst of the next save, which nobody would know of.
    let mounted = fixture.mount_as(&fixture.host, &["--autosave", "5s"]);
    saved(&fixture, "saved");
    fs::write(fixture.mountpoint.join("later"), "not saved").unwrap();
    fixture.kill(&mounted);
    let refused = fixture.host.fail(
        37,
        ["mount", ALICE, fixture.mountpoint.to_str().unwrap(), "--chrome-major", "131", "--from", "wip"],
    );
    assert_says(&refused, "later changes");
    let mounted = fixture.mount();
    assert!(!warnings(&mounted).contains("wip"), "{mounted:#}");
    assert_eq!(fs::read_to_string(fixture.mountpoint.join("later")).unwrap(), "not saved");
    fixture.unmount(&["--commit"]);
    assert_eq!(in_progress(&fixture.host), 0);
}

#[test]
fn work_in_progress_takes_no_place_of_a_snapshot_that_is_kept() {
    let fixture = filled();
    let rules = fixture.path("pstore.toml");
    fs::write(&rules, "[tenants.acme]\nretention.keep = 2\nmodes = [\"cold\", \"hot\"]\n").unwrap();
    let host = fixture.host.clone().with("PSTORE_CONFIG", rules.to_str().unwrap());
    let first = current(&host);
    fs::write(fixture.path("source/Local State"), "second").unwrap();
    host.snapshot(&fixture.path("source"), ALICE);
    fixture.mount_as(&host, &["--autosave", "1s"]);
    saved(&fixture, "half done");
    let planned = host.succeed(["retention", "apply", "acme"]);
    assert!(snapshots(&host).iter().any(|line| line["record"] == first), "{planned:#}");
    assert_eq!(host.succeed(["show", "acme/alice@latest~1"])["record"], first);
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_run_saves_its_work_and_the_next_one_goes_on_from_it() {
    let fixture = filled();
    // It ends with its mount.
    let script = "echo begun > \"$1/notes\"; while [ -e \"$1/notes\" ]; do sleep 0.1; done";
    let words = [
        "run",
        ALICE,
        "--chrome-major",
        "131",
        "--autosave",
        "1s",
        "--",
        "sh",
        "-c",
        script,
        "sh",
        "{profile}",
    ];
    // What it leaves is taken away with the fixture.
    let running = fixture.host.clone().with("TMPDIR", fixture.place("tmp").to_str().unwrap()).start(words);
    let began = Instant::now();
    while notes(&fixture.host, WIP).as_deref() != Some("begun\n") {
        assert!(began.elapsed() < PATIENCE, "it is not saved");
        thread::sleep(Duration::from_millis(50));
    }
    running.kill();
    let host = next_host(&fixture);
    let ended = host.run(["run", ALICE, "--copy", "--", "sh", "-c", "cat \"$1/notes\"", "sh", "{profile}"]);
    assert!(ended.stderr.contains("--from wip"), "{ended:#?}");
    let words = [
        "run",
        ALICE,
        "--from",
        "wip",
        "--",
        "sh",
        "-c",
        "cat \"$1/notes\"; echo done > \"$1/notes\"",
        "sh",
        "{profile}",
    ];
    let ended = host.run(words);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("begun"), "{ended:#?}");
    assert_eq!(in_progress(&host), 0);
    assert_eq!(notes(&host, ALICE).as_deref(), Some("done\n"));
}

#[test]
fn what_a_save_may_lack_is_told_once() {
    let (fixture, turns) = (filled(), tempfile::tempdir().unwrap());
    // Somebody writes there who is no browser that could be asked for its cookies.
    let script = "mkdir \"$1/Default\"; : > \"$1/Default/Cookies\"; exec 3> \"$1/open\"
        for text in one two; do echo $text > \"$1/notes\"; while [ ! -e \"$2/$text\" ]; do sleep 0.1; done; done";
    let words = ["run", ALICE, "--chrome-major", "131", "--autosave", "1s", "--", "sh", "-c", script, "sh"];
    let turn = turns.path().to_str().unwrap();
    let running = fixture.host.start([&words[..], &["{profile}", turn]].concat());
    for text in ["one", "two"] {
        let (began, line) = (Instant::now(), format!("{text}\n"));
        while notes(&fixture.host, WIP).as_ref() != Some(&line) {
            assert!(began.elapsed() < PATIENCE, "{text} is not saved");
            thread::sleep(Duration::from_millis(50));
        }
        fs::write(turns.path().join(text), "").unwrap();
    }
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    let told = ended.stderr.matches("cookies that were set in the last half minute may be missing").count();
    assert_eq!(told, 1, "{}", ended.stderr);
}

#[test]
fn work_is_saved_only_where_somebody_could_load_it() {
    let fixture = filled();
    let place = fixture.mountpoint.to_str().unwrap();
    let cold = fixture.another("one");
    let refused = cold.fail(30, ["mount", ALICE, place, "--autosave", "1m"]);
    assert_says(&refused, "running browser");
    cold.fail(30, ["run", ALICE, "--autosave", "1m", "--", "true"]);
    fixture.host.fail(2, ["mount", ALICE, place, "--fork", "--autosave", "1m"]);
    fixture.host.fail(2, ["mount", ALICE, place, "--read-only", "--from", "wip"]);
    fixture.host.fail(2, ["mount", ALICE, place, "--autosave", "0s"]);
    assert_says(&fixture.host.fail(3, ["mount", ALICE, place, "--from", "wip"]), "work in progress");
}
