//! Copies that killed runs have left: listed, stored where nobody went past them, discarded.

use std::fs;

use serde_json::Value;
use tests::mount::ALICE;

use super::RunDesk;

/// A run on a copy whose command ends it as nothing can be prepared for.
#[track_caller]
fn left(desk: &RunDesk, script: &str) -> (String, String) {
    let killed = desk.run(&["--copy"], &format!("{script}; kill -9 $PPID"));
    assert_eq!(killed.code, None, "{killed:#?}");
    let copies = listed(desk);
    let copy = copies.last().unwrap();
    for (field, value) in [("tenant_id", "acme"), ("profile_id", "alice")] {
        assert_eq!(copy[field], value, "{copies:#?}");
    }
    assert_eq!(copy["chrome_major_version"], 131, "{copies:#?}");
    let text = |field: &str| copy[field].as_str().unwrap().to_owned();
    (text("copy"), text("path"))
}

fn listed(desk: &RunDesk) -> Vec<Value> {
    desk.host.succeed(["sessions"])["copies"].as_array().unwrap().clone()
}

#[test]
fn a_copy_that_a_killed_run_left_replaces_only_the_snapshot_that_it_was_made_of() {
    let desk = RunDesk::new();
    desk.succeed("echo one > $0/file");
    let (id, path) = left(&desk, "echo two > $0/file");
    let store = ["snapshot", &path, ALICE, "--chrome-major", "131"];

    // Somebody else goes on from the same snapshot.
    let other = desk.succeed("echo three > $0/other");
    let error = desk.host.fail(26, store);
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("--force") && hint.contains("acme/ANOTHER"), "{error:#}");
    let shown = desk.host.succeed(["show", ALICE]);
    assert_eq!(shown["record"], other["snapshot"]["record"], "{shown:#}");
    desk.host.succeed(["snapshot", &path, "acme/another", "--chrome-major", "131"]);
    desk.host.succeed([&store[..], &["--force"]].concat());

    // It goes when somebody says so, and not before.
    let asked = desk.host.fail(2, ["sessions", "discard", &id]);
    assert!(asked["hint"].as_str().unwrap().contains("--confirm"), "{asked:#}");
    assert_eq!(fs::read_to_string(format!("{path}/file")).unwrap(), "two\n");
    desk.host.succeed(["sessions", "discard", &id, "--confirm"]);
    assert!(listed(&desk).is_empty() && !fs::exists(&path).unwrap());

    // One that nobody went past is stored without a question.
    let (_, path) = left(&desk, "echo four > $0/file");
    let stored = desk.host.succeed(["snapshot", &path, ALICE, "--chrome-major", "131"]);
    assert_eq!(stored["outcome"], "stored", "{stored:#}");
}
