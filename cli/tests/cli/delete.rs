//! These tests delete a snapshot, and see when that is refused.

use std::fs;

use serde_json::json;

use crate::desk::Desk;

fn stored() -> (Desk, String, String) {
    let desk = Desk::new();
    let first = desk.capture("first");
    let second = desk.capture("second");
    (desk, first, second)
}

#[test]
fn what_is_not_needed_is_deleted() {
    let (desk, first, second) = stored();
    let deleted = desk.json(&format!("delete acme/alice --sha {first} --reason old --run-id op"));
    assert_eq!((&deleted["outcome"], &deleted["sha256_prefix"]), (&"deleted".into(), &first.as_str().into()));
    assert_eq!(desk.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 1);
    let event = desk.event("delete");
    assert_eq!((&event["by"]["run_id"], &event["reason"]), (&"op".into(), &"old".into()));
    assert_eq!(event["from_sha256_prefix"], first.as_str());
    desk.run(&format!("restore acme/alice out --sha {first}")).refused(3, &["does not exist"]);
    desk.run(&format!("delete acme/alice --sha {first}")).refused(3, &["does not exist"]);
    assert!(desk.ok("history acme/alice").contains("(deleted)"));
    // The other one is the only one and the current one; the latter is told.
    desk.run(&format!("delete acme/alice --sha {second}")).refused(27, &["it is the current one"]);
    desk.ok("verify acme/alice --read-data");
}

#[test]
fn the_current_one_is_kept() {
    let (desk, _, second) = stored();
    let ran = desk.run(&format!("delete acme/alice --sha {second} --json"));
    ran.refused(27, &["it is the current one", "`pstore rollback acme/alice@OTHER --confirm`"]);
    assert_eq!(ran.json()["error"]["kind"], "snapshot_needed");
    desk.ok("restore acme/alice out");
}

#[test]
fn the_only_one_is_kept_even_if_nothing_points_at_it() {
    let desk = Desk::new();
    let only = desk.capture("only");
    fs::remove_file(desk.object("latest.json")).unwrap();
    desk.run(&format!("delete acme/alice --sha {only}"))
        .refused(27, &["it is the only one", "keeps at least one"]);
    assert_eq!(desk.json("list acme/alice")["snapshots"][0]["sha256_prefix"], only.as_str());
}

#[test]
fn one_that_is_in_use_is_kept() {
    let (desk, first, _) = stored();
    let record = desk.json(&format!("show acme/alice --sha {first}"))["record"].clone();
    let pins = desk.path(".local/share/pstore/store/objects/content/acme/pins");
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
    desk.run(&line).refused(27, &["it is in use"]);
    assert_eq!(desk.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 2, "it is still there");
    pin(1);
    std::thread::sleep(std::time::Duration::from_millis(50));
    desk.ok(&line);
}

#[test]
fn a_pin_that_cannot_be_read_protects_everything() {
    let (desk, first, _) = stored();
    let pins = desk.path(".local/share/pstore/store/objects/content/acme/pins");
    fs::create_dir_all(&pins).unwrap();
    fs::write(pins.join("01ARZ3NDEKTSV4RRFFQ69G5FAV"), "{").unwrap();
    desk.run(&format!("delete acme/alice --sha {first}"))
        .refused(10, &["pins/01ARZ3NDEKTSV4RRFFQ69G5FAV is damaged"]);
    desk.ok(&format!("restore acme/alice out --sha {first}"));
}

#[test]
fn a_prefix_must_fit_exactly_one() {
    let desk = Desk::new();
    let mut prefixes: Vec<String> = Vec::new();
    let twins = loop {
        let next = desk.capture(&format!("{}", prefixes.len()));
        let twin = prefixes.iter().find(|prefix| prefix[..1] == next[..1]).cloned();
        prefixes.push(next.clone());
        if let Some(twin) = twin {
            break [twin, next];
        }
    };
    let ran = desk.run(&format!("delete acme/alice --sha {}", &twins[0][..1]));
    ran.refused(4, &[&twins[0], &twins[1], "give more digits, as acme/alice@"]);
    desk.run("delete acme/alice --sha 0123456789abcdef")
        .refused(3, &["does not exist", "`pstore list acme/alice"]);
    desk.run("delete acme/alice --sha xyz").refused(2, &["0-9 a-f"]);
    desk.run("delete acme/alice").refused(2, &["`pstore delete acme/alice@REF`"]);
}

/// Cuts the record of a snapshot short; its id.
fn cut_short(desk: &Desk, sha: &str) -> String {
    let record = desk.json(&format!("show acme/alice --sha {sha}"))["record"].as_str().unwrap().to_owned();
    let path = desk.object(&format!("snap-{record}.json"));
    let bytes = fs::read(&path).unwrap();
    fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    record
}

#[test]
fn a_snapshot_whose_record_cannot_be_read_can_be_given_up() {
    let desk = Desk::new();
    desk.capture("first");
    let only = desk.path("udd/only");
    fs::write(&only, (0..200_000_u64).flat_map(|n| (n * n).to_le_bytes()).collect::<Vec<u8>>()).unwrap();
    let lost = desk.capture("second");
    fs::remove_file(only).unwrap();
    desk.capture("third");
    let record = cut_short(&desk, &lost);
    let remedy = format!("pstore delete acme/alice --chrome-major 131 --sha {record} --damaged --confirm");
    // Whoever meets it says what to type.
    desk.run("gc acme --grace 0").refused(10, &["nothing was condemned in acme", &remedy]);
    assert!(desk.run("verify acme/alice").stdout.contains(&remedy));
    desk.run(&format!("delete acme/alice --sha {record}")).refused(10, &[&remedy]);

    let line = remedy.trim_start_matches("pstore ").to_owned();
    let unsure = line.trim_end_matches(" --confirm");
    assert!(desk.ok(unsure).contains("nothing was written"));
    assert_eq!(desk.json(unsure)["outcome"], "planned");
    desk.run("gc acme --grace 0").refused(10, &[&record]);
    let given_up = desk.json(&format!("{line} --reason lost"));
    assert_eq!((&given_up["outcome"], &given_up["record"]), (&"given_up".into(), &record.as_str().into()));
    assert_eq!(desk.event("delete")["reason"], "lost");

    desk.ok("verify acme/alice --read-data");
    let collected = desk.json("gc acme --grace 0 --wait");
    let packs = &collected["tenants"][0]["deleted"]["packs"];
    assert!(packs.as_u64() > Some(0), "what only it needed is freed: {collected:#}");
    desk.ok("verify acme/alice --read-data");
    desk.run(&line).refused(2, &["can be read", "leave --damaged out"]);
}

#[test]
fn a_record_is_given_up_only_if_nobody_relies_on_it() {
    let (desk, first, second) = stored();
    let record = cut_short(&desk, &second);
    let line = format!("delete acme/alice --sha {record} --damaged --confirm");
    desk.run(&line).refused(27, &["it is the current one", "pstore rollback"]);
    // Whoever only asks is told so, too.
    let unsure = line.trim_end_matches(" --confirm");
    desk.run(unsure).refused(27, &["it is the current one", "pstore rollback"]);
    desk.ok(&format!("rollback acme/alice --sha {first} --confirm"));
    assert_eq!(desk.json(unsure)["outcome"], "planned");
    // Of a newer pstore.
    let path = desk.object(&format!("snap-{record}.json"));
    let damaged = fs::read(&path).unwrap();
    let kept = desk.json(&format!("show acme/alice --sha {first}"))["record"].as_str().unwrap().to_owned();
    let text = fs::read_to_string(desk.object(&format!("snap-{kept}.json"))).unwrap();
    fs::write(&path, text.replacen("\"version\": 1", "\"version\": 2", 1)).unwrap();
    desk.run(&line).refused(11, &["version 2"]);
    fs::write(&path, damaged).unwrap();
    desk.run(&format!("delete acme/alice --sha {first} --damaged")).refused(2, &["whole id"]);
    desk.ok(&line);
    desk.ok("gc acme --grace 0");
}
