//! These tests ask for what cannot be done: the refusal says what to type next.

use std::fs;

use tests::binary::assert_says;

use crate::fixture::Desk;

#[test]
fn what_is_no_workspace_is_refused_with_the_command_that_makes_it_one() {
    let desk = Desk::new();
    desk.write("file", "1");
    let error = desk.fail(3, "workspace changes", &[]);
    assert_says(&error, "is no workspace");
    assert!(error["hint"].as_str().unwrap().contains("workspace start"), "{error:#}");
    desk.fail(2, "workspace start", &["--no-watch"]);
    // A revert takes a slot of the ring, and must not overwrite the one that it goes back to.
    let error = desk.fail(2, "workspace start", &["acme/agent-7", "--auto-max", "1", "--no-watch"]);
    assert_says(&error, "the ring needs two slots");
    desk.start(&[]);
    assert_says(&desk.fail(3, "workspace revert", &["--all", "--to", "nothing"]), "no checkpoint nothing");
    assert_says(
        &desk.fail(2, "workspace start", &["--auto-max", "4", "--no-watch"]),
        "fixed at the first start",
    );
    assert_says(
        &desk.fail(28, "workspace start", &["acme/other", "--no-watch"]),
        "is a workspace of acme/agent-7",
    );
    desk.run("checkpoint", &["--name", "once"]);
    assert_says(&desk.fail(5, "checkpoint", &["--name", "once"]), "has a checkpoint once already");
    desk.run("workspace start", &["--no-watch"]);
}

#[test]
fn another_directory_at_the_same_path_is_not_taken_for_the_workspace() {
    let desk = Desk::new();
    desk.start(&[]);
    fs::rename(&desk.project, desk.folder.path().join("aside")).unwrap();
    fs::create_dir(&desk.project).unwrap();
    assert_says(&desk.fail(28, "workspace revert", &["--all"]), "is another directory");
}

#[test]
fn a_browser_is_not_stored_under_the_number_of_a_workspace() {
    let desk = Desk::new();
    let project = desk.project.to_str().unwrap();
    let error = desk.host.fail(2, ["snapshot", project, "acme/alice", "--chrome-major", "65535"]);
    assert_says(&error, "65535 is no major version of Chrome");
    let mountpoint = desk.folder.path().join("mnt");
    fs::create_dir(&mountpoint).unwrap();
    let line = ["mount", "acme/alice", mountpoint.to_str().unwrap(), "--chrome-major", "65534"];
    assert_says(&desk.host.fail(2, line), "65534 is no major version of Chrome");
    let line = ["run", "acme/alice", "--chrome-major", "65000", "--", "true"];
    assert_says(&desk.host.fail(2, line), "65000 is no major version of Chrome");
}
