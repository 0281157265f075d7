//! These tests compare the documents with docs/json.md, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::test_host::TestHost;

const DOCUMENTED: &str = include_str!("../../../docs/json.md");

/// The fields in the first column of a section's table.
fn documented(verb: &str) -> BTreeSet<&'static str> {
    let heading = format!("\n## {verb}\n");
    let section = DOCUMENTED.split(&heading).nth(1).unwrap_or_else(|| panic!("{verb} is not documented"));
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    cells.flat_map(|cell| cell.split(',').map(|name| name.trim().trim_matches('`'))).collect()
}

fn fields(document: &Value) -> BTreeSet<&str> {
    document.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn documents_have_the_documented_fields() {
    let host = TestHost::new();
    for (verb, line) in [
        ("init", "init"),
        ("snapshot", "snapshot udd acme/alice"),
        ("snapshot", "snapshot udd acme/alice"),
        ("list", "list acme/alice"),
        ("history", "history acme/alice"),
        ("restore", "restore acme/alice out"),
        ("verify", "verify acme/alice"),
        ("stats", "stats"),
        ("doctor", "doctor"),
        ("config show", "config show"),
        ("completions", "completions bash"),
        ("man", "man pages"),
    ] {
        assert_eq!(fields(&host.json(line)), documented(verb), "{line}");
    }
}

#[test]
fn lines_of_documents_have_the_documented_fields() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let mentioned = |document: &Value| {
        for field in fields(document) {
            assert!(DOCUMENTED.contains(&format!("`{field}`")), "{field} is not documented");
        }
    };
    mentioned(&host.json("list acme/alice")["snapshots"][0]);
    mentioned(&host.json("list acme"));
    mentioned(&host.json("list acme")["profiles"][0]);
    mentioned(&host.json("list"));
    mentioned(&host.json("stats acme")["tenants"][0]);
    mentioned(&host.json("stats")["total"]["kinds"]);
    mentioned(&host.json("doctor")["checks"][0]);
    mentioned(&host.json("config show")["settings"][0]);
    mentioned(&host.json("man"));
    mentioned(&host.json("history acme/alice")["snapshots"][0]);
    mentioned(&host.json("history acme/alice")["end"]);
    let first = host.json("show acme/alice")["content"]["snapshot_id"].as_str().unwrap().to_owned();
    std::fs::write(host.path("udd/more"), "more").unwrap();
    host.ok("snapshot udd acme/alice");
    let diff = host.json(&format!("diff acme/alice {first}"));
    assert_eq!(fields(&diff), documented("diff"));
    mentioned(&diff["before"]);
    mentioned(&diff["changes"][0]);
    let record = host.json("show acme/alice");
    for field in ["captured_at_ms", "uncompressed_size_bytes", "archive_sha256", "captured_by", "content"] {
        assert!(record.get(field).is_some(), "{field}");
    }
}

#[test]
fn values_mean_what_they_should() {
    let host = TestHost::new();
    let first = host.json("snapshot udd acme/alice");
    assert_eq!(first["outcome"], "stored");
    assert_eq!(first["pointer"], "flipped");
    assert_eq!(first["flipped_from_sha256_prefix"], "");
    assert_eq!(first["chrome_major_version"], 131);
    let again = host.json("snapshot udd acme/alice --rescan");
    assert_eq!((&again["outcome"], &again["snapshot_id"]), (&"unchanged".into(), &first["snapshot_id"]));
    let list = host.json("list acme/alice");
    assert_eq!(list["active_sha256_prefix"], first["active_sha256_prefix"]);
    assert_eq!(list["snapshots"][0]["latest"], true);
    let total = &host.json("stats")["total"];
    assert_eq!((&total["profiles"], &total["snapshots"]), (&1.into(), &1.into()));
    assert_eq!(total["uncompressed_size_bytes"], first["uncompressed_size_bytes"]);
}

#[test]
fn a_failure_is_a_document_too() {
    let host = TestHost::new();
    for (line, code, kind) in [
        ("list acme/alice", 3, "not_found"),
        ("list a:b", 2, "invalid_input"),
        ("frobnicate", 2, "invalid_input"),
        ("list --store ftp://x", 2, "invalid_input"),
    ] {
        let ran = host.run(&format!("{line} --json"));
        let document = ran.json();
        assert_eq!((ran.code, &document["error"]["kind"]), (code, &kind.into()), "{line}");
        assert_eq!(document["error"]["exit_code"], code);
        assert_eq!(fields(&document["error"]), ["exit_code", "hint", "kind", "message"].into());
    }
}
