//! These tests compare two snapshots.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
};

use serde_json::{Value, json};

use crate::{
    chrome,
    test_host::{TestHost, noise},
};

/// Two snapshots with one of every change between them; the id of the first.
fn changed() -> (TestHost, String) {
    let host = TestHost::new();
    fs::write(host.path("udd/gone"), noise(20_000)).unwrap();
    fs::write(host.path("udd/mode"), "x").unwrap();
    fs::write(host.path("udd/kind"), "x").unwrap();
    let first = host.run("snapshot -q udd acme/alice").stdout.trim().to_owned();
    let mut history = noise(300_000);
    history.extend(b"more");
    fs::write(host.path("udd/Default/History"), history).unwrap();
    fs::remove_file(host.path("udd/gone")).unwrap();
    fs::set_permissions(host.path("udd/mode"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(host.path("udd/kind")).unwrap();
    symlink("elsewhere", host.path("udd/kind")).unwrap();
    fs::write(host.path("udd").join(OsStr::from_bytes(b"new\n\xff")), "tiny").unwrap();
    host.ok("snapshot udd acme/alice");
    (host, first)
}

#[test]
fn every_change_has_its_sign_and_the_last_line_the_totals() {
    let (host, first) = changed();
    let text = host.ok(&format!("diff acme/alice {}", &first[..10]));
    let lines: Vec<&str> = text.lines().collect();
    let line =
        |start: &str| *lines.iter().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{text}"));
    assert!(line("M Default/History  293.0 KiB -> 293.0 KiB, ").ends_with(" KiB new"), "{text}");
    assert_eq!(line("- gone"), "- gone  19.5 KiB");
    assert_eq!(line("m mode"), "m mode  mode");
    assert_eq!(line("T kind"), "T kind  file -> symlink");
    assert_eq!(line("+ "), r#"+ "new\n\xff"  4 B, 4 B new"#);
    assert_eq!(line("m ."), "m .  mtime");
    let total = lines.last().unwrap();
    assert!(total.starts_with(&format!("{} to ", &first[..12])), "{total}");
    assert!(
        total.contains(": 1 added, 1 removed, 1 changed, 2 in metadata alone, 1 something else now; "),
        "{total}"
    );
    assert_eq!(host.ok(&format!("diff acme/alice {first} --stat")), format!("{total}\n"));
}

#[test]
fn the_document_loses_no_name_and_no_number() {
    let (host, first) = changed();
    let document = host.json(&format!("diff acme/alice {first}"));
    for (field, count) in
        [("added", 1), ("removed", 1), ("changed", 1), ("metadata_changed", 2), ("type_changed", 1)]
    {
        assert_eq!(document[field], count, "{field}");
    }
    assert_eq!(document["unchanged"], 3);
    assert_eq!(document["before"]["snapshot_id"], first.as_str());
    let changes = document["changes"].as_array().unwrap();
    let change = |kind: &str| changes.iter().find(|change| change["change"] == kind).unwrap();
    let expected = json!({
        "change": "added",
        "path": "new\n\u{fffd}",
        "path_hex": "6e65770aff",
        "kind_before": null,
        "kind_after": "file",
        "size_before": null,
        "size_after": 4,
        "gone_bytes": 0,
        "new_bytes": 4,
        "metadata": [],
    });
    assert_eq!(change("added"), &expected);
    let content = change("content");
    assert_eq!((&content["path"], &content["path_hex"]), (&json!("Default/History"), &Value::Null));
    assert_eq!((&content["size_before"], &content["size_after"]), (&json!(300_000), &json!(300_004)));
    // Chunks are cut by content: what did not change is shared.
    assert!(content["new_bytes"].as_u64().unwrap() < 150_000, "{content}");
    assert_eq!(host.json(&format!("diff acme/alice {first} --stat"))["changes"], Value::Null);
}

#[test]
fn two_snapshots_are_compared_in_the_order_they_are_named() {
    let (host, first) = changed();
    let second = host.run("show -q acme/alice").stdout.trim().to_owned();
    let there = host.json(&format!("diff acme/alice {first} {second}"));
    assert_eq!(there, host.json(&format!("diff acme/alice {first}")));
    assert_eq!(there, host.json(&format!("diff acme/alice@{first} acme/alice@{second}")));
    assert_eq!(there, host.json(&format!("diff acme/alice@{first} acme/alice")));
    let other = host.run(&format!("diff acme/alice@{first} acme/bob@{second}"));
    other.refused(2, &["is not a snapshot of acme/alice", "`pstore list acme/alice`"]);
    let back = host.json(&format!("diff acme/alice {second} {first}"));
    assert_eq!((&back["new_bytes"], &back["gone_bytes"]), (&there["gone_bytes"], &there["new_bytes"]));
    let same = host.ok(&format!("diff acme/alice {second}"));
    assert!(same.contains(": no difference; ") && same.lines().count() == 1, "{same}");
    host.run("diff acme/alice").refused(2, &["the earlier one", "`pstore diff acme/alice@latest~1`"]);
    host.run("diff acme/alice a b c").refused(2, &["'c'"]);
    host.run("diff acme/alice@a b c").refused(2, &["c is the third"]);
    host.run("diff acme/alice x~1").refused(2, &["names no snapshot", "latest~2"]);
    host.run("diff acme/alice xyz").refused(3, &["does not exist", "`pstore list acme/alice"]);
    host.run("diff acme/alice ffffffffffffffff").refused(3, &["does not exist", "`pstore list acme/alice"]);
}

#[test]
fn content_is_not_needed() {
    let (host, first) = changed();
    let packs = host.path(".local/share/pstore/store/objects/content/acme/packs");
    for pack in fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path()) {
        if !pack.to_string_lossy().ends_with("-meta") {
            fs::remove_file(pack).unwrap();
        }
    }
    host.ok(&format!("diff acme/alice {first} --no-cache"));
}

/// A directory of Chrome's, as far as these tests need one.
fn profile(host: &TestHost, cookies: &str, preferences: &str) {
    chrome::cookies(&host.path("udd/Default/Cookies"), cookies);
    fs::write(host.path("udd/Default/Preferences"), preferences).unwrap();
}

#[test]
fn a_person_is_told_of_cookies_extensions_storage_and_settings_and_of_no_value() {
    let host = TestHost::new();
    let id = "abcdefghijklmnopabcdefghijklmnop";
    let far = 13_900_000_000_000_000_u64 * 2;
    let old = format!("('.a.test', 'sid', 'hush', x'', '/', {far}), ('b.test', 'x', 'hush', x'', '/', 0)");
    profile(&host, &old, r#"{"homepage": "hush", "browser": {"theme": 1}}"#);
    chrome::local_storage(&host.path("udd/Default"), &["_https://left.test\0hush", "VERSION"]);
    fs::create_dir_all(host.path(&format!("udd/Default/Extensions/{id}/1.0_0"))).unwrap();
    let first = host.run("snapshot -q udd acme/alice --allow-shrink").stdout.trim().to_owned();
    let new = format!("('.a.test', 'sid', 'hush', x'', '/', {far}), ('.a.test', 'two', 'hush', x'', '/', 1)");
    profile(&host, &new, r#"{"homepage": "other", "browser": {"theme": 1}}"#);
    fs::remove_dir_all(host.path(&format!("udd/Default/Extensions/{id}"))).unwrap();
    chrome::local_storage(&host.path("udd/Default"), &["_http://came.test:81\0hush"]);
    fs::create_dir_all(host.path("udd/Default/IndexedDB/https_app.test_0.indexeddb.leveldb")).unwrap();
    host.ok("snapshot udd acme/alice --allow-shrink");
    let text = host.ok(&format!("diff acme/alice@{} --profile", &first[..12]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..lines.len() - 1],
        [
            "cookies     a.test  1 -> 2: 1 added, 1 expiring within 7 days",
            "cookies     b.test  1 -> 0: 1 gone",
            &format!("extension   - {id} 1.0_0"),
            "storage     + https://app.test",
            "storage     + http://came.test:81 (Local Storage)",
            "storage     - https://left.test (Local Storage)",
            "setting     Default/Preferences: homepage",
        ],
        "{text}"
    );
    let document = host.json(&format!("diff acme/alice@{} --profile", &first[..12]));
    assert_eq!(document["profile"]["cookies"][0]["sites"][0]["added"], 1);
    assert_eq!(document["profile"]["local_storage"][0]["added"], json!(["http://came.test:81"]));
    assert!(!text.contains("hush") && !document.to_string().contains("hush"));
    // Nothing of it is left.
    assert!(!document.to_string().contains("sid"));
}
