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

/// How many files a checkpoint reads.
fn read(desk: &Desk, name: &str) -> u64 {
    desk.run("checkpoint", &["--name", name])["read_files"].as_u64().unwrap()
}

#[test]
fn a_mount_goes_on_from_a_checkpoint_though_what_was_ignored_is_gone() {
    let desk = Desk::mounted("acme/base", 131);
    desk.write(".gitignore", "target/\n*.log\n");
    for at in 0..20 {
        desk.write(&format!("src/file-{at}"), &format!("{at}\n"));
    }
    desk.write("target/debug/x", "1");
    desk.write("a.log", "1");
    desk.start(&["--ignore-files"]);
    fs::remove_dir_all(desk.project.join("target")).unwrap();
    fs::remove_file(desk.project.join("a.log")).unwrap();
    desk.write("src/file-3", "changed");
    assert_eq!(read(&desk, "one"), 1);
    desk.write("target/y", "2");
    desk.write("src/file-4", "changed");
    assert_eq!(read(&desk, "two"), 1);
    let found = paths(&desk, "two");
    assert!(!found.iter().any(|path| path.starts_with("target")), "{found:?}");
    fs::remove_dir_all(desk.project.join("target")).unwrap();
    desk.write("target", "a file, which is not ignored");
    assert_eq!(read(&desk, "three"), 1);
    assert!(paths(&desk, "three").iter().any(|path| path == "target"));
}

/// What is in it was never looked at since the mount began.
#[test]
fn what_was_ignored_is_stored_whole_where_it_is_moved_to_and_wanted() {
    let desk = Desk::mounted("acme/base", 131);
    desk.write(".gitignore", "target/\n");
    for path in ["target/deep/er/x", "target/deep/y", "target/z", "src/file"] {
        desk.write(path, path);
    }
    desk.run("commit", &[]);
    desk.start(&["--ignore-files"]);
    let rename = |from: &str, to: &str| fs::rename(desk.project.join(from), desk.project.join(to)).unwrap();
    rename("target/deep", "src/deep");
    desk.run("checkpoint", &["--name", "one"]);
    rename("target", "kept");
    desk.run("checkpoint", &["--name", "two"]);
    for (name, expected) in
        [("one", &["src/deep/er/x", "src/deep/y"][..]), ("two", &["kept/z", "src/deep/y"][..])]
    {
        let found = paths(&desk, name);
        for path in expected {
            assert!(found.iter().any(|found| found == path), "{path} in {found:?}");
        }
    }
    fs::remove_dir_all(desk.project.join("src/deep")).unwrap();
    desk.run("workspace revert", &["src/deep", "--to", "one"]);
    assert_eq!(desk.read("src/deep/er/x"), "target/deep/er/x");
    desk.host.verify("acme/agent-7", &["--chrome-major", "65535"]);
}

/// Nobody has moved it by its own name, and nobody has looked at it.
#[test]
fn what_was_ignored_is_stored_where_a_directory_above_it_is_moved_to() {
    let desk = Desk::mounted("acme/base", 131);
    desk.write(".gitignore", "a/b/\n");
    for path in ["a/b/deep/y", "a/b/x", "a/kept"] {
        desk.write(path, path);
    }
    desk.run("commit", &[]);
    desk.start(&["--ignore-files"]);
    desk.run("checkpoint", &["--name", "one"]);
    assert!(!paths(&desk, "one").iter().any(|path| path.starts_with("a/b")));
    fs::rename(desk.project.join("a"), desk.project.join("c")).unwrap();
    desk.run("checkpoint", &["--name", "two"]);
    let found = paths(&desk, "two");
    for path in ["c/b/deep/y", "c/b/x", "c/kept"] {
        assert!(found.iter().any(|found| found == path), "{path} in {found:?}");
    }
    let done = desk.run("workspace revert", &["--all", "--to", "one"]);
    assert_eq!(desk.read("a/kept"), "a/kept");
    assert!(!desk.project.join("c").exists());
    let before = done["before"]["checkpoint"].as_str().unwrap();
    desk.run("workspace revert", &["--all", "--to", before]);
    assert_eq!((desk.read("c/b/x").as_str(), desk.read("c/b/deep/y").as_str()), ("a/b/x", "a/b/deep/y"));
    desk.host.verify("acme/agent-7", &["--chrome-major", "65535"]);
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
