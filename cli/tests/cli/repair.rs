//! These tests give an operator a damaged pointer.

use std::fs;

use crate::desk::Desk;

const REPAIR: &str =
    "`pstore rollback acme/alice --chrome-major 131 --sha PREFIX --force --confirm` writes a new pointer";

#[test]
fn a_damaged_pointer_is_told_with_its_repair_and_repaired_by_that() {
    let desk = Desk::new();
    let (first, second) = (desk.capture("one"), desk.capture("two"));
    for damage in ["", "{", "\0\0\0\0", r#"{"version":1}"#] {
        fs::write(desk.object("latest.json"), damage).unwrap();
        let listed = desk.run("list acme/alice");
        listed.refused(0, &["warning: ", "latest.json is damaged", "is current is not known", REPAIR]);
        assert!(listed.stdout.contains(&first) && listed.stdout.contains(&second), "{listed:?}");
        let document = desk.json("list acme/alice");
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
            desk.run(line).refused(10, &["latest.json is damaged", REPAIR]);
        }
        assert!(!desk.path("started").exists());
        // What is named is found without it.
        desk.ok(&format!("show acme/alice --sha {first}"));
        desk.ok(&format!("diff acme/alice {first} {second} --stat"));

        let rollback = format!("rollback acme/alice --sha {first} --reason fix");
        desk.run(&format!("{rollback} --confirm")).refused(10, &["--force writes a new one in its place"]);
        let planned = desk.ok(&format!("{rollback} --force"));
        assert!(planned.contains("from      a pointer that is damaged\n"), "{planned}");
        assert_eq!(fs::read_to_string(desk.object("latest.json")).unwrap(), damage);
        let done = desk.json(&format!("{rollback} --force --confirm"));
        assert_eq!(
            (&done["outcome"], &done["active_sha256_prefix"]),
            (&"rolled_back".into(), &first.as_str().into())
        );

        let event = desk.event("rollback");
        assert_eq!(event["reason"], "fix (over a pointer that was damaged)");
        assert_eq!(event["to_sha256_prefix"], first.as_str());
        assert_eq!(desk.json("list acme/alice")["active_sha256_prefix"], first.as_str());
        assert_eq!(desk.json("verify acme/alice --read-data")["outcome"], "whole");
        desk.ok(&format!("rollback acme/alice --sha {second} --confirm"));
    }
    desk.ok("snapshot udd acme/alice");
}

#[test]
fn a_load_that_finds_a_damaged_pointer_tells_the_repair() {
    let desk = Desk::new();
    desk.capture("one");
    fs::write(desk.object("latest.json"), "{").unwrap();
    let loaded = desk.run("restore acme/alice out --chrome-major 131");
    loaded.refused(0, &["sha_mismatch: starting with an empty profile", "latest.json is damaged", REPAIR]);
}

#[test]
fn a_pointer_of_a_newer_pstore_is_left_alone() {
    let desk = Desk::new();
    let first = desk.capture("one");
    let newer = r#"{"version": 2, "writer": "pstore 9.0.0"}"#;
    fs::write(desk.object("latest.json"), newer).unwrap();
    desk.run(&format!("rollback acme/alice --sha {first} --force --confirm")).refused(11, &["pstore 9.0.0"]);
    assert_eq!(fs::read_to_string(desk.object("latest.json")).unwrap(), newer);
}
