//! These tests work in a workspace with ill intent: nothing outside is read or written, and nothing hangs.

use std::{fs, os::unix::fs::symlink};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Signal, kill_process},
};

use crate::fixture::{Desk, tree, until};

#[test]
fn links_loops_fifos_and_strange_names_are_kept_as_they_are_and_never_followed() {
    let desk = Desk::new();
    let outside = desk.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    let at = |path: &str| desk.project.join(path);
    symlink("/", at("slash")).unwrap();
    symlink(".", at("loop")).unwrap();
    symlink(&outside, at("out")).unwrap();
    fs::create_dir_all(at(".venv/lib")).unwrap();
    symlink("lib", at(".venv/lib64")).unwrap();
    symlink("../../..", at(".venv/lib/up")).unwrap();
    mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    desk.write("line\nbreak", "x");
    desk.write("src/main.py", "good");
    let before = tree(&desk.project);
    desk.watch(&[]);
    desk.run("checkpoint", &["--name", "good"]);

    // A folder becomes a link that leads outside; what is given back must not go there.
    fs::rename(at("src"), at("elsewhere")).unwrap();
    symlink(&outside, at("src")).unwrap();
    fs::remove_file(at("line\nbreak")).unwrap();
    mknodat(CWD, at("line\nbreak"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let changes = desk.run("workspace changes", &["--since", "good"]);
    assert!(changes["totals"]["deleted"].as_u64().unwrap() >= 1, "{changes:#}");
    desk.run("workspace revert", &["src/main.py", "--to", "good"]);
    desk.run("workspace revert", &["--all", "--to", "good"]);
    assert_eq!(tree(&desk.project), before);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
    let paths = desk.events();
    assert!(paths.iter().all(|(_, path)| !path.contains("secret")), "{paths:?}");
    for path in ["../outside/secret", "/etc/passwd", "out/../../x"] {
        desk.fail(2, "workspace revert", &[path, "--to", "good"]);
        desk.fail(2, "workspace history", &[path]);
    }
    desk.kill_watcher();
}

/// `PSTORE_WORKSPACE_FILES=100000` makes it a flood that the kernel's queue does not hold.
#[test]
fn a_flood_of_files_is_seen_whole() {
    let count: usize = std::env::var("PSTORE_WORKSPACE_FILES").map_or(3000, |text| text.parse().unwrap());
    let desk = Desk::new();
    desk.watch(&[]);
    for number in 0..count {
        let folder = desk.project.join(format!("d{}", number % 50));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("f{number}")), "").unwrap();
    }
    let taken = desk.run("checkpoint", &["--name", "flood"]);
    assert_eq!(taken["checkpoint"]["files_count"], count);
    until(|| desk.run("workspace events", &["--limit", "1"])["counts"]["created"] == count);
    desk.run("workspace revert", &["--all", "--to", "cp-0"]);
    assert!(tree(&desk.project).is_empty());
    desk.check_db();
}

#[test]
fn what_the_kernel_had_no_room_for_is_seen_by_the_next_checkpoint() {
    let room = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let count = room.trim().parse::<usize>().unwrap() + 500;
    let desk = Desk::new();
    desk.watch(&["--auto-interval", "604800"]);
    let watcher = desk.watcher().unwrap();
    let told = |action: &str| desk.run("workspace events", &["--limit", "1"])["counts"][action].clone();
    kill_process(watcher, Signal::STOP).unwrap();
    for number in 0..count {
        fs::write(desk.project.join(number.to_string()), "").unwrap();
    }
    kill_process(watcher, Signal::CONT).unwrap();
    until(|| told("created").as_u64().unwrap() > 0);
    assert_ne!(told("created"), count, "the kernel had room for all");
    // A file that nobody was told of is written to: that it is new is told all the same.
    desk.write(&(count - 1).to_string(), "more");
    until(|| told("modified") == 1);
    let taken = desk.run("checkpoint", &["--name", "flood"]);
    assert_eq!(taken["checkpoint"]["files_count"], count);
    assert_eq!((told("created"), told("modified")), (count.into(), 1.into()));
    desk.kill_watcher();
}
