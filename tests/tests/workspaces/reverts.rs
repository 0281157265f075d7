//! These tests revert a workspace to a checkpoint: a revert gives back what it should whatever is in its way, and loses
//! nothing that it should not touch.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    process::Command,
    thread,
};

use rustix::{
    fs::{
        CWD, FileType, Mode,
        inotify::{self, CreateFlags, WatchFlags},
        mknodat,
    },
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;
use tests::{binary::program, disk::SmallDisk, tree::noise};

use crate::fixture::{Desk, tree, until};

#[test]
fn a_fifo_where_a_directory_was_is_in_nobodys_way() {
    let desk = Desk::new();
    desk.write("src/main.py", "good");
    desk.write("file", "good");
    let fifo = |path: &str| mknodat(CWD, desk.project.join(path), FileType::Fifo, Mode::RWXU, 0).unwrap();
    desk.start(&[]);
    let before = tree(&desk.project);
    // A FIFO in the place of a directory; and a directory with one deep in it in the place of a file.
    fs::remove_dir_all(desk.project.join("src")).unwrap();
    fifo("src");
    fs::remove_file(desk.project.join("file")).unwrap();
    desk.write("file/deep/x", "bad");
    fifo("file/deep/pipe");
    fifo("file/pipe");
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    assert_eq!(tree(&desk.project), before);
    // A directory that the checkpoint does not have keeps its FIFO: no checkpoint has those.
    desk.write("new/x", "x");
    fifo("new/pipe");
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    let left = fs::read_dir(desk.project.join("new")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["pipe"]);
}

#[test]
fn directories_that_nobody_may_write_to_are_reverted_by_their_owner() {
    let desk = Desk::new();
    // Whoever runs the tests as root may write everywhere: then it is somebody else.
    let run = |words: &[&str]| {
        let project = desk.project.to_str().unwrap();
        let mut command = Command::new("setpriv");
        desk.host.prepare(&mut command);
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        let (verb, rest) = words.split_at(if words[0] == "workspace" { 2 } else { 1 });
        let ended = command.arg(program()).args(verb).arg(project).args(rest).output().unwrap();
        assert!(ended.status.success(), "{words:?}: {ended:?}");
    };
    let sh = |script: &str| {
        let mut command = Command::new("setpriv");
        if rustix::process::geteuid().is_root() {
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        }
        let ended = command.args(["sh", "-ec", script]).current_dir(&desk.project).output().unwrap();
        assert!(ended.status.success(), "{script}: {ended:?}");
    };
    let everybody = fs::Permissions::from_mode(0o777);
    for folder in [desk.folder.path(), &desk.folder.path().join("home"), &desk.project] {
        fs::set_permissions(folder, everybody.clone()).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&desk.project, Some(65534), Some(65534)).unwrap();
    }
    // As caches of modules are: neither files nor directories may be written to.
    sh("mkdir -p mod/a/b; echo 1 > mod/a/b/x; echo 1 > mod/y; chmod -R a-w mod");
    run(&["workspace", "start", "acme/agent-7", "--no-watch"]);
    let before = tree(&desk.project);
    sh("chmod -R u+w mod; echo 2 > mod/a/b/x; rm mod/y; chmod -R a-w mod
        mkdir -p later/c/d; echo 2 > later/c/d/z; chmod -R a-w later");
    run(&["workspace", "revert", "--all", "--to", "cp-0"]);
    assert_eq!(tree(&desk.project), before);
    sh("chmod -R u+w mod; rm -r mod");
    run(&["workspace", "revert", "mod", "--to", "cp-0"]);
    assert_eq!(tree(&desk.project), before);
}

#[test]
fn a_revert_that_has_begun_to_change_files_is_not_interrupted() {
    let desk = Desk::new();
    interrupt(&desk, |desk| desk.start(&[]));
}

#[test]
fn nor_is_one_that_the_watcher_does() {
    let desk = Desk::new();
    interrupt(&desk, |desk| desk.watch(&[]));
    desk.kill_watcher();
}

fn interrupt(desk: &Desk, start: impl FnOnce(&Desk) -> Value) {
    const FILES: usize = 2000;
    let path = |at: usize| format!("d/file-{at:04}");
    for at in 0..FILES {
        desk.write(&path(at), "good");
    }
    start(desk);
    for at in 0..FILES {
        desk.write(&path(at), "bad");
    }
    let mut running = desk.host.start(["workspace", "revert", desk.project.to_str().unwrap(), "--all"]);
    until(|| desk.read(&path(0)) == "good" || !running.runs());
    let _ = kill_process(Pid::from_raw(running.id() as i32).unwrap(), Signal::INT);
    let ended = running.wait();
    // It says what it has done, and has done all of it.
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert_eq!(ended.document["restored"], FILES, "{ended:#?}");
    assert!((0..FILES).all(|at| desk.read(&path(at)) == "good"));
    let left: Vec<_> = fs::read_dir(&desk.project).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["d"]);
}

#[test]
fn what_is_written_while_a_revert_is_prepared_is_in_the_checkpoint_before_it() {
    let desk = Desk::new();
    fs::write(desk.project.join("large"), noise(96 << 20, 1)).unwrap();
    desk.write("notes", "old");
    desk.start(&[]);
    fs::write(desk.project.join("large"), "gone").unwrap();
    desk.write("notes", "new");
    let project = desk.project.clone();
    let writing = thread::spawn(move || {
        // As soon as there is something of the revert in the workspace, somebody writes to what it will overwrite.
        let is_prepared = || {
            let mut names = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name());
            names.any(|name| name.to_string_lossy().contains("pstore-revert"))
        };
        while !is_prepared() {
            thread::yield_now();
        }
        fs::write(project.join("notes"), "precious").unwrap();
    });
    let done = desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    writing.join().unwrap();
    assert_eq!(desk.read("notes"), "old");
    desk.run("workspace revert", &["notes", "--to", done["before"]["checkpoint"].as_str().unwrap()]);
    assert_eq!(desk.read("notes"), "precious");
}

/// On a tmpfs no state of a file tells whether it has changed: a checkpoint reads every file.
#[test]
fn the_second_checkpoint_before_a_revert_reads_no_file_that_the_revert_does_not_touch() {
    let (mut desk, disk) = (Desk::new(), SmallDisk::new(512 << 20));
    desk.project = disk.path().join("project");
    desk.write("other", "other");
    fs::write(desk.project.join("large"), noise(96 << 20, 1)).unwrap();
    desk.write("notes", "old");
    desk.start(&[]);
    fs::write(desk.project.join("large"), "gone").unwrap();
    desk.write("notes", "new");
    let project = desk.project.clone();
    let watching = thread::spawn(move || {
        let is_prepared = || {
            let mut names = fs::read_dir(&project).unwrap().map(|entry| entry.unwrap().file_name());
            names.any(|name| name.to_string_lossy().contains("pstore-revert"))
        };
        while !is_prepared() {
            thread::yield_now();
        }
        let opened = inotify::init(CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&opened, project.join("other"), WatchFlags::OPEN).unwrap();
        fs::write(project.join("notes"), "precious").unwrap();
        opened
    });
    let done = desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    let opened = watching.join().unwrap();
    let events = rustix::io::read(&opened, &mut [0_u8; 1024]);
    assert_eq!(events, Err(rustix::io::Errno::AGAIN), "somebody has opened it");
    assert_eq!((desk.read("notes").as_str(), desk.read("other").as_str()), ("old", "other"));
    let before = done["before"]["checkpoint"].as_str().unwrap();
    desk.run("workspace revert", &["--all", "--to", before]);
    assert_eq!((desk.read("notes").as_str(), desk.read("other").as_str()), ("precious", "other"));
    assert_eq!(desk.read("large"), "gone");
}

#[test]
fn what_a_checkpoint_left_out_stays_though_nothing_ignores_it_any_more() {
    let desk = Desk::new();
    desk.write(".gitignore", "target/\n.env\n");
    desk.write("main.rs", "1");
    desk.write("target/debug/x", "1");
    desk.write(".env", "key");
    desk.start(&["--ignore-files"]);
    fs::remove_file(desk.project.join(".gitignore")).unwrap();
    desk.write("main.rs", "2");
    desk.write("later", "2");
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    assert_eq!((desk.read("main.rs").as_str(), desk.read(".gitignore").as_str()), ("1", "target/\n.env\n"));
    assert_eq!((desk.read("target/debug/x").as_str(), desk.read(".env").as_str()), ("1", "key"));
    assert!(!desk.project.join("later").exists());
}

/// What is ignored is in no checkpoint, so nothing takes its place: not in the middle of a revert, but before it.
#[test]
fn a_file_in_the_place_of_a_directory_with_ignored_files_is_refused_before_anything_is_changed() {
    let desk = Desk::new();
    desk.write(".gitignore", "*.log\n");
    desk.write("build", "a file");
    desk.write("main.rs", "1");
    desk.start(&["--ignore-files"]);
    fs::remove_file(desk.project.join("build")).unwrap();
    desk.write("build/out.o", "x");
    desk.write("build/it's deep/a.log", "precious");
    desk.write("main.rs", "2");
    let before = tree(&desk.project);
    for words in [&["--all", "--to", "cp-0"][..], &["build", "--to", "cp-0"], &["--all", "--preview"]] {
        let refused = desk.fail(5, "workspace revert", words);
        let message = refused["message"].as_str().unwrap();
        assert!(message.contains("build is a directory") && message.contains("deep/a.log"), "{refused:#}");
        assert_eq!(tree(&desk.project), before);
    }
    let listed = desk.run("workspace list", &[]);
    assert_eq!(listed["checkpoints"].as_array().unwrap().len(), 1, "{listed:#}");
    let refused = desk.fail(5, "workspace revert", &["--all", "--to", "cp-0"]);
    let command = refused["hint"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
    assert!(Command::new("sh").args(["-ec", &command]).status().unwrap().success(), "{command}");
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    assert_eq!((desk.read("build").as_str(), desk.read("main.rs").as_str()), ("a file", "1"));
    let aside = desk.folder.path().join("build.aside/it's deep/a.log");
    assert_eq!(fs::read_to_string(aside).unwrap(), "precious");
}

#[test]
fn a_file_comes_back_under_all_names_that_it_has_in_the_checkpoint() {
    let desk = Desk::new();
    desk.write("a", "good");
    desk.write("deep/file", "another");
    for name in ["deep/b", "c"] {
        fs::hard_link(desk.project.join("a"), desk.project.join(name)).unwrap();
    }
    desk.start(&[]);
    let before = tree(&desk.project);
    let is_one = |names: &[&str]| {
        let number = |name: &&str| fs::metadata(desk.project.join(name)).unwrap().ino();
        names.iter().all(|name| number(name) == number(&names[0]))
    };
    let replace = |name: &str, text: &str| {
        desk.write("new", text);
        fs::rename(desk.project.join("new"), desk.project.join(name)).unwrap();
    };
    // Who writes to the one writes to the others.
    desk.write("a", "broken");
    assert_eq!(desk.run("workspace revert", &["a"])["restored"], 3);
    assert!(tree(&desk.project) == before && is_one(&["a", "c", "deep/b"]));
    // As editors save.
    replace("deep/b", "broken");
    assert!(!is_one(&["a", "deep/b"]));
    desk.run("workspace revert", &["deep", "--to", "cp-0"]);
    assert!(tree(&desk.project) == before && is_one(&["a", "c", "deep/b"]));
    // One that has become a file of its own stays what it is.
    replace("c", "mine");
    fs::remove_file(desk.project.join("a")).unwrap();
    desk.run("workspace revert", &["a", "--to", "cp-0"]);
    assert_eq!((desk.read("a").as_str(), desk.read("c").as_str()), ("good", "mine"));
    assert!(is_one(&["a", "deep/b"]));
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    assert!(tree(&desk.project) == before && is_one(&["a", "c", "deep/b"]));
}

#[test]
fn a_folder_of_ones_own_with_a_name_like_that_of_a_revert_stays() {
    let desk = Desk::new();
    desk.write(".pstore-revert-notes/mine", "mine");
    desk.write("file", "1");
    desk.start(&[]);
    desk.write("file", "2");
    desk.run("workspace revert", &["file"]);
    assert_eq!(desk.read(".pstore-revert-notes/mine"), "mine");
    desk.write(".pstore-revert-notes/mine", "broken");
    desk.run("workspace revert", &[".pstore-revert-notes", "--to", "cp-0"]);
    assert_eq!(desk.read(".pstore-revert-notes/mine"), "mine");
}

#[test]
fn what_is_done_after_a_revert_is_told_though_nobody_watches() {
    let desk = Desk::new();
    for name in ["again", "gone", "kept", "link"] {
        desk.write(name, "1");
    }
    desk.start(&[]);
    for name in ["again", "gone", "kept", "later", "link"] {
        desk.write(name, "broken");
    }
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    desk.write("again", "better");
    fs::remove_file(desk.project.join("gone")).unwrap();
    fs::remove_file(desk.project.join("link")).unwrap();
    symlink("kept", desk.project.join("link")).unwrap();
    desk.write("later", "once more");
    desk.run("checkpoint", &["--name", "after"]);
    let events = desk.events();
    let restored = events.iter().rposition(|(action, _)| action == "restored").unwrap();
    let since: Vec<(&str, &str)> =
        events[restored + 1..].iter().map(|(a, p)| (a.as_str(), p.as_str())).collect();
    assert_eq!(
        since,
        [("modified", "again"), ("deleted", "gone"), ("created", "later"), ("modified", "link")],
        "{events:?}"
    );
}
