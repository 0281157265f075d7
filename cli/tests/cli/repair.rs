//! These tests damage a profile's pointer: every command names the repair, and `pstore rollback --force` makes it.

use std::fs;

use crate::test_host::TestHost;

const REPAIR: &str =
    "`pstore rollback acme/alice --chrome-major 131 --sha PREFIX --force --confirm` writes a new pointer";

#[test]
fn a_damaged_pointer_is_told_with_its_repair_and_repaired_by_that() {
    let host = TestHost::new();
    let (first, second) = (host.capture("one"), host.capture("two"));
    for damage in ["", "{", "\0\0\0\0", r#"{"version":1}"#] {
        fs::write(host.object("latest.json"), damage).unwrap();
        let listed = host.run("list acme/alice");
        listed.refused(0, &["warning: ", "latest.json is damaged", "is current is not known", REPAIR]);
        assert!(listed.stdout.contains(&first) && listed.stdout.contains(&second), "{listed:?}");
        let document = host.json("list acme/alice");
        assert_eq!(document["snapshots"].as_array().unwrap().len(), 2);
        assert_eq!(document["active_sha256_prefix"], "");
        assert!(document["pointer_damage"].as_str().unwrap().contains("latest.json is damaged"));

        for line in [
            "show acme/alice",
            "snapshot udd acme/alice",
            "restore acme/alice out",
            "lock acquire acme/alice",
            "run acme/alice --require -- touch started",
            &format!("delete acme/alice --sha {first}"),
        ] {
            host.run(line).refused(10, &["latest.json is damaged", REPAIR]);
        }
        assert!(!host.path("started").exists());
        // What is named is found without it.
        host.ok(&format!("show acme/alice --sha {first}"));
        host.ok(&format!("diff acme/alice {first} {second} --stat"));

        let rollback = format!("rollback acme/alice --sha {first} --reason fix");
        host.run(&format!("{rollback} --confirm")).refused(10, &["--force writes a new one in its place"]);
        let planned = host.ok(&format!("{rollback} --force"));
        assert!(planned.contains("from      a pointer that is damaged\n"), "{planned}");
        assert_eq!(fs::read_to_string(host.object("latest.json")).unwrap(), damage);
        let done = host.json(&format!("{rollback} --force --confirm"));
        assert_eq!(
            (&done["outcome"], &done["active_sha256_prefix"]),
            (&"rolled_back".into(), &first.as_str().into())
        );

        let event = host.event("rollback");
        assert_eq!(event["reason"], "fix (over a pointer that was damaged)");
        assert_eq!(event["to_sha256_prefix"], first.as_str());
        assert_eq!(host.json("list acme/alice")["active_sha256_prefix"], first.as_str());
        assert_eq!(host.json("verify acme/alice --read-data")["outcome"], "whole");
        host.ok(&format!("rollback acme/alice --sha {second} --confirm"));
    }
    host.ok("snapshot udd acme/alice");
}

#[test]
fn a_load_that_finds_a_damaged_pointer_tells_the_repair() {
    let host = TestHost::new();
    host.capture("one");
    fs::write(host.object("latest.json"), "{").unwrap();
    let loaded = host.run("restore acme/alice out --chrome-major 131");
    loaded.refused(0, &["sha_mismatch: starting with an empty profile", "latest.json is damaged", REPAIR]);
}

#[test]
fn a_pointer_of_a_newer_pstore_is_left_alone() {
    let host = TestHost::new();
    let first = host.capture("one");
    let newer = r#"{"version": 2, "writer": "pstore 9.0.0"}"#;
    fs::write(host.object("latest.json"), newer).unwrap();
    host.run(&format!("rollback acme/alice --sha {first} --force --confirm")).refused(11, &["pstore 9.0.0"]);
    assert_eq!(fs::read_to_string(host.object("latest.json")).unwrap(), newer);
}
