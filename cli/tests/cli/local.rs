//! These tests store, list and restore on a local store: they check what comes back, what is said, and what an
//! interrupt leaves.

use std::{fs, os::unix::fs::symlink, process::Stdio};

use serde_json::json;

use crate::test_host::{Ran, TestHost, files, noise};

#[test]
fn what_is_stored_comes_back() {
    let host = TestHost::new();
    let first = host.run("snapshot udd acme/alice");
    assert_eq!(first.code, 0, "{first:?}");
    for text in ["Snapshot ", " stored in ", "files    3 (0 reused, 3 read)", "pointer  set to "] {
        assert!(first.stdout.contains(text), "{text:?}: {first:?}");
    }
    for text in ["taking Chrome 131", "making a store at file://", "acme is a new tenant"] {
        assert!(first.stderr.contains(text), "{text:?}: {first:?}");
    }
    host.ok("restore acme/alice out/deep");
    assert_eq!(files(&host.path("udd")), files(&host.path("out/deep")));

    fs::write(host.path("udd/new"), noise(40_000)).unwrap();
    let second = host.ok("snapshot udd acme/alice --label task=checkout --reason autosave");
    assert!(second.contains("pointer  moved from "), "{second}");
    let third = host.ok("snapshot udd acme/alice --rescan");
    assert!(third.starts_with("Unchanged: "), "{third}");

    let list = host.ok("list acme/alice");
    let rows: Vec<&str> = list.lines().collect();
    assert_eq!(rows.len(), 3, "{list}");
    assert!(rows[1].starts_with("  ") && rows[2].starts_with("* "), "{list}");
    assert!(rows[2].contains("autosave") && rows[2].contains("task=checkout"), "{list}");

    let old = host.json("list acme/alice")["snapshots"][0]["sha256_prefix"].as_str().unwrap().to_owned();
    host.ok(&format!("restore acme/alice old --sha {}", &old[..8]));
    assert!(!host.path("old/new").exists());
    host.ok("verify acme/alice --read-data");
    assert!(host.ok("stats").contains("trees and tables"));
}

#[test]
fn what_belongs_to_a_running_chrome_is_left_out() {
    let host = TestHost::new();
    symlink("host-123", host.path("udd/SingletonLock")).unwrap();
    fs::write(host.path("udd/DevToolsActivePort"), "9222").unwrap();
    fs::write(host.path("udd/Default/SingletonLock"), "kept: not at the top").unwrap();
    std::os::unix::net::UnixListener::bind(host.path("udd/Default/socket")).unwrap();
    let ran = host.run("snapshot udd acme/alice");
    assert!(ran.stderr.contains("warning: 1 socket left out"), "{ran:?}");
    assert!(ran.stderr.contains("has the lock of a Chrome on \"host\" (process 123)"), "{ran:?}");
    assert!(host.path("udd/SingletonLock").symlink_metadata().is_ok(), "it may run there");
    host.ok("restore acme/alice out");
    assert!(host.path("out/SingletonLock").symlink_metadata().is_err());
    assert!(!host.path("out/DevToolsActivePort").exists());
    assert!(host.path("out/Default/SingletonLock").exists());
    let record = host.json("show acme/alice");
    assert_eq!(record["chrome_last_version"], "131.0.6778.85");
    assert_eq!(record["exit_type"], "Normal");
}

#[test]
fn quiet_prints_the_id_alone() {
    let host = TestHost::new();
    let ran = host.run("snapshot -q udd acme/alice");
    assert_eq!(ran.stderr, "");
    let id = ran.stdout.trim();
    assert!(id.len() == 64 && id.bytes().all(|b| b.is_ascii_hexdigit()), "{ran:?}");
    assert_eq!(host.run("show -q acme/alice").stdout.trim(), id);
}

#[test]
fn the_newest_chrome_is_the_default_and_that_is_said() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice --chrome-major 130 --force");
    host.ok("snapshot udd acme/alice");
    let ran = host.run("show acme/alice");
    assert!(ran.stderr.contains("Chrome 130, 131; taking 131, the newest"), "{ran:?}");
    let ran = host.run("show acme/alice --chrome-major 130");
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(host.ok("list acme").contains("130, 131"));
    assert_eq!(host.ok("list"), "acme\n");
}

#[test]
fn a_pointer_that_another_program_moved_is_told_of() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let pointer = host.path(".local/share/pstore/store/objects/snapshots/acme/alice/131/latest.json");
    let text = fs::read_to_string(&pointer).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["active_sha256_prefix"] = "0123456789ab".into();
    json.as_object_mut().unwrap().remove("pstore");
    fs::write(&pointer, json.to_string()).unwrap();
    let ran = host.run("list acme/alice");
    assert!(ran.stderr.contains("0123456789ab"), "{ran:?}");
    assert_eq!(host.json("list acme/alice")["foreign"], true);
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let host = TestHost::new();
    let mut child = host.command("completions bash").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn an_interrupt_ends_at_once_and_leaves_nothing_broken() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    for at in 0..40 {
        fs::write(host.path(&format!("udd/{at}")), noise(2_000_000 + at)).unwrap();
    }
    let child = host.command("snapshot udd acme/alice").stderr(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.unwrap();
    std::thread::sleep(std::time::Duration::from_millis(60));
    let signalled = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(signalled.unwrap().success());
    let ran = Ran::of("snapshot", child.wait_with_output().unwrap());
    // It may have been quicker than the signal.
    assert!(ran.code == 130 || ran.code == 0, "{ran:?}");
    host.ok("verify acme/alice --read-data");
    host.ok("snapshot udd acme/alice");
    host.ok("verify acme/alice --read-data");
}

/// Whenever it comes, what is said of the target is true.
#[test]
fn an_interrupted_restore_tells_the_truth_about_its_target() {
    let host = TestHost::new();
    for at in 0..20 {
        fs::write(host.path(&format!("udd/{at}")), noise(1_000_000 + at)).unwrap();
    }
    host.ok("snapshot udd acme/alice");
    let started = std::time::Instant::now();
    host.ok("restore acme/alice measured");
    let took = started.elapsed();
    let (old, new) = (host.path("old"), files(&host.path("udd")));
    let mut codes = Vec::new();
    for step in 0..16 {
        let _ = fs::remove_dir_all(&old);
        fs::create_dir(&old).unwrap();
        fs::write(old.join("mine"), "before").unwrap();
        let mut command = host.command("restore acme/alice old --force");
        let child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(took * step / 12);
        let _ = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).output();
        let ran = Ran::of("restore", child.wait_with_output().unwrap());
        let found = files(&old);
        match ran.code {
            0 => assert!(found == new, "{ran:?}"),
            // Before the signal is listened to, it ends the process by itself.
            130 | -1 => assert!(found.len() == 1 && found[0].1 == b"before", "{ran:?}"),
            _ => panic!("{ran:?}"),
        }
        codes.push(ran.code);
    }
    assert!(codes.contains(&130), "no signal came in time: {codes:?}");
}

#[test]
fn a_variable_set_to_nothing_is_as_good_as_none() {
    let host = TestHost::new();
    let mut command = host.command("snapshot udd acme/alice --no-cache");
    command.env("PSTORE_STORE", "").env("PSTORE_CACHE_DIR", "").env("PSTORE_S3_REGION", "");
    let ran = Ran::of("snapshot", command.output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(host.path(".local/share/pstore/store").exists() && !host.path(".cache").exists());
}

#[test]
fn every_chrome_version_is_listed_and_the_current_ones_are_marked() {
    let host = TestHost::new();
    let old = host.capture("of 131");
    fs::write(host.path("udd/Last Version"), "132.0.1.2").unwrap();
    let new = host.capture("of 132");
    let ran = host.run("list acme/alice");
    assert!(!ran.stderr.contains("chooses another"), "nothing was chosen: {ran:?}");
    for (row, prefix) in ran.stdout.lines().skip(1).zip([&old, &new]) {
        assert!(row.starts_with("* ") && row.contains(prefix.as_str()), "{ran:?}");
    }
    let list = host.json("list acme/alice");
    assert_eq!((&list["chrome_major_version"], &list["active_sha256_prefix"]), (&132.into(), &new.into()));
    assert_eq!(list["lineages"][0]["active_sha256_prefix"], old.as_str());
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 2);
    let one = host.json("list acme/alice --chrome-major 131");
    assert_eq!(
        (one["lineages"].as_array().unwrap().len(), &one["snapshots"][0]["latest"]),
        (1, &true.into())
    );
}

#[test]
fn a_list_tells_what_was_held_back_is_damaged_or_is_published() {
    let host = TestHost::new();
    let first = host.capture("first");
    host.ok("export acme/alice --publish");
    fs::write(host.path("udd/Default/Cookies"), [b"SQLite format 3\0".to_vec(), noise(8000)].concat())
        .unwrap();
    assert_eq!(host.run("snapshot udd acme/alice").code, 29);
    let list = host.json("list acme/alice");
    let rows = list["snapshots"].as_array().unwrap();
    let states = |row: usize| ["held_back", "damaged", "published"].map(|field| rows[row][field].clone());
    assert_eq!(states(0), [json!(null), json!(false), json!(true)]);
    assert_eq!(states(1), [json!("damaged"), json!(true), json!(false)]);
    // The archive has a digest of its own; what the snapshot is called does not change.
    let published = rows[0]["sha256_prefix"].as_str().unwrap();
    assert_ne!(published, first);
    let text = host.ok("list acme/alice");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].contains(&first) && lines[1].contains(&format!("published as {published}")), "{text}");
    assert!(lines[2].contains("held back (damaged), damaged"), "{text}");
}
