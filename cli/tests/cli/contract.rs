//! These tests run beside programs that know the contract's fields and nothing of pstore.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};
use tests::{
    contract_client::{flip, lock_of, pointer_to},
    tarball::Tarball,
};

use crate::test_host::{TestHost, files};

fn write_pointer(host: &TestHost, prefix: &str, from: &str) {
    fs::write(host.object("latest.json"), pointer_to(prefix, from).to_string()).unwrap();
}

fn write_lock(host: &TestHost, ttl_ms: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let lock = lock_of("20260612_001523_aabbccdd", now, now + ttl_ms);
    fs::write(host.object("lock.json"), lock.to_string()).unwrap();
}

fn pointer(host: &TestHost) -> Value {
    serde_json::from_slice(&fs::read(host.object("latest.json")).unwrap()).unwrap()
}

#[test]
fn a_pointer_of_theirs_is_told_of_and_built_upon() {
    let host = TestHost::new();
    let first = host.capture("first");
    write_pointer(&host, "aaaaaaaaaaaa", &first);
    let ran = host.run("list acme/alice --json");
    assert!(ran.stderr.contains("another program has moved the pointer"), "{ran:?}");
    let list = ran.json();
    assert_eq!((&list["foreign"], &list["active_sha256_prefix"]), (&true.into(), &"aaaaaaaaaaaa".into()));
    assert_eq!(list["snapshots"][0]["latest"], false);
    host.run("show acme/alice")
        .refused(2, &["archive aaaaaaaaaaaa, which another program", "`pstore import --current acme/alice"]);
    host.run("import --current acme/alice")
        .refused(10, &["profile-aaaaaaaaaaaa.manifest.json is damaged: it is missing"]);
    host.ok(&format!("show acme/alice --sha {first}"));
    host.ok(&format!("restore acme/alice out --sha {first}"));

    let second = host.capture("second");
    assert_eq!(pointer(&host)["flipped_from_sha256_prefix"], "aaaaaaaaaaaa");
    assert_eq!(pointer(&host)["active_sha256_prefix"], second.as_str());
    let event = host.event("foreign_flip");
    assert_eq!(
        (&event["from_sha256_prefix"], &event["to_sha256_prefix"]),
        (&first.into(), &"aaaaaaaaaaaa".into())
    );
}

#[test]
fn a_chain_of_theirs_is_no_fork_but_a_gap_is() {
    let host = TestHost::new();
    let first = host.capture("first");
    write_pointer(&host, "aaaaaaaaaaaa", &first);
    let token = host.acquire("looks", "");
    host.ok(&format!("lock release acme/alice --token {token}"));
    write_pointer(&host, "bbbbbbbbbbbb", "aaaaaaaaaaaa");
    host.capture("second");
    assert_eq!(host.event("foreign_flip")["to_sha256_prefix"], "bbbbbbbbbbbb");
    assert!(host.events().iter().all(|event| event["kind"] != "foreign_fork"), "{:#?}", host.events());

    // A stale writer overwrites ours: it has not seen it.
    write_pointer(&host, "cccccccccccc", "bbbbbbbbbbbb");
    host.capture("third");
    let fork = host.event("foreign_fork");
    assert_eq!(
        (&fork["from_sha256_prefix"], &fork["to_sha256_prefix"]),
        (&"bbbbbbbbbbbb".into(), &"cccccccccccc".into())
    );
    assert!(fork["reason"].as_str().unwrap().starts_with("the pointer named "), "{fork}");
    assert_eq!(
        host.json("list acme/alice")["snapshots"].as_array().unwrap().len(),
        3,
        "no record is lost to it"
    );
}

#[test]
fn a_lock_of_theirs_is_respected_until_it_expires() {
    let host = TestHost::new();
    host.capture("first");
    write_lock(&host, 300_000);
    let shown = host.json("lock show acme/alice");
    assert_eq!(
        (&shown["state"], &shown["pstore"], &shown["claimed"]),
        (&"held".into(), &false.into(), &false.into())
    );
    assert_eq!((&shown["holder_host"], &shown["renewal_count"]), (&"e2b".into(), &17.into()));
    assert!(host.ok("lock show acme/alice").contains("by        a program other than pstore\n"));
    host.change("second");
    host.run("snapshot udd acme/alice").refused(24, &["20260612_001523_aabbccdd", "renewed 17 times"]);
    assert_eq!(host.json("reap --grace 0")["left"], 1);

    write_lock(&host, 500);
    host.ok("snapshot udd acme/alice --wait 30");
    let event = host.event("lock_evicted");
    assert_eq!((&event["holder_host"], &event["reason"]), (&"e2b".into(), &"ttl_expired".into()));
}

#[test]
fn what_pstore_writes_has_every_field_of_the_contract() {
    let host = TestHost::new();
    let first = host.capture("first");
    host.acquire("run-1", "--host e2b --host-run-id x");
    let written: Value = serde_json::from_slice(&fs::read(host.object("lock.json")).unwrap()).unwrap();
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
    let pointer = pointer(&host);
    assert_eq!(pointer["active_archive_key"], format!("snapshots/acme/alice/131/profile-{first}.tar.zst"));
    assert_eq!((&pointer["version"], &pointer["flipped_from_sha256_prefix"]), (&1.into(), &"".into()));
}

/// A contract-only reaper deletes whatever it takes for expired.
#[test]
fn their_reaper_costs_a_holder_nothing_but_its_lock() {
    let host = TestHost::new();
    host.capture("first");
    let token = host.acquire("mine", "");
    fs::remove_file(host.object("lock.json")).unwrap();
    host.change("second");
    host.run(&format!("snapshot udd acme/alice --lock-token {token}")).refused(25, &["was lost"]);
    host.ok("snapshot udd acme/alice");
}

/// Archives that only another program knows of, the last of them current; their prefixes.
fn theirs(host: &TestHost, contents: &[&str]) -> Vec<String> {
    let store = host.path(".local/share/pstore/store");
    let flipped = contents.iter().enumerate().map(|(at, content)| {
        let archive = Tarball::new().file("Default/note", content.as_bytes()).end().zstd();
        let pointer = flip(&store, &archive, |manifest| {
            manifest["captured_at_ms"] = (1_733_456_512_000_u64 + at as u64).into();
        });
        pointer["active_sha256_prefix"].as_str().unwrap().to_owned()
    });
    flipped.collect()
}

#[test]
fn archives_of_another_program_are_listed_shown_and_deleted() {
    let host = TestHost::new();
    let ours = host.capture("ours");
    let theirs = theirs(&host, &["one", "two", "three"]);
    let list = host.json("list acme/alice");
    let rows = list["snapshots"].as_array().unwrap();
    let told = |field: &str| rows.iter().map(|row| row[field].clone()).collect::<Vec<Value>>();
    assert_eq!(
        told("sha256_prefix"),
        [&ours, &theirs[0], &theirs[1], &theirs[2]].map(|prefix| json!(prefix))
    );
    assert_eq!(told("foreign"), [false, true, true, true].map(Value::from));
    assert_eq!(told("latest"), [false, false, false, true].map(Value::from));
    let text = host.ok("list acme/alice");
    assert_eq!(text.matches("archive of another program").count(), 3, "{text}");

    let shown = host.json(&format!("show acme/alice --sha {}", &theirs[0][..7]));
    assert_eq!((&shown["foreign"], &shown["notes"]), (&true.into(), &"from elsewhere".into()));
    assert_eq!(host.json("show acme/alice")["archive_sha256"].as_str().unwrap()[..12], theirs[2]);

    host.run(&format!("delete acme/alice --sha {} --reason test", theirs[2]))
        .refused(27, &["it is the current one", "pstore rollback acme/alice --chrome-major 131"]);
    let deleted = host.json(&format!("delete acme/alice --sha {} --reason test", theirs[0]));
    assert_eq!((&deleted["outcome"], &deleted["record"]), (&"deleted".into(), &Value::Null));
    assert!(!host.object(&format!("profile-{}.tar.zst", theirs[0])).exists());
    assert!(!host.object(&format!("profile-{}.manifest.json", theirs[0])).exists());
    assert!(host.object(&format!("profile-{}.tar.zst", theirs[1])).exists());
    assert_eq!(host.event("delete")["from_sha256_prefix"], theirs[0].as_str());
    host.run(&format!("show acme/alice --sha {}", theirs[0])).refused(3, &["pstore list acme/alice"]);
}

#[test]
fn archives_of_a_tenant_that_pstore_never_saw_are_listed_and_nothing_is_written() {
    let host = TestHost::new();
    host.ok("init");
    let theirs = theirs(&host, &["one", "two"]);
    let store = host.path(".local/share/pstore/store");
    let before = files(&store);
    let profiles = host.json("list acme");
    assert_eq!(
        profiles["profiles"],
        json!([{ "profile_id": "alice", "chrome_major_versions": [131], "deletion": null }])
    );
    let list = host.json("list acme/alice");
    let rows = list["snapshots"].as_array().unwrap();
    let told = |field: &str| rows.iter().map(|row| row[field].clone()).collect::<Vec<Value>>();
    assert_eq!(told("sha256_prefix"), [json!(theirs[0]), json!(theirs[1])]);
    assert_eq!((told("foreign"), told("latest")), (vec![json!(true); 2], vec![json!(false), json!(true)]));
    host.run("list acme/bob").refused(3, &["acme/bob"]);
    host.run("list other").refused(3, &["tenant other"]);
    assert!(files(&store) == before, "something was written");
}

#[test]
fn the_only_archive_of_another_program_is_kept() {
    let host = TestHost::new();
    host.capture("made, and gone without a trace");
    let only = theirs(&host, &["only"]).remove(0);
    let lineage = host.object("");
    for entry in fs::read_dir(&lineage).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("snap-") {
            fs::remove_file(path).unwrap();
        }
    }
    fs::remove_file(host.object("latest.json")).unwrap();
    host.run(&format!("delete acme/alice --chrome-major 131 --sha {only} --reason test"))
        .refused(27, &["it is the only one"]);
}

#[test]
fn a_rollback_to_an_archive_of_another_program_takes_it_in() {
    let host = TestHost::new();
    host.capture("ours");
    let theirs = theirs(&host, &["one", "two"]);
    let line = format!("rollback acme/alice --sha {} --reason test", theirs[0]);
    let planned = host.json(&line);
    assert_eq!((&planned["outcome"], &planned["record"]), (&"planned".into(), &Value::Null));
    assert_eq!(pointer(&host)["active_sha256_prefix"], theirs[1].as_str());
    let done = host.json(&format!("{line} --confirm"));
    assert_eq!((&done["outcome"], &done["to_sha256_prefix"]), (&"rolled_back".into(), &json!(theirs[0])));
    assert_eq!(pointer(&host)["active_sha256_prefix"], theirs[0].as_str());
    host.ok("restore acme/alice out");
    assert_eq!(fs::read_to_string(host.path("out/Default/note")).unwrap(), "one");
    let list = host.json("list acme/alice");
    let row = list["snapshots"].as_array().unwrap().iter().find(|row| row["latest"] == true).unwrap();
    assert_eq!(
        (&row["foreign"], &row["published"], &row["reason"]),
        (&false.into(), &true.into(), &"import".into())
    );
}

#[test]
fn every_snapshot_says_where_it_was_captured() {
    let host = TestHost::new();
    host.capture("nothing is said");
    assert_eq!(host.json("show acme/alice")["captured_in"], json!({ "host_region": "" }));
    host.change("on the line");
    host.ok("snapshot udd acme/alice --host-region us-east-1 --egress-geo US/NY");
    let captured_in =
        json!({ "host_region": "us-east-1", "egress_ip_geo": { "country": "US", "region": "NY" } });
    assert_eq!(host.json("show acme/alice")["captured_in"], captured_in);
    host.change("in the environment");
    let ran = host.run_with("snapshot udd acme/alice", &[("PSTORE_HOST_EGRESS_GEO", "DE")]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = host.ok("show acme/alice");
    assert!(text.contains("requests from DE\n"), "{text}");
    host.run("snapshot udd acme/alice --egress-geo Germany").refused(2, &["as US or US/NY"]);
    host.run_with("list", &[("PSTORE_HOST_EGRESS_GEO", "Germany")]).refused(2, &["PSTORE_HOST_EGRESS_GEO"]);
}

#[test]
fn what_is_published_has_every_field_of_the_manifest() {
    let host = TestHost::new();
    host.capture("first");
    let published = host.json("export acme/alice --publish");
    let prefix = &published["archive_sha256"].as_str().unwrap()[..12];
    let manifest = fs::read(host.object(&format!("profile-{prefix}.manifest.json"))).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    for field in [
        "version",
        "schema",
        "tenant_id",
        "profile_id",
        "chrome_major_version",
        "archive_sha256",
        "archive_size_bytes",
        "uncompressed_size_bytes",
        "captured_at_ms",
        "captured_by",
        "captured_in",
        "mode",
        "chrome_uptime_seconds_at_capture",
        "predecessor_sha256",
        "notes",
    ] {
        assert!(manifest.get(field).is_some(), "{field} is missing: {manifest:#}");
    }
    assert!(manifest["captured_in"]["host_region"].is_string(), "{manifest:#}");
}
