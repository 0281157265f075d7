//! Deleting a snapshot, and when that is refused.

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
    ran.refused(27, &["it is the current one", "`pstore rollback acme/alice --sha OTHER --confirm`"]);
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
    ran.refused(4, &[&twins[0], &twins[1], "give more digits to --sha"]);
    desk.run("delete acme/alice --sha 0123456789abcdef")
        .refused(3, &["does not exist", "`pstore list acme/alice"]);
    desk.run("delete acme/alice --sha xyz").refused(2, &["0-9 a-f"]);
    desk.run("delete acme/alice").refused(2, &["--sha"]);
}
