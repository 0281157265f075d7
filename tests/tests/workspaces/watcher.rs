//! These tests run the process that watches a workspace: it sees every write, takes what is due, and may be killed at
//! any time.

use std::fs;

use serde_json::{Value, json};

use crate::fixture::{Desk, until};

#[test]
fn a_watcher_sees_the_edits_of_a_shell_and_tells_each_once() {
    let desk = Desk::new();
    desk.write("kept", "kept");
    let status = desk.watch(&[]);
    assert_eq!(status["state"], "watched");
    desk.write("deep/er/new", "new");
    desk.write("kept", "changed");
    desk.write("kept", "changed again");
    fs::rename(desk.project.join("deep"), desk.project.join("moved")).unwrap();
    let is_told =
        |action: &str, path: &str| desk.events().iter().any(|(told, of)| told == action && of == path);
    until(|| is_told("created", "moved/er/new") && is_told("modified", "kept"));
    desk.run("checkpoint", &["--name", "all"]);
    let events = desk.events();
    let of_kept = events.iter().filter(|(_, path)| path == "kept").count();
    assert_eq!(of_kept, 1, "{events:?}");
    // A revert tells what it gave back, and not that somebody wrote it.
    desk.write("kept", "broken");
    desk.run("workspace revert", &["kept", "--to", "all"]);
    desk.run("checkpoint", &[]);
    let events = desk.events();
    let of_kept: Vec<&str> =
        events.iter().filter(|(_, path)| path.starts_with("kept")).map(|(told, _)| told.as_str()).collect();
    assert_eq!(of_kept, ["modified", "modified", "restored"], "{events:?}");
    let stopped = desk.run("workspace stop", &[]);
    assert_eq!(stopped["state"], "stopped");
    assert_eq!(desk.fail(3, "workspace stop", &[])["kind"], "not_found");
}

#[test]
fn a_watcher_takes_what_is_due_and_one_per_interval_of_what_is_handed_over() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.watch(&["--auto-interval", "1"]);
    desk.write("file", "2");
    let is_taken = |count: usize| {
        let list = desk.run("workspace list", &[]);
        list["checkpoints"].as_array().unwrap().len() >= count
    };
    until(|| is_taken(2));
    desk.run("workspace stop", &[]);
    // From now on only what is handed over.
    let other = Desk::new();
    other.write("file", "1");
    other.watch(&["--auto-interval", "604800"]);
    other.write("file", "2");
    let handed = other
        .run("checkpoint", &["--trigger", "before_action", "--run-id", "run-1", "--description", "edit"]);
    assert_eq!((&handed["outcome"], &handed["checkpoint"]), (&json!("handed_over"), &json!(null)));
    let has_run = |found: &Value| {
        found["trigger"] == "before_action" && found["run_id"] == "run-1" && found["description"] == "edit"
    };
    until(|| {
        let list = other.run("workspace list", &[]);
        list["checkpoints"].as_array().unwrap().iter().any(has_run)
    });
    until(|| other.run("checkpoint", &["--trigger", "after_action"])["outcome"] == "too_soon");
}

#[test]
fn a_killed_watcher_loses_nothing_and_another_goes_on() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.watch(&[]);
    for round in 0..3 {
        desk.write(&format!("seen-{round}"), "x");
        desk.kill_watcher();
        desk.write(&format!("unseen-{round}"), "x");
        let taken = desk.run("checkpoint", &[]);
        assert_eq!(taken["outcome"], "created");
        let events = desk.events();
        for name in [format!("seen-{round}"), format!("unseen-{round}")] {
            let told = events.iter().filter(|(action, path)| action == "created" && *path == name).count();
            assert_eq!(told, 1, "{name} in {events:?}");
        }
        desk.watch(&[]);
    }
    desk.check_db();
}

#[test]
fn a_failed_automatic_checkpoint_is_told_and_counted_and_the_agent_goes_on() {
    let desk = Desk::new();
    desk.write("file", "1");
    desk.start(&["--auto-interval", "1"]);
    desk.write("file", "2");
    let store = desk.folder.path().join("store");
    let aside = desk.folder.path().join("aside");
    until(|| {
        // The interval must be over for it to be tried at all.
        fs::rename(&store, &aside).unwrap();
        fs::write(&store, "no store").unwrap();
        let taken = desk.run("checkpoint", &["--trigger", "after_action"]);
        fs::remove_file(&store).unwrap();
        fs::rename(&aside, &store).unwrap();
        taken["outcome"] == "failed" && taken["warning"].is_string()
    });
    let status = desk.run("workspace status", &[]);
    assert_eq!(status["failed_checkpoints"], 1);
    assert!(status["last_failure"].is_string());
    assert_eq!(desk.automatic()["outcome"], "created");
}
