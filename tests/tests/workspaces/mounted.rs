//! These tests use a workspace that is a mount of pstore: a checkpoint is a closed epoch, and no event is missing.

use std::fs;

use serde_json::{Value, json};
use tests::{binary::Host, tree::noise};

use crate::fixture::{Desk, tree, until};

fn told(events: &[(String, String)], action: &str, path: &str) -> usize {
    events.iter().filter(|(told, of)| told == action && of == path).count()
}

#[test]
fn a_checkpoint_of_a_mount_reads_what_has_changed_and_gives_the_same_tree_back() {
    let desk = Desk::mounted("acme/agent-7", 65535);
    for at in 0..40 {
        desk.write(&format!("src/file-{at}"), &format!("{at}\n"));
    }
    fs::write(desk.project.join("large"), noise(3 << 20, 1)).unwrap();
    let status = desk.start(&[]);
    assert_eq!(status["method"], "mount");
    // Somebody has a file open for writing all the time.
    let open = fs::File::options().append(true).open(desk.project.join("src/file-1")).unwrap();
    desk.write("src/file-3", "changed");
    let before = tree(&desk.project);
    let taken = desk.run("checkpoint", &["--name", "one"]);
    assert_eq!((&taken["outcome"], &taken["method"]), (&json!("created"), &json!("mount")));
    assert_eq!(taken["read_files"], 1, "{taken}");
    assert!(taken["pause_ms"].is_f64(), "{taken}");
    // What it stands on is the checkpoint before: a part of a large file is read, and little is stored.
    use std::os::unix::fs::FileExt;
    let large = fs::File::options().write(true).open(desk.project.join("large")).unwrap();
    large.write_all_at(b"in the middle", 1 << 20).unwrap();
    let taken = desk.run("checkpoint", &["--name", "two"]);
    assert_eq!(taken["read_files"], 1, "{taken}");
    assert!(taken["stored_bytes"].as_u64().unwrap() < 1 << 20, "{taken}");
    fs::rename(desk.project.join("src"), desk.project.join("lib")).unwrap();
    desk.write("lib/new", "new");
    fs::remove_file(desk.project.join("large")).unwrap();
    assert_eq!(desk.run("checkpoint", &[])["outcome"], "created");
    drop((open, large));
    desk.run("workspace revert", &["--all", "--to", "one"]);
    assert_eq!(tree(&desk.project), before);
    // What is stored is what was there, for everybody.
    let target = desk.folder.path().join("restored");
    let target = target.to_str().unwrap();
    desk.host.succeed(["restore", "acme/agent-7@one", target, "--chrome-major", "65535"]);
    assert_eq!(tree(target.as_ref()), before);
    desk.host.verify("acme/agent-7", &["--chrome-major", "65535"]);
}

#[test]
fn a_checkpoint_of_a_mount_of_another_profile_is_current_in_its_own() {
    let desk = Desk::mounted("acme/base", 131);
    desk.write("file", "1");
    desk.start(&[]);
    desk.write("file", "2");
    assert_eq!(desk.run("checkpoint", &["--name", "two"])["method"], "mount");
    let target = desk.folder.path().join("restored");
    desk.host.succeed(["restore", "acme/agent-7", target.to_str().unwrap(), "--chrome-major", "65535"]);
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "2");
    // The mount has lost nothing, and is committed to its own profile.
    assert_eq!(desk.run("commit", &[])["outcome"], "stored");
    desk.write("file", "3");
    assert_eq!(desk.run("checkpoint", &["--name", "three"])["read_files"], 1);
    desk.run("workspace revert", &["file", "--to", "two"]);
    assert_eq!(desk.read("file"), "2");
}

#[test]
fn every_event_of_a_mount_is_told_though_nobody_watches_and_the_daemon_is_killed() {
    let desk = Desk::mounted("acme/agent-7", 65535);
    desk.write("kept", "1");
    desk.write("dir/in/moved", "1");
    desk.start(&[]);
    desk.write("came-and-went", "x");
    fs::remove_file(desk.project.join("came-and-went")).unwrap();
    desk.write("kept", "22");
    desk.write("kept", "333");
    fs::rename(desk.project.join("dir"), desk.project.join("other")).unwrap();
    desk.write("new\nline", "x");
    desk.kill_mount();
    desk.mount("acme/agent-7", 65535);
    desk.write("after", "x");
    // Another mount is another device, so it is started there once more.
    desk.start(&[]);
    desk.run("checkpoint", &["--name", "all"]);
    let events = desk.events();
    for (action, path) in [
        ("created", "came-and-went"),
        ("deleted", "came-and-went"),
        ("modified", "kept"),
        ("deleted", "dir/in/moved"),
        ("created", "other/in/moved"),
        ("created", "new\nline"),
        ("created", "after"),
    ] {
        assert_eq!(told(&events, action, path), 1, "{action} {path:?} in {events:?}");
    }
    // What happens after a checkpoint belongs to the next one.
    desk.write("kept", "4444");
    desk.run("checkpoint", &[]);
    assert_eq!(told(&desk.events(), "modified", "kept"), 2);
    desk.check_db();
}

#[test]
fn a_revert_on_a_mount_is_told_as_such_and_a_watcher_tells_what_happens() {
    let desk = Desk::mounted("acme/agent-7", 65535);
    desk.write("file", "1");
    desk.watch(&[]);
    desk.write("file", "broken");
    desk.write("more", "x");
    until(|| told(&desk.events(), "modified", "file") == 1 && told(&desk.events(), "created", "more") == 1);
    desk.run("workspace revert", &["file"]);
    assert_eq!(desk.read("file"), "1");
    desk.kill_watcher();
    desk.write("unseen", "x");
    desk.write("gone", "x");
    fs::remove_file(desk.project.join("gone")).unwrap();
    desk.run("checkpoint", &[]);
    let events = desk.events();
    let of_file: Vec<&str> =
        events.iter().filter(|(_, path)| path.starts_with("file")).map(|(told, _)| told.as_str()).collect();
    assert_eq!(of_file, ["modified", "restored"], "{events:?}");
    assert_eq!(told(&events, "created", "gone") + told(&events, "deleted", "gone"), 2, "{events:?}");
    assert_eq!(told(&events, "created", "unseen"), 1);
    desk.check_db();
}

fn fork(host: &Host, words: &[&str]) -> Value {
    host.succeed([&["workspace", "fork"], words].concat())
}

#[test]
fn a_fork_that_is_a_mount_writes_nothing_and_one_of_several_is_promoted() {
    let desk = Desk::new();
    for at in 0..20 {
        desk.write(&format!("src/file-{at}"), &format!("{at}\n"));
    }
    desk.write("main.py", "broken");
    desk.start(&[]);
    desk.run("checkpoint", &["--name", "base"]);
    desk.write("later", "not in the fork");
    let project = desk.project.to_str().unwrap();
    let mut tries = Vec::new();
    for at in 0..2 {
        let place = desk.folder.path().join(format!("try-{at}"));
        fs::create_dir(&place).unwrap();
        let place = place.to_str().unwrap().to_owned();
        desk.mount_words(&["acme/agent-7@base", &place, "--fork", "--chrome-major", "65535"]);
        let made = fork(&desk.host, &[project, &place, "--from", "base"]);
        assert_eq!((&made["mounted"], &made["method"]), (&json!(true), &json!("mount")), "{made}");
        fs::write(format!("{place}/main.py"), format!("try {at}")).unwrap();
        fs::remove_file(format!("{place}/src/file-{at}")).unwrap();
        tries.push(place);
    }
    // A mount of something else is not taken for a fork.
    desk.run("checkpoint", &["--name", "newer"]);
    let failure =
        desk.host.fail(5, ["workspace", "fork", project, &tries[0], "acme/other", "--from", "newer"]);
    assert!(failure["hint"].as_str().unwrap().contains("--fork"), "{failure}");
    let words = ["workspace", "promote", &tries[1], project];
    let preview = desk.host.succeed([&words[..], &["--preview"]].concat());
    assert_eq!((&preview["reverted"], desk.read("main.py").as_str()), (&json!(false), "broken"));
    let done = desk.host.succeed(words);
    assert_eq!(
        (&done["reverted"], &done["restored"], &done["removed"]),
        (&json!(true), &json!(1), &json!(2))
    );
    assert_eq!(tree(&desk.project), tree(tries[1].as_ref()));
    let events = desk.events();
    assert!(events.iter().any(|(told, of)| told == "restored" && of.contains("of acme/agent-7.try-1")));
    // It can be taken back.
    let before = done["before"]["checkpoint"].as_str().unwrap();
    desk.run("workspace revert", &["--all", "--to", before]);
    assert_eq!((desk.read("main.py").as_str(), desk.read("later").as_str()), ("broken", "not in the fork"));
    assert_eq!(fs::read_to_string(format!("{}/main.py", tries[0])).unwrap(), "try 0");
}

#[test]
fn a_mount_that_was_mounted_anew_is_no_workspace_until_it_is_started() {
    let desk = Desk::mounted("acme/agent-7", 65535);
    desk.write("file", "1");
    desk.start(&[]);
    desk.run("unmount", &["--keep"]);
    // The empty directory below is not taken for the workspace.
    let failure = desk.fail(28, "checkpoint", &[]);
    assert_eq!(failure["kind"], "conflict");
    desk.mount("acme/agent-7", 65535);
    desk.start(&[]);
    assert_eq!(desk.read("file"), "1");
    assert_eq!(desk.run("checkpoint", &["--name", "on"])["method"], "mount");
}

#[test]
fn a_watcher_ends_with_the_mount_that_it_watches() {
    let desk = Desk::mounted("acme/agent-7", 65535);
    desk.write("file", "1");
    desk.watch(&["--auto-interval", "604800"]);
    let watcher = desk.watcher().unwrap();
    desk.run("unmount", &["--keep"]);
    until(|| rustix::process::test_kill_process(watcher).is_err());
}

#[test]
fn a_checkpoint_of_a_mount_that_writes_back_late_has_what_was_written() {
    let desk = Desk::new();
    let project = desk.project.to_str().unwrap().to_owned();
    desk.mount_words(&["acme/agent-7", &project, "--chrome-major", "65535", "--writeback"]);
    desk.start(&[]);
    let mut open = fs::File::create(desk.project.join("open")).unwrap();
    for at in 0..3 {
        desk.write("closed", &format!("closed {at}"));
        std::io::Write::write_all(&mut open, format!("open {at}\n").as_bytes()).unwrap();
        let before = tree(&desk.project);
        let name = format!("late-{at}");
        desk.run("checkpoint", &["--name", &name]);
        let target = desk.folder.path().join(&name);
        let place = target.to_str().unwrap();
        desk.host.succeed(["restore", &format!("acme/agent-7@{name}"), place, "--chrome-major", "65535"]);
        let content = |root: &std::path::Path| {
            (fs::read(root.join("open")).unwrap(), fs::read(root.join("closed")).unwrap())
        };
        assert_eq!(content(&target), content(&desk.project));
        assert_eq!(tree(&target).len(), before.len());
    }
}
