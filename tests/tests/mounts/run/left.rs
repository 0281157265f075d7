//! These tests find copies that killed runs have left: listed, stored where nobody went past them, discarded.

use std::fs;

use serde_json::Value;
use tests::mount_fixture::ALICE;

use super::RunDesk;

/// A run on a copy whose command ends it as nothing can be prepared for.
#[track_caller]
fn left(fixture: &RunDesk, script: &str) -> (String, String) {
    let killed = fixture.run(&["--copy"], &format!("{script}; kill -9 $PPID"));
    assert_eq!(killed.code, None, "{killed:#?}");
    let copies = listed(fixture);
    let copy = copies.last().unwrap();
    for (field, value) in [("tenant_id", "acme"), ("profile_id", "alice")] {
        assert_eq!(copy[field], value, "{copies:#?}");
    }
    assert_eq!(copy["chrome_major_version"], 131, "{copies:#?}");
    let text = |field: &str| copy[field].as_str().unwrap().to_owned();
    (text("copy"), text("path"))
}

fn listed(fixture: &RunDesk) -> Vec<Value> {
    fixture.host.succeed(["sessions"])["copies"].as_array().unwrap().clone()
}

#[test]
fn a_copy_that_a_killed_run_left_replaces_only_the_snapshot_that_it_was_made_of() {
    let fixture = RunDesk::new();
    fixture.succeed("echo one > $0/file");
    let (id, path) = left(&fixture, "echo two > $0/file");
    let store = ["snapshot", &path, ALICE, "--chrome-major", "131"];

    // Somebody else goes on from the same snapshot.
    let other = fixture.succeed("echo three > $0/other");
    let error = fixture.host.fail(26, store);
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("--force") && hint.contains("acme/ANOTHER"), "{error:#}");
    let shown = fixture.host.succeed(["show", ALICE]);
    assert_eq!(shown["record"], other["snapshot"]["record"], "{shown:#}");
    fixture.host.succeed(["snapshot", &path, "acme/another", "--chrome-major", "131"]);
    fixture.host.succeed([&store[..], &["--force"]].concat());

    // It goes when somebody says so, and not before.
    let asked = fixture.host.fail(2, ["sessions", "discard", &id]);
    assert!(asked["hint"].as_str().unwrap().contains("--confirm"), "{asked:#}");
    assert_eq!(fs::read_to_string(format!("{path}/file")).unwrap(), "two\n");
    fixture.host.succeed(["sessions", "discard", &id, "--confirm"]);
    assert!(listed(&fixture).is_empty() && !fs::exists(&path).unwrap());

    // One that nobody went past is stored without a question.
    let (_, path) = left(&fixture, "echo four > $0/file");
    let stored = fixture.host.succeed(["snapshot", &path, ALICE, "--chrome-major", "131"]);
    assert_eq!(stored["outcome"], "stored", "{stored:#}");
}
