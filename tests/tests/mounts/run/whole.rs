//! These tests run on profiles with damaged databases: a run finds a profile whose databases were examined and are
//! whole, or an empty one with the reason; on a mount as on a copy.

use std::{fs, path::Path};

use rusqlite::Connection;
use serde_json::Value;
use tests::mount_fixture::ALICE;

use super::RunDesk;

const HELD_BACK: i32 = 29;

fn make_database(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let open = Connection::open(path).unwrap();
    open.execute_batch("CREATE TABLE cookies (host TEXT); INSERT INTO cookies VALUES ('a'), ('b')").unwrap();
}

fn tear(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[4096 + 8..4096 + 64].fill(0xff);
    fs::write(path, bytes).unwrap();
}

/// Captures a profile of one database, torn or not.
fn captured(fixture: &RunDesk, is_torn: bool, options: &[&str]) -> (i32, Value) {
    let profile = fixture.fixture.path("profile");
    let database = profile.join("Default/Cookies");
    let _ = fs::remove_dir_all(&profile);
    make_database(&database);
    fs::write(profile.join("file"), if is_torn { "torn" } else { "whole" }).unwrap();
    if is_torn {
        tear(&database);
    }
    captured_again(fixture, options)
}

/// Captures the same profile once more.
fn captured_again(fixture: &RunDesk, options: &[&str]) -> (i32, Value) {
    let profile = fixture.fixture.path("profile");
    let words = ["snapshot", profile.to_str().unwrap(), ALICE, "--chrome-major", "131"];
    let ended = fixture.host.run([&words, options].concat());
    (ended.code.unwrap(), ended.document)
}

/// Makes a profile with a damaged database the current one.
pub(super) fn capture_torn(fixture: &RunDesk) {
    assert_eq!(captured(fixture, true, &["--allow-damaged"]).0, 0);
}

/// What runs on a mount and on a copy make of the current snapshot; they change nothing.
#[track_caller]
fn loads(fixture: &RunDesk, expected: &str) {
    for options in [&[][..], &["--copy"]] {
        let ended = fixture.run(options, "ls $0");
        assert_eq!(
            (ended.code, &ended.document["load"]),
            (Some(0), &expected.into()),
            "{options:?} {ended:#?}"
        );
        let shown = ended.stderr.lines().any(|line| line == "file");
        assert_eq!(shown, expected == "success", "{options:?} {ended:#?}");
    }
}

#[test]
fn a_run_starts_afresh_if_a_database_is_known_to_be_damaged() {
    let fixture = RunDesk::new();
    captured(&fixture, false, &[]);
    loads(&fixture, "success");
    let (code, torn) = captured(&fixture, true, &["--allow-damaged"]);
    assert_eq!((code, &torn["pointer"]), (0, &"flipped".into()), "{torn:#}");
    loads(&fixture, "integrity_failed");
    fixture.host.fail(33, ["run", ALICE, "--require", "--", "true"]);
    let place = fixture.fixture.mountpoint.to_str().unwrap();
    fixture.host.fail(33, ["mount", ALICE, place, "--require"]);
    let mounted = fixture.host.succeed(["mount", "--fork", ALICE, place]);
    assert_eq!(mounted["fallback"], "integrity_failed", "{mounted:#}");
    fixture.host.succeed(["unmount", place]);
    // Whoever only looks sees it, and is warned.
    let mounted = fixture.host.succeed(["mount", "--read-only", ALICE, place]);
    let warned = mounted["warnings"].as_array().unwrap().iter();
    assert!(warned.clone().any(|said| said.as_str().unwrap().contains("Default/Cookies")), "{mounted:#}");
    assert_eq!(fs::read(fixture.fixture.mountpoint.join("file")).unwrap(), b"torn");
    fixture.host.succeed(["unmount", place]);
}

#[test]
fn a_run_examines_the_databases_that_nobody_has_examined_before_it_starts() {
    let fixture = RunDesk::new();
    captured(&fixture, false, &["--check", "none"]);
    loads(&fixture, "success");
    let (code, torn) = captured(&fixture, true, &["--check", "none"]);
    assert_eq!((code, &torn["pointer"]), (0, &"flipped".into()), "{torn:#}");
    loads(&fixture, "integrity_failed");
}

#[test]
fn what_a_mount_has_examined_is_known_of_what_is_committed_on_it() {
    let fixture = RunDesk::new();
    captured(&fixture, false, &["--check", "none"]);
    fixture.succeed("echo more > $0/more");
    let health = fixture.host.succeed(["show", ALICE])["health"].clone();
    assert_eq!(
        (&health["depth"], &health["damaged"]),
        (&"full".into(), &Value::Array(Vec::new())),
        "{health:#}"
    );
    // A capture looks at what has not changed, too, if nobody has before.
    captured(&fixture, true, &["--check", "none"]);
    fs::write(fixture.fixture.path("profile/another"), "").unwrap();
    let (code, held) = captured_again(&fixture, &[]);
    assert_eq!((code, &held["held_back"]), (HELD_BACK, &"damaged".into()), "{held:#}");
}

#[test]
fn a_tree_that_was_held_back_as_damaged_does_not_become_current_by_not_looking_at_it() {
    let fixture = RunDesk::new();
    captured(&fixture, false, &[]);
    let good = fixture.current();
    assert_eq!(captured(&fixture, true, &[]).0, HELD_BACK);
    let (code, again) = captured_again(&fixture, &["--check", "none"]);
    assert_eq!((code, &again["held_back"]), (HELD_BACK, &"damaged".into()), "{again:#}");
    assert_eq!(fixture.current(), good);
    loads(&fixture, "success");
    assert_eq!(captured_again(&fixture, &["--check", "none", "--allow-damaged"]).0, 0);
    assert_ne!(fixture.current(), good);
}

#[test]
fn the_first_runs_of_a_newer_chrome_are_kept_though_they_start_afresh() {
    for options in [&[][..], &["--copy"]] {
        let fixture = RunDesk::new();
        fixture.succeed("echo of 131 > $0/file");
        let newer = |script: &str| {
            let command = ["--", "sh", "-c", script, "{profile}"];
            let ended =
                fixture.host.run([&["run", ALICE, "--chrome-major", "132"], options, &command].concat());
            assert_eq!(
                (ended.code, &ended.document["snapshot_failed"]),
                (Some(0), &false.into()),
                "{ended:#?}"
            );
            ended.document["load"].as_str().unwrap().to_owned()
        };
        assert_eq!(newer("[ ! -e $0/file ] && echo of 132 > $0/file"), "version_mismatch");
        assert_eq!(newer("grep -q 132 $0/file"), "success");
        fixture.succeed("grep -q 131 $0/file");
    }
}
