//! These tests compare the documents with docs/json.md, field by field.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::desk::Desk;

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
    let desk = Desk::new();
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
        assert_eq!(fields(&desk.json(line)), documented(verb), "{line}");
    }
}

#[test]
fn lines_of_documents_have_the_documented_fields() {
    let desk = Desk::new();
    desk.ok("snapshot udd acme/alice");
    let mentioned = |document: &Value| {
        for field in fields(document) {
            assert!(DOCUMENTED.contains(&format!("`{field}`")), "{field} is not documented");
        }
    };
    mentioned(&desk.json("list acme/alice")["snapshots"][0]);
    mentioned(&desk.json("list acme"));
    mentioned(&desk.json("list acme")["profiles"][0]);
    mentioned(&desk.json("list"));
    mentioned(&desk.json("stats acme")["tenants"][0]);
    mentioned(&desk.json("stats")["total"]["kinds"]);
    mentioned(&desk.json("doctor")["checks"][0]);
    mentioned(&desk.json("config show")["settings"][0]);
    mentioned(&desk.json("man"));
    mentioned(&desk.json("history acme/alice")["snapshots"][0]);
    mentioned(&desk.json("history acme/alice")["end"]);
    let first = desk.json("show acme/alice")["content"]["snapshot_id"].as_str().unwrap().to_owned();
    std::fs::write(desk.path("udd/more"), "more").unwrap();
    desk.ok("snapshot udd acme/alice");
    let diff = desk.json(&format!("diff acme/alice {first}"));
    assert_eq!(fields(&diff), documented("diff"));
    mentioned(&diff["before"]);
    mentioned(&diff["changes"][0]);
    let record = desk.json("show acme/alice");
    for field in ["captured_at_ms", "uncompressed_size_bytes", "archive_sha256", "captured_by", "content"] {
        assert!(record.get(field).is_some(), "{field}");
    }
}

#[test]
fn values_mean_what_they_should() {
    let desk = Desk::new();
    let first = desk.json("snapshot udd acme/alice");
    assert_eq!(first["outcome"], "stored");
    assert_eq!(first["pointer"], "flipped");
    assert_eq!(first["flipped_from_sha256_prefix"], "");
    assert_eq!(first["chrome_major_version"], 131);
    let again = desk.json("snapshot udd acme/alice --rescan");
    assert_eq!((&again["outcome"], &again["snapshot_id"]), (&"unchanged".into(), &first["snapshot_id"]));
    let list = desk.json("list acme/alice");
    assert_eq!(list["active_sha256_prefix"], first["active_sha256_prefix"]);
    assert_eq!(list["snapshots"][0]["latest"], true);
    let total = &desk.json("stats")["total"];
    assert_eq!((&total["profiles"], &total["snapshots"]), (&1.into(), &1.into()));
    assert_eq!(total["uncompressed_size_bytes"], first["uncompressed_size_bytes"]);
}

#[test]
fn a_failure_is_a_document_too() {
    let desk = Desk::new();
    for (line, code, kind) in [
        ("list acme/alice", 3, "not_found"),
        ("list a:b", 2, "invalid_input"),
        ("frobnicate", 2, "invalid_input"),
        ("list --store ftp://x", 2, "invalid_input"),
    ] {
        let ran = desk.run(&format!("{line} --json"));
        let document = ran.json();
        assert_eq!((ran.code, &document["error"]["kind"]), (code, &kind.into()), "{line}");
        assert_eq!(document["error"]["exit_code"], code);
        assert_eq!(fields(&document["error"]), ["exit_code", "hint", "kind", "message"].into());
    }
}
