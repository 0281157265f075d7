//! These tests run commands on a mount with `pstore run`: what they change becomes the next snapshot, and nothing
//! is lost however they end.

mod left;
mod upgrade;
mod whole;

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use tests::{
    binary::{Ended, Host, Running},
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

/// A fixture whose runs have their places in a directory of its own.
struct RunDesk {
    fixture: MountFixture,
    host: Host,
}

impl RunDesk {
    fn new() -> Self {
        let fixture = MountFixture::local();
        let tmp = fixture.place("tmp");
        let host = fixture.host.clone().with("TMPDIR", tmp.to_str().unwrap());
        Self { fixture, host }
    }

    /// A script that finds the profile in `$0`.
    fn start(&self, options: &[&str], script: &str) -> Running {
        let command = ["--", "sh", "-c", script, "{profile}"];
        self.host.start([&["run", ALICE, "--chrome-major", "131"], options, &command].concat())
    }

    fn run(&self, options: &[&str], script: &str) -> Ended {
        self.start(options, script).wait()
    }

    #[track_caller]
    fn succeed(&self, script: &str) -> Value {
        let ended = self.run(&[], script);
        assert_eq!((ended.code, &ended.document["mounted"]), (Some(0), &true.into()), "{ended:#?}");
        assert_eq!(ended.document["snapshot_failed"], false, "{ended:#?}");
        ended.document
    }

    /// Nothing is mounted, locked or left lying about.
    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(self.host.succeed(["mounts"])["mounts"].as_array().unwrap().len(), 0);
        assert_eq!(fs::read_dir(self.fixture.path("tmp")).unwrap().count(), 0);
        assert_eq!(self.host.succeed(["lock", "show", ALICE])["state"], "free");
    }

    /// Waits until the script has made this file.
    #[track_caller]
    fn await_file(&self, name: &str, running: &mut Running) -> PathBuf {
        let (path, began) = (self.fixture.path(name), Instant::now());
        while !path.exists() {
            assert!(running.runs() && began.elapsed() < Duration::from_secs(60), "no {name}");
            thread::sleep(Duration::from_millis(10));
        }
        path
    }

    fn current(&self) -> Value {
        self.host.succeed(["show", ALICE])["record"].clone()
    }
}

/// A script that says where its profile is, and waits until it is told to go on.
fn waiting(fixture: &RunDesk, before: &str) -> String {
    let (at, go) = (fixture.fixture.path("at"), fixture.fixture.path("go"));
    let (at, go) = (at.display(), go.display());
    format!(
        "{before}; echo $0 > {at}.new && mv {at}.new {at}; while [ ! -e {go} ] && [ -e $0/here ]; do sleep 0.02; done"
    )
}

#[test]
fn what_a_command_changes_on_its_mount_is_there_in_the_next_run_on_any_host() {
    let fixture = RunDesk::new();
    let first = fixture.succeed("mkdir $0/Default && echo one > $0/Default/file");
    assert_eq!((&first["load"], &first["session"]), (&"no_prior_state".into(), &Value::Null), "{first:#}");
    fixture.is_clean();
    let second = fixture.succeed("[ $(cat $0/Default/file) = one ] && echo two >> $0/Default/file");
    assert_eq!((&second["load"], &second["snapshot"]["outcome"]), (&"success".into(), &"stored".into()));
    let other = fixture.fixture.another("two");
    let out = fixture.fixture.path("out");
    other.restore(ALICE, &out);
    assert_eq!(fs::read_to_string(out.join("Default/file")).unwrap(), "one\ntwo\n");
    let third = fixture.succeed("cat $0/Default/file");
    assert_eq!(third["snapshot"]["outcome"], "unchanged", "{third:#}");
    assert_eq!(third["snapshot"]["snapshot_id"], second["snapshot"]["snapshot_id"]);
    fixture.is_clean();
    assert_eq!(fixture.fixture.session_directories(), 0);
}

#[test]
fn a_run_that_was_killed_is_continued_by_the_next_with_all_it_had_changed() {
    let fixture = RunDesk::new();
    fixture.succeed("echo one > $0/file; touch $0/here");
    let mut running = fixture.start(&[], &waiting(&fixture, "echo two >> $0/file"));
    let at = fixture.await_file("at", &mut running);
    assert_eq!(running.kill().code, None);
    let place = fs::read_to_string(at).unwrap();
    // Whatever still uses it is told that nobody answers.
    assert!(fs::read_dir(place.trim()).is_err());

    let ended = fixture.run(&["--wait", "600"], "cat $0/file; echo three >> $0/file");
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("was cut short and is continued"), "{ended:#?}");
    assert!(ended.stderr.contains("one\ntwo\n"), "{ended:#?}");
    assert_eq!((&ended.document["load"], &ended.document["session"]), (&"success".into(), &Value::Null));
    let out = fixture.fixture.path("out");
    fixture.host.restore(ALICE, &out);
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "one\ntwo\nthree\n");
    // The mount of the one that was killed is gone, too, and the directory it was on.
    assert!(!Path::new(place.trim()).exists());
    assert_eq!(fixture.fixture.session_directories(), 0);
}

/// A commit whose archive was on its way is finished with it, or not at all.
#[test]
fn a_run_that_was_killed_while_it_published_leaves_no_pointer_without_an_archive() {
    let mut fixture = RunDesk::new();
    fixture.host = fixture.host.with("PSTORE_ARCHIVE", "always");
    fixture.succeed("echo one > $0/file");
    let mut running = fixture.start(&[], "head -c 40000000 /dev/urandom > $0/large");
    let publishes = || find(&fixture.fixture.path(""), "pstore-publish-");
    while running.runs() && !publishes() {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(running.kill().code, None);
    let objects = fixture.fixture.path("store/objects");
    let check = format!(
        "[ -s $0/large ] && cd {0} && [ -s $(grep -o 'snapshots/[^\"]*.tar.zst' {0}/snapshots/acme/alice/131/latest.json | head -n 1) ]",
        objects.display()
    );
    let ended = fixture.run(&["--wait", "600"], &check);
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("was cut short and is continued"), "{ended:#?}");
    fixture.host.verify(ALICE, &[]);
}

/// Whether something is below it whose name starts like this.
fn find(directory: &Path, start: &str) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| {
        entry.file_name().to_string_lossy().starts_with(start)
            || entry.file_type().is_ok_and(|kind| kind.is_dir()) && find(&entry.path(), start)
    })
}

#[test]
fn a_run_is_seen_among_the_mounts_can_be_committed_and_is_not_unmounted_by_others() {
    let fixture = RunDesk::new();
    let mut running = fixture.start(&[], &waiting(&fixture, "echo one > $0/file; touch $0/here"));
    let place = fs::read_to_string(fixture.await_file("at", &mut running)).unwrap();
    let place = place.trim();
    let mounts = fixture.host.succeed(["mounts"]);
    assert_eq!(
        (&mounts["mounts"][0]["mountpoint"], &mounts["mounts"][0]["dirty"]),
        (&place.into(), &true.into())
    );
    for how in ["--commit", "--discard", "--keep"] {
        let error = fixture.host.fail(32, ["unmount", place, how]);
        assert!(
            error["message"].as_str().unwrap().contains("is there for the command of `pstore run`"),
            "{error}"
        );
    }
    let refused = fixture.host.fail(24, ["run", ALICE, "--chrome-major", "131", "--", "true"]);
    assert!(refused["message"].as_str().unwrap().contains("locked"), "{refused:#}");
    let committed = fixture.host.succeed(["commit", place, "--no-stop"]);
    fs::write(fixture.fixture.path("go"), "").unwrap();
    let ended = running.wait();
    assert_eq!(
        (ended.code, &ended.document["snapshot"]["outcome"]),
        (Some(0), &"unchanged".into()),
        "{ended:#?}"
    );
    assert_eq!(fixture.current(), committed["record"]);
    fixture.is_clean();
}

#[test]
fn a_run_whose_lock_is_taken_away_keeps_what_it_changed_and_moves_nothing() {
    let fixture = RunDesk::new();
    fixture.succeed("echo one > $0/file; touch $0/here");
    let good = fixture.current();
    let impatient = fixture.host.clone().with("PSTORE_LOCK_RENEW_SECONDS", "1");
    let script = waiting(&fixture, "echo mine > $0/file");
    let mut running =
        impatient.start(["run", ALICE, "--chrome-major", "131", "--", "sh", "-c", &script, "{profile}"]);
    fixture.await_file("at", &mut running);
    fixture.host.succeed(["force-unlock", ALICE, "--reason", "test", "--confirm"]);
    let ended = running.wait();
    assert_eq!((ended.code, &ended.document["lock_lost"]), (Some(25), &true.into()), "{ended:#?}");
    assert_eq!(ended.document["snapshot"], Value::Null);
    let session = ended.document["session"].as_str().unwrap();
    assert!(ended.stderr.contains(session), "{ended:#?}");
    assert_eq!(fixture.current(), good);
    fixture.is_clean();
    fixture.host.succeed(["sessions", "rescue", session, "--as", "acme/rescued"]);
    let out = fixture.fixture.path("out");
    fixture.host.restore("acme/rescued", &out);
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "mine\n");
}

#[test]
fn a_run_that_cannot_start_its_command_leaves_nothing() {
    let fixture = RunDesk::new();
    fixture.succeed("echo one > $0/file");
    let good = fixture.current();
    let error = fixture.host.fail(6, ["run", ALICE, "--", "/nowhere/to/be/found"]);
    assert!(error["message"].as_str().unwrap().contains("cannot be started"), "{error:#}");
    assert_eq!((fixture.current(), fixture.fixture.session_directories()), (good, 0));
    fixture.is_clean();
}

#[test]
fn a_command_that_somebody_unmounts_the_profile_from_loses_nothing() {
    let fixture = RunDesk::new();
    let mut running = fixture.start(&[], &waiting(&fixture, "echo one > $0/file; touch $0/here"));
    let place = fs::read_to_string(fixture.await_file("at", &mut running)).unwrap();
    // While somebody has it open, the file system goes on, and nobody who opens the directory gets there.
    let held = fs::File::open(place.trim()).unwrap();
    rustix::mount::unmount(place.trim(), rustix::mount::UnmountFlags::DETACH).unwrap();
    fs::write(fixture.fixture.path("go"), "").unwrap();
    let ended = running.wait();
    drop(held);
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(0), &true.into()), "{ended:#?}");
    assert!(ended.document["session"].is_string(), "{ended:#?}");
    let ended = fixture.run(&[], "cat $0/file");
    assert!(ended.code == Some(0) && ended.stderr.contains("one\n"), "{ended:#?}");
    fixture.is_clean();
}

#[test]
fn a_session_that_had_started_afresh_never_becomes_current_by_itself_also_when_it_is_continued() {
    let fixture = RunDesk::new();
    whole::capture_torn(&fixture);
    let current = fixture.current();
    let mut running = fixture.start(&[], &waiting(&fixture, "[ ! -e $0/file ] && touch $0/here"));
    fixture.await_file("at", &mut running);
    let killed = running.kill();
    assert!(killed.stderr.contains("integrity_failed: starting with an empty profile"), "{killed:#?}");
    let ended = fixture.run(&["--wait", "600"], "[ -e $0/here ]");
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(0), &true.into()), "{ended:#?}");
    assert_eq!(ended.document["snapshot"]["held_back"], "fallback", "{ended:#?}");
    assert_eq!(fixture.current(), current);
}

#[test]
fn a_copy_is_warned_of_changes_that_are_not_in_it() {
    let fixture = RunDesk::new();
    fixture.succeed("echo one > $0/file");
    let mounted = fixture.fixture.mount_as(&fixture.host, &[]);
    fs::write(fixture.fixture.mountpoint.join("file"), "two").unwrap();
    fixture.fixture.kill(&mounted);
    let ended = fixture.run(&["--copy", "--wait", "600"], "cat $0/file");
    assert_eq!((ended.code, &ended.document["mounted"]), (Some(0), &false.into()), "{ended:#?}");
    let words = "has changes to acme/alice that are not committed and not in the copy";
    assert!(ended.stderr.contains("one\n") && ended.stderr.contains(words), "{ended:#?}");
}

#[test]
fn a_profile_that_grew_too_large_on_its_mount_is_not_captured_and_not_lost() {
    let fixture = RunDesk::new();
    fixture.succeed("mkdir $0/Default; echo one > $0/Default/file");
    fs::write(fixture.fixture.path("large"), noise(2_000_000, 1)).unwrap();
    let script = format!("cp {} $0/Default/large", fixture.fixture.path("large").display());
    let limited = fixture.host.clone().with("PSTORE_MAX_PROFILE_BYTES", "1000000");
    let ended = limited.run(["run", ALICE, "--require", "--", "sh", "-c", &script, "{profile}"]);
    assert_eq!(
        (ended.code, &ended.document["snapshot_error"]["kind"]),
        (Some(31), &"profile_too_large".into()),
        "{ended:#?}"
    );
    assert!(ended.document["snapshot_error"]["message"].as_str().unwrap().contains("Default"), "{ended:#?}");
    let document = fixture.succeed("rm $0/Default/large");
    assert_eq!(document["snapshot"]["files"], 1, "{document:#}");
}

#[test]
fn what_a_commit_replaces_goes_as_the_rules_say() {
    let fixture = RunDesk::new();
    let settings = fixture.fixture.path("pstore.toml");
    fs::write(&settings, "[tenants.acme.retention]\nkeep = \"one\"\n").unwrap();
    let host = fixture.host.clone().with("PSTORE_CONFIG", settings.to_str().unwrap());
    for round in 0..3 {
        let script = format!("echo {round} > $0/file");
        host.succeed(["run", ALICE, "--chrome-major", "131", "--", "sh", "-c", &script, "{profile}"]);
    }
    let listed = host.succeed(["list", ALICE]);
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 1, "{listed:#}");
}

#[test]
fn runs_that_wait_on_one_host_follow_each_other_and_nothing_is_lost() {
    let fixture = RunDesk::new();
    fixture.succeed("touch $0/here $0/file");
    let mut first = fixture.start(&[], &waiting(&fixture, "echo 0 >> $0/file"));
    fixture.await_file("at", &mut first);
    let mut waiters = Vec::new();
    for number in 1..=4 {
        let mut waiter = fixture.start(&["--wait", "600"], &format!("echo {number} >> $0/file"));
        waiter.await_stderr("waiting up to 600 s for acme/alice, held since");
        waiters.push(waiter);
    }
    fs::write(fixture.fixture.path("go"), "").unwrap();
    for ended in std::iter::once(first).chain(waiters).map(Running::wait) {
        assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(0), &false.into()), "{ended:#?}");
    }
    let out = fixture.fixture.path("out");
    fixture.host.restore(ALICE, &out);
    // In the order in which they came.
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "0\n1\n2\n3\n4\n");
    fixture.is_clean();
}

#[test]
fn who_waits_continues_the_session_of_a_holder_that_died_meanwhile() {
    let fixture = RunDesk::new();
    fixture.succeed("touch $0/here; echo one > $0/file");
    let mut first = fixture.start(&[], &waiting(&fixture, "echo two >> $0/file"));
    fixture.await_file("at", &mut first);
    let mut waiter = fixture.start(&["--wait", "600"], "cat $0/file; echo three >> $0/file");
    waiter.await_stderr("waiting up to 600 s");
    assert_eq!(first.kill().code, None);
    let ended = waiter.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("was cut short and is continued"), "{ended:#?}");
    let out = fixture.fixture.path("out");
    fixture.host.restore(ALICE, &out);
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "one\ntwo\nthree\n");
    assert_eq!(fixture.fixture.session_directories(), 0);
}
