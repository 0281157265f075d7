//! These tests print texts of other runs, which may hold anything, on an operator's terminal.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::test_host::{Ran, TestHost};

const NASTY: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\nforged line\u{202e}";

/// Neither of the streams holds anything a terminal would act upon, or a line of its own
/// that starts with what a stranger wrote.
fn harmless(ran: &Ran) {
    assert_eq!(ran.code, 0, "{ran:?}");
    for text in [&ran.stdout, &ran.stderr] {
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'), "{ran:?}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{ran:?}");
    }
    assert!(ran.stdout.contains(r"\u{1b}[2J"), "it is shown escaped: {ran:?}");
}

/// Puts a text into objects of the contract as another program would.
fn write(path: PathBuf, change: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    value.as_object_mut().unwrap().remove("pstore");
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

#[test]
fn labels_and_notes_are_shown_escaped() {
    let host = TestHost::new();
    let ran = host.run_args("snapshot udd acme/alice", &["--label", &format!("k={NASTY}"), "--notes", NASTY]);
    assert_eq!(ran.code, 0, "{ran:?}");
    for line in ["list acme/alice", "show acme/alice", "history acme/alice"] {
        harmless(&host.run(line));
    }
    assert_eq!(host.json("show acme/alice")["notes"], NASTY, "JSON loses nothing");
}

#[test]
fn reasons_are_shown_escaped() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host.acquire("run-1", "");
    let ran = host.run_args("force-unlock acme/alice --confirm", &["--reason", NASTY]);
    assert!(ran.code == 0 && !ran.stderr.contains('\u{1b}'), "{ran:?}");
    harmless(&host.run("log acme/alice"));
    assert_eq!(host.event("force_unlock")["reason"], NASTY.trim(), "JSON loses nothing");
}

#[test]
fn holders_are_shown_escaped() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host.forget("run-1", "");
    write(host.object("lock.json"), |lock| {
        lock["holder_run_id"] = NASTY.into();
        lock["holder_host"] = NASTY.into();
    });
    host.age_lock();
    harmless(&host.run("lock show acme/alice"));
    harmless(&host.run("reap --grace 0"));
    harmless(&host.run("log acme/alice"));
}

#[test]
fn pointers_are_shown_escaped() {
    let host = TestHost::new();
    let first = host.capture("first");
    write(host.object("latest.json"), |pointer| pointer["active_sha256_prefix"] = NASTY.into());
    let ran = host.run("list acme/alice");
    assert!(ran.code == 0 && !ran.stderr.contains('\u{1b}') && !ran.stderr.contains("\nforged"), "{ran:?}");
    harmless(&host.run(&format!("rollback acme/alice --sha {first}")));
    harmless(&host.run("lock acquire acme/alice --ttl 5"));
    harmless(&host.run("log acme/alice"));
    let ran = host.run("show acme/alice");
    assert!(ran.code != 0 && !ran.stderr.contains('\u{1b}'), "{ran:?}");
}
