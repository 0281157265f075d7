//! These tests delete a snapshot, and see when that is refused.

use std::fs;

use serde_json::json;

use crate::test_host::TestHost;

fn stored() -> (TestHost, String, String) {
    let host = TestHost::new();
    let first = host.capture("first");
    let second = host.capture("second");
    (host, first, second)
}

#[test]
fn what_is_not_needed_is_deleted() {
    let (host, first, second) = stored();
    let deleted = host.json(&format!("delete acme/alice --sha {first} --reason old --run-id op"));
    assert_eq!((&deleted["outcome"], &deleted["sha256_prefix"]), (&"deleted".into(), &first.as_str().into()));
    assert_eq!(host.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 1);
    let event = host.event("delete");
    assert_eq!((&event["by"]["run_id"], &event["reason"]), (&"op".into(), &"old".into()));
    assert_eq!(event["from_sha256_prefix"], first.as_str());
    host.run(&format!("restore acme/alice out --sha {first}")).refused(3, &["does not exist"]);
    host.run(&format!("delete acme/alice --sha {first}")).refused(3, &["does not exist"]);
    assert!(host.ok("history acme/alice").contains("(deleted)"));
    // The other one is the only one and the current one; the latter is told.
    host.run(&format!("delete acme/alice --sha {second}")).refused(27, &["it is the current one"]);
    host.ok("verify acme/alice --read-data");
}

#[test]
fn the_current_one_is_kept() {
    let (host, _, second) = stored();
    let ran = host.run(&format!("delete acme/alice --sha {second} --json"));
    ran.refused(27, &["it is the current one", "`pstore rollback acme/alice@OTHER --confirm`"]);
    assert_eq!(ran.json()["error"]["kind"], "snapshot_needed");
    host.ok("restore acme/alice out");
}

#[test]
fn the_only_one_is_kept_even_if_nothing_points_at_it() {
    let host = TestHost::new();
    let only = host.capture("only");
    fs::remove_file(host.object("latest.json")).unwrap();
    host.run(&format!("delete acme/alice --sha {only}"))
        .refused(27, &["it is the only one", "keeps at least one"]);
    assert_eq!(host.json("list acme/alice")["snapshots"][0]["sha256_prefix"], only.as_str());
}

#[test]
fn one_that_is_in_use_is_kept() {
    let (host, first, _) = stored();
    let record = host.json(&format!("show acme/alice --sha {first}"))["record"].clone();
    let pins = host.path(".local/share/pstore/store/objects/content/acme/pins");
    fs::create_dir_all(&pins).unwrap();
    let pin = |ttl_ms: u64| {
        let mut pin = json!({
            "version": 1, "minor": 0, "schema": "pstore.pin", "writer": "a reader", "record": record,
            "generation": 0, "ttl_ms": ttl_ms,
        });
        pin["check"] = blake3::hash(pin.to_string().as_bytes()).to_hex().to_string().into();
        fs::write(pins.join("01ARZ3NDEKTSV4RRFFQ69G5FAV"), pin.to_string()).unwrap();
    };
    pin(3_600_000);
    let line = format!("delete acme/alice --sha {first}");
    host.run(&line).refused(27, &["it is in use"]);
    assert_eq!(host.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 2, "it is still there");
    pin(1);
    std::thread::sleep(std::time::Duration::from_millis(50));
    host.ok(&line);
}

#[test]
fn a_pin_that_cannot_be_read_protects_everything() {
    let (host, first, _) = stored();
    let pins = host.path(".local/share/pstore/store/objects/content/acme/pins");
    fs::create_dir_all(&pins).unwrap();
    fs::write(pins.join("01ARZ3NDEKTSV4RRFFQ69G5FAV"), "{").unwrap();
    host.run(&format!("delete acme/alice --sha {first}"))
        .refused(10, &["pins/01ARZ3NDEKTSV4RRFFQ69G5FAV is damaged"]);
    host.ok(&format!("restore acme/alice out --sha {first}"));
}

#[test]
fn a_prefix_must_fit_exactly_one() {
    let host = TestHost::new();
    let mut prefixes: Vec<String> = Vec::new();
    let twins = loop {
        let next = host.capture(&format!("{}", prefixes.len()));
        let twin = prefixes.iter().find(|prefix| prefix[..1] == next[..1]).cloned();
        prefixes.push(next.clone());
        if let Some(twin) = twin {
            break [twin, next];
        }
    };
    let ran = host.run(&format!("delete acme/alice --sha {}", &twins[0][..1]));
    ran.refused(4, &[&twins[0], &twins[1], "give more digits, as acme/alice@"]);
    host.run("delete acme/alice --sha 0123456789abcdef")
        .refused(3, &["does not exist", "`pstore list acme/alice"]);
    host.run("delete acme/alice --sha xyz").refused(2, &["0-9 a-f"]);
    host.run("delete acme/alice").refused(2, &["`pstore delete acme/alice@REF`"]);
}

/// Cuts the record of a snapshot short; its id.
fn cut_short(host: &TestHost, sha: &str) -> String {
    let record = host.json(&format!("show acme/alice --sha {sha}"))["record"].as_str().unwrap().to_owned();
    let path = host.object(&format!("snap-{record}.json"));
    let bytes = fs::read(&path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    record
}

#[test]
fn a_snapshot_whose_record_cannot_be_read_can_be_given_up() {
    let host = TestHost::new();
    host.capture("first");
    let only = host.path("udd/only");
    fs::write(&only, (0..200_000_u64).flat_map(|n| (n * n).to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let lost = host.capture("second");
    fs::remove_file(only).unwrap();
    host.capture("third");
    let record = cut_short(&host, &lost);
    let remedy = format!("pstore delete acme/alice --chrome-major 131 --sha {record} --damaged --confirm");
    // Whoever meets it says what to type.
    host.run("gc acme --grace 0").refused(10, &["nothing was condemned in acme", &remedy]);
    assert!(host.run("verify acme/alice").stdout.contains(&remedy));
    host.run(&format!("delete acme/alice --sha {record}")).refused(10, &[&remedy]);

    let line = remedy.trim_start_matches("pstore ").to_owned();
    let unsure = line.trim_end_matches(" --confirm");
    assert!(host.ok(unsure).contains("nothing was written"));
    assert_eq!(host.json(unsure)["outcome"], "planned");
    host.run("gc acme --grace 0").refused(10, &[&record]);
    let given_up = host.json(&format!("{line} --reason lost"));
    assert_eq!((&given_up["outcome"], &given_up["record"]), (&"given_up".into(), &record.as_str().into()));
    assert_eq!(host.event("delete")["reason"], "lost");

    host.ok("verify acme/alice --read-data");
    let collected = host.json("gc acme --grace 0 --wait");
    let packs = &collected["tenants"][0]["deleted"]["packs"];
    assert!(packs.as_u64() > Some(0), "what only it needed is freed: {collected:#}");
    host.ok("verify acme/alice --read-data");
    host.run(&line).refused(2, &["can be read", "leave --damaged out"]);
}

#[test]
fn a_record_is_given_up_only_if_nobody_relies_on_it() {
    let (host, first, second) = stored();
    let record = cut_short(&host, &second);
    let line = format!("delete acme/alice --sha {record} --damaged --confirm");
    host.run(&line).refused(27, &["it is the current one", "pstore rollback"]);
    // Whoever only asks is told so, too.
    let unsure = line.trim_end_matches(" --confirm");
    host.run(unsure).refused(27, &["it is the current one", "pstore rollback"]);
    host.ok(&format!("rollback acme/alice --sha {first} --confirm"));
    assert_eq!(host.json(unsure)["outcome"], "planned");
    // Of a newer pstore.
    let path = host.object(&format!("snap-{record}.json"));
    let damaged = fs::read(&path).unwrap();
    let kept = host.json(&format!("show acme/alice --sha {first}"))["record"].as_str().unwrap().to_owned();
    let text = fs::read_to_string(host.object(&format!("snap-{kept}.json"))).unwrap();
    fs::write(&path, text.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    host.run(&line).refused(11, &["version 2"]);
    fs::write(&path, damaged).unwrap();
    host.run(&format!("delete acme/alice --sha {first} --damaged")).refused(2, &["whole id"]);
    host.ok(&line);
    host.ok("gc acme --grace 0");
}
