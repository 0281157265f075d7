//! These tests end mounts that have changes in them: the daemon is asked to end or killed, or the mount is taken away.
//! The next mount goes on from there, or the session is rescued or discarded.

use std::{fs, process::Command};

use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{
    binary::assert_says,
    mount_fixture::{ALICE, MountFixture, await_end, left_behind},
    tree::{assert_seen, look_at, noise},
};

use super::mount::filled;

/// Ends a mount with changes in it in some way, and has the next one go on from there.
fn goes_on_after(end: impl FnOnce(&MountFixture, &Value)) -> MountFixture {
    let fixture = filled();
    let mounted = fixture.mount();
    fs::write(fixture.mountpoint.join("Default/History"), noise(100_000, 9)).unwrap();
    fs::create_dir(fixture.mountpoint.join("new")).unwrap();
    fs::rename(fixture.mountpoint.join("Local State"), fixture.mountpoint.join("new/state")).unwrap();
    let made = look_at(&fixture.mountpoint);
    end(&fixture, &mounted);
    await_end(&mounted);
    assert_eq!(fixture.host.succeed(["mounts"])["mounts"], json!([]));
    let sessions = fixture.sessions();
    assert_eq!((sessions.len(), &sessions[0]["session"]), (1, &mounted["session"]));

    let again = fixture.mount();
    assert_eq!((&again["resumed"], &again["session"]), (&true.into(), &mounted["session"]));
    assert_seen(&made, &fixture.mountpoint);
    fixture.unmount(&["--commit"]);
    let target = fixture.path("restored");
    fixture.host.restore(ALICE, &target);
    assert_seen(&made, &target);
    fixture
}

#[test]
fn a_daemon_that_is_asked_to_end_keeps_the_changes() {
    goes_on_after(|fixture, mounted| {
        fixture.signal(mounted, Signal::TERM);
        assert!(!fixture.is_mounted(&fixture.mountpoint));
    });
}

#[test]
fn a_daemon_that_is_killed_loses_nothing_and_its_mount_is_cleaned_up() {
    goes_on_after(|fixture, mounted| {
        fixture.kill(mounted);
        assert!(fixture.is_mounted(&fixture.mountpoint));
        assert!(fs::read_dir(&fixture.mountpoint).is_err());
    });
}

#[test]
fn a_mount_that_somebody_else_takes_away_keeps_the_changes() {
    goes_on_after(|fixture, _| {
        let done = Command::new("umount").arg(&fixture.mountpoint).status().unwrap();
        assert!(done.success());
    });
}

#[test]
fn a_daemon_without_changes_leaves_nothing_behind() {
    let fixture = filled();
    for signal in [Signal::TERM, Signal::KILL] {
        let mounted = fixture.mount();
        assert_eq!(mounted["resumed"], false);
        look_at(&fixture.mountpoint);
        fixture.signal(&mounted, signal);
        assert_eq!(fixture.sessions(), Vec::<Value>::new());
    }
    fixture.mount();
    fixture.unmount(&[]);
    assert_eq!(fixture.session_directories(), 0);
}

#[test]
fn a_mount_whose_caller_was_killed_before_it_was_ready_is_ended() {
    let fixture = filled();
    let acquire = ["lock", "acquire", ALICE, "--chrome-major", "131", "--run-id", "first"];
    let held = fixture.host.succeed(acquire);
    let mountpoint = fixture.mountpoint.to_str().unwrap();
    let mount = ["mount", ALICE, mountpoint, "--chrome-major", "131", "--wait", "300", "--run-id", "second"];
    let caller = fixture.host.start(mount);
    // It waits for the lock.
    let daemon = loop {
        if let [daemon] = left_behind(&fixture.path("")).0[..] {
            break json!({ "pid": daemon.as_raw_nonzero() });
        }
    };
    caller.kill();
    let token = held["token"].as_str().unwrap();
    fixture.host.succeed(["lock", "release", ALICE, "--chrome-major", "131", "--token", token]);
    await_end(&daemon);
    assert!(!fixture.is_mounted(&fixture.mountpoint));
    fixture.host.succeed(acquire);
}

/// A fixture with one session that was cut short and that nothing goes on from.
fn cut_short() -> (MountFixture, String) {
    let fixture = filled();
    let mounted = fixture.mount();
    fs::write(fixture.mountpoint.join("Local State"), "unfinished").unwrap();
    fixture.kill(&mounted);
    let sessions = fixture.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:#?}");
    assert!(sessions[0]["dirty_bytes"].as_u64().unwrap() >= 10, "{sessions:#?}");
    let id = sessions[0]["session"].as_str().unwrap().to_owned();
    (fixture, id)
}

#[test]
fn a_session_that_was_cut_short_is_rescued_as_another_profile_or_as_its_own() {
    let (fixture, id) = cut_short();
    fixture.host.succeed(["sessions", "rescue", &id, "--as", "acme/rescued"]);
    assert_eq!(fixture.local_state("acme/rescued"), "unfinished");
    assert_eq!(fixture.local_state(ALICE), "{}");
    assert_eq!((fixture.sessions().len(), fixture.session_directories()), (0, 0));
    fixture.host.verify("acme/rescued", &["--read-data"]);

    let (fixture, id) = cut_short();
    fixture.host.succeed(["sessions", "rescue", &id[..12]]);
    assert_eq!(fixture.local_state(ALICE), "unfinished");
    assert_eq!(fixture.sessions().len(), 0);
}

#[test]
fn what_is_rescued_with_a_torn_database_does_not_become_current_by_itself() {
    let fixture = filled();
    let database = fixture.mountpoint.join("Default/Cookies");
    let mounted = fixture.mount();
    fs::create_dir_all(database.parent().unwrap()).unwrap();
    let open = rusqlite::Connection::open(&database).unwrap();
    open.execute_batch("CREATE TABLE cookies (host TEXT); INSERT INTO cookies VALUES ('a'), ('b')").unwrap();
    drop(open);
    let mut bytes = fs::read(&database).unwrap();
    bytes[4096 + 8..4096 + 64].fill(0xff);
    fs::write(&database, bytes).unwrap();
    fixture.kill(&mounted);
    let id = fixture.sessions()[0]["session"].as_str().unwrap().to_owned();
    let good = fixture.host.succeed(["show", ALICE])["record"].clone();
    let said = fixture.host.fail(29, ["sessions", "rescue", &id]);
    assert_says(&said, "Default/Cookies");
    assert_eq!(fixture.host.succeed(["show", ALICE])["record"], good);
    // It is stored, so that nothing is lost; and until somebody has decided, the session is there.
    let snapshots = fixture.host.succeed(["list", ALICE])["snapshots"].as_array().unwrap().clone();
    assert_eq!(snapshots.len(), 2, "{snapshots:#?}");
    assert_eq!(fixture.sessions()[0]["mountpoint"], fixture.mountpoint.to_str().unwrap());
    fixture.host.succeed(["sessions", "rescue", &id, "--allow-damaged"]);
    assert_ne!(fixture.host.succeed(["show", ALICE])["record"], good);
    assert_eq!((fixture.sessions().len(), fixture.session_directories()), (0, 0));
}

#[test]
fn a_session_that_was_cut_short_is_discarded_only_when_that_is_confirmed() {
    let (fixture, id) = cut_short();
    fixture.host.fail(2, ["sessions", "discard", &id]);
    assert_eq!(fixture.sessions().len(), 1);
    fixture.host.succeed(["sessions", "discard", &id, "--confirm"]);
    assert_eq!((fixture.sessions().len(), fixture.session_directories()), (0, 0));
    let mounted = fixture.mount();
    assert_eq!(mounted["resumed"], false);
    assert_eq!(fs::read(fixture.mountpoint.join("Local State")).unwrap(), b"{}");
    fixture.unmount(&[]);
}

#[test]
fn a_session_that_others_have_gone_past_is_not_continued_but_can_be_rescued() {
    let (fixture, id) = cut_short();
    // Its lock is nobody's on another host until it has expired; here it is taken away.
    let other = fixture.another("two");
    other.succeed(["force-unlock", ALICE, "--reason", "the daemon is dead", "--confirm"]);
    let place = fixture.place("elsewhere");
    let shown = place.to_str().unwrap();
    other.succeed(["mount", ALICE, shown]);
    fs::write(place.join("Local State"), "gone past").unwrap();
    other.succeed(["unmount", shown, "--commit"]);

    let words = ["mount", ALICE, fixture.mountpoint.to_str().unwrap()];
    assert_says(&fixture.host.fail(26, words), &id);
    fixture.host.fail(26, ["sessions", "rescue", &id]);
    fixture.host.fail(26, ["sessions", "rescue", &id, "--as", ALICE]);
    fixture.host.succeed(["sessions", "rescue", &id, "--as", "acme/rescued"]);
    assert_eq!(fixture.local_state("acme/rescued"), "unfinished");
    assert_eq!(fixture.local_state(ALICE), "gone past");
}
