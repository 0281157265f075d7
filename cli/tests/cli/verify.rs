//! These tests check a part of a store, and make good what can be.

use std::fs;

use crate::test_host::TestHost;

fn indexes(host: &TestHost) -> Vec<std::path::PathBuf> {
    let folder = host.path(".local/share/pstore/store/objects/content/acme/index");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_lost_index_is_written_anew_from_what_packs_hold() {
    let host = TestHost::new();
    host.capture("1");
    let before = indexes(&host);
    assert_eq!(before.len(), 1);
    for damage in [None, Some("damage")] {
        for index in indexes(&host) {
            match damage {
                None => fs::remove_file(index).unwrap(),
                Some(bytes) => fs::write(index, bytes).unwrap(),
            }
        }
        host.run("verify acme/alice --no-cache").refused(10, &["damaged"]);
        let repaired = host.run("verify acme/alice --no-cache --repair --json");
        assert_eq!((repaired.code, &repaired.json()["outcome"]), (36, &"repaired".into()), "{repaired:?}");
        assert_eq!(indexes(&host).len(), 1);
        host.ok("verify acme/alice --no-cache");
    }
    // What it says is right: another profile shares all content.
    let other = host.json("snapshot udd acme/other --no-cache");
    assert_eq!(other["new_chunks"], 0, "{other}");
}

/// Changes a byte of the largest pack.
fn damage_a_pack(host: &TestHost) {
    let packs = host.path(".local/share/pstore/store/objects/content/acme/packs");
    let largest = fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path());
    let largest = largest.max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    bytes[1000] ^= 1;
    fs::write(&largest, bytes).unwrap();
}

fn history(host: &TestHost, below: &str) -> Vec<u8> {
    fs::read(host.path(below).join("Default/History")).unwrap()
}

#[test]
fn what_another_pack_has_too_is_repaired_from_there() {
    let host = TestHost::new();
    host.capture("1");
    // Without an index, another profile stores all of it once more.
    indexes(&host).iter().for_each(|index| fs::remove_file(index).unwrap());
    assert_ne!(host.json("snapshot udd acme/bob --no-cache")["new_chunks"], 0);
    host.run("verify acme/alice --no-cache --repair").refused(36, &["is whole again"]);
    damage_a_pack(&host);
    let (alice, bob) = (host.run("verify acme/alice --no-cache"), host.run("verify acme/bob --no-cache"));
    let whose = if alice.stdout.contains("Default/History") { "alice" } else { "bob" };
    assert!(alice.stdout.contains("Default/History") != bob.stdout.contains("Default/History"));
    let repaired = host.run(&format!("verify acme/{whose} --no-cache --repair"));
    repaired.refused(36, &["is whole again"]);
    assert!(repaired.stdout.contains("repaired: content/acme/packs/"), "{repaired:?}");
    host.ok(&format!("verify acme/{whose} --no-cache"));
    host.ok(&format!("restore acme/{whose} out --no-cache"));
    assert_eq!(history(&host, "out"), history(&host, "udd"));
    host.ok("gc --grace 0 --wait --max-unused 0");
    host.ok("verify acme/alice --no-cache");
    host.ok("verify acme/bob --no-cache");
}

#[test]
fn what_is_lost_is_marked_told_and_stored_anew_by_the_next_snapshot() {
    let host = TestHost::new();
    let prefix = host.capture("1");
    damage_a_pack(&host);
    let ran = host.run("verify acme/alice --no-cache --repair");
    ran.refused(10, &["is damaged"]);
    assert!(ran.stdout.contains("  file       Default/History\n"), "{ran:?}");
    assert!(ran.stdout.contains(&format!("marked as damaged: {prefix}\n")), "{ran:?}");
    let told = format!("warning: snapshot {prefix} is damaged: 1 of its 4 files cannot be read");
    host.run("list acme/alice")
        .refused(0, &[&told, "`pstore verify acme/alice --chrome-major 131` names them"]);
    assert_eq!(host.json("list acme/alice")["snapshots"][0]["damaged_files"], 1);
    let shown = host.ok("show acme/alice");
    assert!(shown.contains("damaged   1 of 4 files cannot be read, found 20"), "{shown}");
    assert_eq!(host.json("show acme/alice")["damage"]["files"], 1);
    host.run("restore acme/alice out --no-cache").refused(10, &[&told]);
    host.run("restore acme/alice out --no-cache --chrome-major 131 --require").refused(10, &[]);
    assert!(!host.path("out").exists());

    let again = host.json("snapshot udd acme/alice");
    assert_eq!((&again["outcome"], &again["sha256_prefix"]), (&"stored".into(), &prefix.as_str().into()));
    assert_ne!(again["new_chunks"], 0);
    host.ok("restore acme/alice out --no-cache");
    assert_eq!(history(&host, "out"), history(&host, "udd"));
    let repaired = host.run("verify acme/alice --no-cache --repair --json");
    assert_eq!((repaired.code, &repaired.json()["marked"]), (36, &serde_json::json!([])), "{repaired:?}");
    let listed = host.run("list acme/alice");
    assert!(listed.code == 0 && !listed.stderr.contains("damaged"), "{listed:?}");
    assert_eq!(host.json("snapshot udd acme/alice")["outcome"], "unchanged");
}

#[test]
fn a_share_of_the_content_is_another_one_each_day() {
    let host = TestHost::new();
    host.capture("1");
    let all = host.json("verify acme/alice --no-cache");
    let part = host.json("verify acme/alice --no-cache --read-data=10%");
    assert_eq!((&all["sample"], &part["sample"]["of"]), (&serde_json::Value::Null, &10.into()));
    assert!(part["read_bytes"].as_u64() <= all["read_bytes"].as_u64());
    assert_eq!(host.json("verify acme/alice --no-cache --read-data=100%")["read_bytes"], all["read_bytes"]);
    assert_eq!(host.json("verify acme/alice --no-cache --structure")["read_bytes"], 0);
    let week = host.json("verify acme/alice --no-cache --read-data=1/7");
    assert!(week["read_bytes"].as_u64() <= all["read_bytes"].as_u64(), "{week}");
    assert_eq!(host.json("verify acme/alice --no-cache --read-data=1/1")["read_bytes"], all["read_bytes"]);
    host.run("verify acme/alice --read-data=0%").refused(2, &["1% to 100%"]);
    host.run("verify acme/alice --read-data=1/0").refused(2, &["1/1 to 1/1000"]);
}

/// Three profiles of two tenants, two of which share all content.
fn tenants() -> TestHost {
    let host = TestHost::new();
    host.capture("1");
    host.ok("snapshot udd acme/bob");
    host.ok("snapshot udd other/carol");
    host
}

#[test]
fn a_tenant_and_the_whole_store_are_checked_and_what_is_shared_is_read_once() {
    let host = tenants();
    let alone = host.json("verify acme/alice --no-cache");
    let tenant = host.json("verify acme --no-cache");
    assert_eq!((&tenant["outcome"], &tenant["snapshots"]), (&"whole".into(), &2.into()));
    assert_eq!((&tenant["tenant_id"], &tenant["profile_id"]), (&"acme".into(), &serde_json::Value::Null));
    assert_eq!(tenant["read_bytes"], alone["read_bytes"], "bob has nothing that alice has not");
    assert_eq!(tenant["chunks"], alone["chunks"]);
    let all = host.json("verify --no-cache");
    let profiles: Vec<_> =
        all["profiles"].as_array().unwrap().iter().map(|line| &line["profile_id"]).collect();
    assert_eq!(profiles, ["alice", "bob", "carol"]);
    assert_eq!((&all["snapshots"], &all["failed"]), (&3.into(), &serde_json::json!([])));
    let text = host.ok("verify acme --structure");
    assert!(
        text.starts_with("No damage found in 2 profiles of acme (all metadata, but no content)\n"),
        "{text}"
    );
    assert!(host.ok("verify").starts_with("No damage found in 3 profiles of 2 tenants (every byte)\n"));
    host.run("verify nobody").refused(3, &["nobody does not exist", "acme, other"]);
    host.run("verify acme --sha 3f")
        .refused(2, &["--sha is about one profile", "`pstore verify acme/PROFILE"]);
    host.run("verify --chrome-major 131").refused(2, &["TENANT[/PROFILE[@REF]]"]);
}

#[test]
fn what_is_damaged_is_named_with_every_profile_that_needs_it_and_repaired_for_all() {
    let host = tenants();
    damage_a_pack(&host);
    let ran = host.run("verify --no-cache --json");
    ran.refused(10, &["the store is damaged: 1 finding"]);
    let found = ran.json();
    let snapshots = found["damage"][0]["snapshots"].as_array().unwrap();
    assert!(snapshots[0].as_str().unwrap().starts_with("acme/alice@"), "{found:#}");
    assert!(snapshots[1].as_str().unwrap().starts_with("acme/bob@"), "{found:#}");
    let outcomes: Vec<_> =
        found["profiles"].as_array().unwrap().iter().map(|line| &line["outcome"]).collect();
    assert_eq!(outcomes, ["damaged", "damaged", "whole"]);
    host.run("verify acme --repair --no-cache").refused(10, &["acme is damaged"]);
    // The next snapshot stores it once more, and the others are healed from that.
    host.ok("snapshot udd acme/alice");
    let repaired = host.run("verify acme --repair --json");
    repaired.refused(36, &["acme was damaged and is whole again"]);
    assert_eq!(repaired.json()["profiles"][1]["outcome"], "repaired");
    host.ok("verify --no-cache");
}

#[test]
fn a_tenant_that_cannot_be_checked_keeps_no_other_from_its_turn() {
    let host = tenants();
    fs::write(host.path(".local/share/pstore/store/objects/content/other/tenant.json"), "{").unwrap();
    let ran = host.run("verify --no-cache --json");
    ran.refused(40, &["1 of 2 tenants failed, and the others are done: other", "other is passed over"]);
    assert!(!ran.stderr.contains("`pstore verify"), "nobody is sent where they are: {ran:?}");
    let found = ran.json();
    assert_eq!((&found["snapshots"], &found["failed"][0]["tenant_id"]), (&2.into(), &"other".into()));
    let alone = host.run("verify other");
    alone.refused(10, &["tenant.json is damaged", "from a backup"]);
    assert!(!alone.stderr.contains("`pstore verify"), "{alone:?}");
    damage_a_pack(&host);
    host.run("verify --no-cache").refused(10, &["the store is damaged", "1 of 2 tenants failed"]);
}
