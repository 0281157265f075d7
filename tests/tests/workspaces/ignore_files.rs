//! These tests leave out what the ignore files of a workspace name, if somebody asks for that, and never touch it.

use std::fs;

use crate::fixture::Desk;

fn paths(desk: &Desk, checkpoint: &str) -> Vec<String> {
    let name = format!("acme/agent-7@{checkpoint}");
    let listed = desk.host.succeed(["ls", &name, "--recursive", "--chrome-major", "65535"]);
    let entries = listed["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["path"].as_str().unwrap().to_owned()).collect()
}

fn play(desk: &Desk) {
    desk.write(".gitignore", "target/\n*.log\n");
    desk.write("src/.pstoreignore", "secret\n");
    for path in ["main.rs", "target/debug/x", "a.log", "src/secret", "src/lib.rs"] {
        desk.write(path, "1");
    }
    desk.start(&["--ignore-files"]);
    desk.run("checkpoint", &["--name", "one"]);
    let found = paths(desk, "one");
    for kept in ["main.rs", "src/lib.rs", ".gitignore", "src/.pstoreignore"] {
        assert!(found.iter().any(|path| path == kept), "{kept} in {found:?}");
    }
    for left in ["target", "a.log", "src/secret"] {
        assert!(!found.iter().any(|path| path.starts_with(left)), "{left} in {found:?}");
    }
    desk.write("main.rs", "2");
    desk.write("target/debug/y", "2");
    desk.write("a.log", "2");
    let changes = desk.run("workspace changes", &[]);
    assert_eq!(changes["changes"].as_array().unwrap().len(), 1, "{changes}");
    desk.run("workspace revert", &["--all", "--to", "one"]);
    assert_eq!(
        (desk.read("main.rs"), desk.read("target/debug/y"), desk.read("a.log")),
        ("1".into(), "2".into(), "2".into())
    );
    // What is wanted again is there again, and what is ignored from now on stays as it is.
    desk.write(".gitignore", "*.log\nmain.rs\n");
    desk.write("main.rs", "3");
    desk.run("checkpoint", &["--name", "two"]);
    let found = paths(desk, "two");
    assert!(found.iter().any(|path| path == "target/debug/x"), "{found:?}");
    assert!(!found.iter().any(|path| path == "main.rs"), "{found:?}");
    desk.run("workspace revert", &["--all", "--to", "two"]);
    assert_eq!(desk.read("main.rs"), "3");
}

#[test]
fn what_is_ignored_is_in_no_checkpoint_and_no_revert_touches_it() {
    play(&Desk::new());
}

#[test]
fn the_same_holds_on_a_mount() {
    play(&Desk::mounted("acme/base", 131));
}

#[test]
fn nothing_is_ignored_by_default() {
    let desk = Desk::new();
    desk.write(".gitignore", "*.log\n");
    desk.write("a.log", "1");
    desk.start(&[]);
    desk.run("checkpoint", &["--name", "one"]);
    fs::remove_file(desk.project.join("a.log")).unwrap();
    desk.run("workspace revert", &["--all", "--to", "one"]);
    assert_eq!(desk.read("a.log"), "1");
}
