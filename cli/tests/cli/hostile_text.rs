//! These tests print documents whose every text was chosen to move an operator's cursor, to break a line, or to
//! pass for a line of pstore's own.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tests::checker;

use crate::test_host::{Ran, TestHost, noise};

const NASTY: &str =
    "x\u{1b}[2J\u{1b}]0;owned\u{7}\r\nwarning: forged\nerror: forged\u{202e}\u{2066}\u{200b}\u{feff}";

/// No stream holds anything a terminal would act upon, nor a line that a stranger wrote. The command may
/// fail, but does not crash.
#[track_caller]
fn harmless(ran: &Ran, what: &str) {
    for text in [&ran.stdout, &ran.stderr] {
        let acts = |c: char| {
            (c.is_control() && c != '\n')
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        };
        assert!(!text.contains(acts), "{what}: {ran:?}");
        assert!(
            !text.lines().any(|line| line.contains(": forged") && !line.contains(r"\n")),
            "{what}: {ran:?}"
        );
    }
    assert!((0..101).contains(&ran.code), "{what}: {ran:?}");
}

/// Where the texts of a document are.
fn texts(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(at.to_owned()),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, item)| texts(item, &format!("{at}/{number}"), found));
        }
        Value::Object(fields) => {
            fields.iter().for_each(|(name, field)| texts(field, &format!("{at}/{name}"), found));
        }
        _ => {}
    }
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// As its owner would: the check, if it has one, is right.
fn forge(path: &Path, mut document: Value) {
    if document.get("check").is_some() {
        document["check"] = checker::check_of(&document).into();
    }
    fs::remove_file(path).unwrap();
    fs::write(path, document.to_string()).unwrap();
}

/// A profile with two snapshots, a label, a note, a lock, and something in its log.
fn told() -> (TestHost, [String; 2]) {
    let host = TestHost::new();
    let first = host.capture("first");
    host.change("second");
    let stored = host.json("snapshot udd acme/alice --label key=value --notes note --reason manual");
    let second = stored["active_sha256_prefix"].as_str().unwrap().to_owned();
    host.acquire("run-1", "");
    host.ok("force-unlock acme/alice --reason stuck --confirm");
    host.acquire("run-2", "");
    (host, [first, second])
}

/// The current record.
fn record(host: &TestHost) -> PathBuf {
    let id = host.json("show acme/alice")["record"].as_str().unwrap().to_owned();
    host.object(&format!("snap-{id}.json"))
}

#[test]
fn no_verb_shows_a_forged_record_as_it_is() {
    let (host, [first, second]) = told();
    let path = record(&host);
    let mut document = read(&path);
    for field in ["notes", "chrome_last_version", "exit_type", "reason"] {
        document[field] = NASTY.into();
    }
    for field in ["host", "host_run_id", "writer_version"] {
        document["captured_by"][field] = NASTY.into();
    }
    document["labels"][NASTY] = NASTY.into();
    forge(&path, document);
    for line in [
        "list",
        "list acme",
        "list acme/alice",
        "show acme/alice",
        "log acme/alice",
        "verify acme/alice",
        "history acme/alice",
        "stats",
        "gc --dry-run",
        "gc acme --dry-run",
        "retention plan",
        &format!("diff acme/alice {first} {second}"),
        "lock show acme/alice",
        "reap",
    ] {
        for more in ["", " -vvv"] {
            let line = format!("{line}{more}");
            harmless(&host.run(&line), &line);
        }
    }
}

#[test]
fn no_field_of_any_document_reaches_a_terminal_raw() {
    let (host, _) = told();
    let events = fs::read_dir(host.object("events")).unwrap().next().unwrap().unwrap().path();
    let tenant = host.path(".local/share/pstore/store/objects/content/acme/tenant.json");
    let documents: [(PathBuf, &[&str]); 5] = [
        (record(&host), &["list acme/alice -v", "verify acme/alice --structure", "gc --dry-run -vvv"]),
        (host.object("latest.json"), &["list acme/alice", "show acme/alice", "gc --dry-run"]),
        (host.object("lock.json"), &["lock show acme/alice", "reap"]),
        (events, &["log acme/alice"]),
        (tenant, &["stats", "list acme"]),
    ];
    for (path, lines) in documents {
        let whole = read(&path);
        let mut places = Vec::new();
        texts(&whole, "", &mut places);
        assert!(places.len() > 2, "{}", path.display());
        for place in places {
            let mut document = whole.clone();
            *document.pointer_mut(&place).unwrap() = NASTY.into();
            forge(&path, document);
            for line in lines {
                harmless(&host.run(line), &format!("{place}: {line}"));
            }
        }
        // What this pstore cannot read is told with the name of who wrote it.
        let newer: [&dyn Fn(&mut Value); 3] = [
            &|document| document["version"] = 99.into(),
            &|document| document["features"] = serde_json::json!([NASTY]),
            &|document| {
                document["features"] = serde_json::json!({ "read": [NASTY], "write": [], "optional": [] })
            },
        ];
        for (number, change) in newer.into_iter().enumerate() {
            let mut document = whole.clone();
            document["writer"] = NASTY.into();
            change(&mut document);
            forge(&path, document);
            for line in lines {
                harmless(&host.run(line), &format!("newer {number}: {line}"));
            }
        }
        forge(&path, whole);
    }
}

#[test]
fn names_of_files_are_shown_on_one_line() {
    let host = TestHost::new();
    let first = host.capture("first");
    fs::write(host.path("udd").join(NASTY), noise(300_000)).unwrap();
    host.ok("snapshot udd acme/alice");
    harmless(&host.run(&format!("diff acme/alice {first}")), "diff");
    let packs = host.path(".local/share/pstore/store/objects/content/acme/packs");
    for pack in fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path()) {
        if !pack.to_str().unwrap().ends_with("-meta") {
            fs::remove_file(pack).unwrap();
        }
    }
    let ran = host.run("verify acme/alice --no-cache");
    assert_eq!(ran.code, 10, "{ran:?}");
    assert!(ran.stdout.contains(r"[2J"), "{ran:?}");
    harmless(&ran, "verify");
    harmless(&host.run("restore acme/alice out --no-cache -vvv"), "restore");
}

/// Of a server that is not there: what is said of it is said by everybody on the way.
fn asked(host: &TestHost, line: &str, endpoint: &str) -> Ran {
    let variables =
        [("PSTORE_RETRY_SECONDS", "0"), ("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    host.run_with(&format!("{line} --store s3://bucket/prefix --endpoint {endpoint}"), &variables)
}

#[test]
fn a_login_in_an_endpoint_is_shown_nowhere() {
    let host = TestHost::new();
    for (line, code) in [
        ("list -vvv", 14),
        ("list --json", 14),
        ("doctor", 14),
        ("config show", 0),
        ("config show --json", 0),
    ] {
        let ran = asked(&host, line, "http://me:hush@127.0.0.1:1");
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(!ran.stdout.contains("hush") && !ran.stderr.contains("hush"), "{line}: {ran:?}");
    }
    let ran = asked(&host, "list", "ftp://me:hush@127.0.0.1:1");
    assert!(ran.code == 2 && !ran.stderr.contains("hush"), "{ran:?}");
    assert!(
        asked(&host, "config show", "http://me:hush@127.0.0.1:1").stdout.contains("http://***@127.0.0.1:1")
    );
}

#[test]
fn requests_that_leave_the_host_in_the_clear_are_warned_of_once() {
    let host = TestHost::new();
    let told = |endpoint: &str| asked(&host, "list", endpoint).stderr.matches("are not encrypted").count();
    assert_eq!((told("http://0.0.0.0:1"), told("http://127.0.0.1:1"), told("https://0.0.0.0:1")), (1, 0, 0));
    assert_eq!(host.run("config show").stderr, "");
}
