//! Beside programs that know the contract's fields and nothing of pstore.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tests::stranger::{lock_of, pointer_to};

use crate::desk::Desk;

fn write_pointer(desk: &Desk, prefix: &str, from: &str) {
    fs::write(desk.object("latest.json"), pointer_to(prefix, from).to_string()).unwrap();
}

fn write_lock(desk: &Desk, ttl_ms: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let lock = lock_of("20260612_001523_aabbccdd", now, now + ttl_ms);
    fs::write(desk.object("lock.json"), lock.to_string()).unwrap();
}

fn pointer(desk: &Desk) -> Value {
    serde_json::from_slice(&fs::read(desk.object("latest.json")).unwrap()).unwrap()
}

#[test]
fn a_pointer_of_theirs_is_told_of_and_built_upon() {
    let desk = Desk::new();
    let first = desk.capture("first");
    write_pointer(&desk, "aaaaaaaaaaaa", &first);
    let ran = desk.run("list acme/alice --json");
    assert!(ran.stderr.contains("another program has moved the pointer"), "{ran:?}");
    let list = ran.json();
    assert_eq!((&list["foreign"], &list["active_sha256_prefix"]), (&true.into(), &"aaaaaaaaaaaa".into()));
    assert_eq!(list["snapshots"][0]["latest"], false);
    desk.run("show acme/alice")
        .refused(2, &["archive aaaaaaaaaaaa, which another program", "`pstore import --current acme/alice"]);
    desk.run("import --current acme/alice")
        .refused(10, &["profile-aaaaaaaaaaaa.manifest.json is damaged: it is missing"]);
    desk.ok(&format!("show acme/alice --sha {first}"));
    desk.ok(&format!("restore acme/alice out --sha {first}"));

    let second = desk.capture("second");
    assert_eq!(pointer(&desk)["flipped_from_sha256_prefix"], "aaaaaaaaaaaa");
    assert_eq!(pointer(&desk)["active_sha256_prefix"], second.as_str());
    let event = desk.event("foreign_flip");
    assert_eq!(
        (&event["from_sha256_prefix"], &event["to_sha256_prefix"]),
        (&first.into(), &"aaaaaaaaaaaa".into())
    );
}

#[test]
fn a_chain_of_theirs_is_no_fork_but_a_gap_is() {
    let desk = Desk::new();
    let first = desk.capture("first");
    write_pointer(&desk, "aaaaaaaaaaaa", &first);
    let token = desk.acquire("looks", "");
    desk.ok(&format!("lock release acme/alice --token {token}"));
    write_pointer(&desk, "bbbbbbbbbbbb", "aaaaaaaaaaaa");
    desk.capture("second");
    assert_eq!(desk.event("foreign_flip")["to_sha256_prefix"], "bbbbbbbbbbbb");
    assert!(desk.events().iter().all(|event| event["kind"] != "foreign_fork"), "{:#?}", desk.events());

    // A stale writer overwrites ours: it has not seen it.
    write_pointer(&desk, "cccccccccccc", "bbbbbbbbbbbb");
    desk.capture("third");
    let fork = desk.event("foreign_fork");
    assert_eq!(
        (&fork["from_sha256_prefix"], &fork["to_sha256_prefix"]),
        (&"bbbbbbbbbbbb".into(), &"cccccccccccc".into())
    );
    assert!(fork["reason"].as_str().unwrap().starts_with("the pointer named "), "{fork}");
    assert_eq!(
        desk.json("list acme/alice")["snapshots"].as_array().unwrap().len(),
        3,
        "no record is lost to it"
    );
}

#[test]
fn a_lock_of_theirs_is_respected_until_it_expires() {
    let desk = Desk::new();
    desk.capture("first");
    write_lock(&desk, 300_000);
    let shown = desk.json("lock show acme/alice");
    assert_eq!(
        (&shown["state"], &shown["pstore"], &shown["claimed"]),
        (&"held".into(), &false.into(), &false.into())
    );
    assert_eq!((&shown["holder_host"], &shown["renewal_count"]), (&"e2b".into(), &17.into()));
    assert!(desk.ok("lock show acme/alice").contains("by        a program other than pstore\n"));
    desk.change("second");
    desk.run("snapshot udd acme/alice").refused(24, &["20260612_001523_aabbccdd", "renewed 17 times"]);
    assert_eq!(desk.json("reap --grace 0")["left"], 1);

    write_lock(&desk, 500);
    desk.ok("snapshot udd acme/alice --wait 30");
    let event = desk.event("lock_evicted");
    assert_eq!((&event["holder_host"], &event["reason"]), (&"e2b".into(), &"ttl_expired".into()));
}

#[test]
fn what_pstore_writes_has_every_field_of_the_contract() {
    let desk = Desk::new();
    let first = desk.capture("first");
    desk.acquire("run-1", "--host e2b --host-run-id x");
    let written: Value = serde_json::from_slice(&fs::read(desk.object("lock.json")).unwrap()).unwrap();
    for (field, value) in [
        ("version", json!(1)),
        ("holder_run_id", json!("run-1")),
        ("holder_host", json!("e2b")),
        ("renewal_count", json!(0)),
    ] {
        assert_eq!(written[field], value);
    }
    let (renewed, expires) =
        (written["renewed_at_ms"].as_u64().unwrap(), written["expires_at_ms"].as_u64().unwrap());
    assert_eq!(expires - renewed, 300_000);
    let pointer = pointer(&desk);
    assert_eq!(pointer["active_archive_key"], format!("snapshots/acme/alice/131/profile-{first}.tar.zst"));
    assert_eq!((&pointer["version"], &pointer["flipped_from_sha256_prefix"]), (&1.into(), &"".into()));
}

/// A contract-only reaper deletes whatever it takes for expired.
#[test]
fn their_reaper_costs_a_holder_nothing_but_its_lock() {
    let desk = Desk::new();
    desk.capture("first");
    let token = desk.acquire("mine", "");
    fs::remove_file(desk.object("lock.json")).unwrap();
    desk.change("second");
    desk.run(&format!("snapshot udd acme/alice --lock-token {token}")).refused(25, &["was lost"]);
    desk.ok("snapshot udd acme/alice");
}
