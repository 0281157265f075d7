//! These tests free space, and check what goes, what stays, and what is told about it.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::desk::{Desk, noise};

/// Three snapshots, the current one the last; each has content that no other has.
fn three(desk: &Desk) -> [String; 3] {
    ["1", "2", "3"].map(|n| {
        fs::write(desk.path("udd/own"), noise(200_000 + n.len() + n.parse::<usize>().unwrap())).unwrap();
        desk.capture(n)
    })
}

fn content(desk: &Desk) -> PathBuf {
    desk.path(".local/share/pstore/store/objects/content/acme")
}

fn objects(desk: &Desk, folder: &str) -> usize {
    fs::read_dir(content(desk).join(folder)).map_or(0, Iterator::count)
}

fn tenant(document: &Value) -> &Value {
    &document["tenants"][0]
}

#[test]
fn what_was_deleted_goes_in_two_runs_and_the_rest_is_whole() {
    let desk = Desk::new();
    let [first, second, _] = three(&desk);
    let before = objects(&desk, "packs");
    desk.ok(&format!("delete acme/alice --sha {first}"));
    desk.ok(&format!("delete acme/alice --sha {second}"));
    let run = desk.json("gc acme --grace 0");
    assert_eq!(tenant(&run)["deleted"]["packs"], 0);
    let condemned = tenant(&run)["condemned"]["packs"].as_u64().unwrap();
    assert!(condemned >= 2, "{run}");
    assert_eq!(tenant(&run)["condemned_by_cause"][0]["cause"], "deleted");
    assert_eq!(tenant(&run)["condemned_by_profile"][0]["profile_id"], "alice");
    assert_eq!(objects(&desk, "packs"), before);
    let run = desk.json("gc acme --grace 0");
    assert_eq!(tenant(&run)["deleted"]["packs"], condemned);
    assert_eq!(objects(&desk, "packs") as u64, before as u64 - condemned);
    assert_eq!(tenant(&desk.json("gc acme --grace 0"))["pending"], 0);
    desk.ok("verify acme/alice --no-cache");
    desk.ok("restore acme/alice out");
    assert_eq!(fs::read(desk.path("out/own")).unwrap(), fs::read(desk.path("udd/own")).unwrap());
}

#[test]
fn both_steps_in_one_run_if_it_may_wait() {
    let desk = Desk::new();
    let [first, ..] = three(&desk);
    desk.ok(&format!("delete acme/alice --sha {first}"));
    let run = desk.json("gc --grace 0 --wait");
    assert_eq!(tenant(&run)["pending"], 0);
    assert!(tenant(&run)["deleted"]["packs"].as_u64().unwrap() > 0, "{run}");
    desk.ok("verify acme/alice --no-cache");
}

#[test]
fn the_grace_is_waited_for() {
    let desk = Desk::new();
    let [first, ..] = three(&desk);
    desk.ok(&format!("delete acme/alice --sha {first}"));
    let before = objects(&desk, "packs");
    for _ in 0..3 {
        desk.ok("gc acme");
    }
    assert_eq!(objects(&desk, "packs"), before);
    assert_eq!(objects(&desk, "condemned"), 1);
    let text = desk.ok("gc acme --dry-run");
    assert!(text.contains("for the grace"), "{text}");
}

#[test]
fn a_dry_run_tells_what_the_run_does() {
    let desk = Desk::new();
    let [first, ..] = three(&desk);
    desk.ok(&format!("delete acme/alice --sha {first}"));
    for _ in 0..3 {
        let mut plan = desk.json("gc --dry-run --grace 0");
        assert_eq!(plan["outcome"], "planned");
        plan["outcome"] = "collected".into();
        let mut run = desk.json("gc --grace 0");
        for document in [&mut plan, &mut run] {
            let tenant = &mut document["tenants"][0];
            tenant["pending"] = Value::Null;
            for group in ["condemned_by_cause", "condemned_by_profile"] {
                tenant[group]
                    .as_array_mut()
                    .unwrap()
                    .iter_mut()
                    .for_each(|line| line["oldest_ms"] = 0.into());
            }
        }
        assert_eq!(plan, run);
    }
}

#[test]
fn what_cannot_be_read_keeps_everything() {
    let desk = Desk::new();
    let [first, second, _] = three(&desk);
    desk.ok(&format!("delete acme/alice --sha {first}"));
    let record = desk.json(&format!("show acme/alice --sha {second}"))["record"].as_str().unwrap().to_owned();
    let before = objects(&desk, "packs");
    let path = desk.object(&format!("snap-{record}.json"));
    let whole = fs::read(&path).unwrap();
    for damage in ["{", "{\"version\": 2, \"writer\": \"pstore 9\"}"] {
        fs::write(&path, damage).unwrap();
        let ran = desk.run("gc acme --grace 0");
        assert!([10, 11].contains(&ran.code), "{ran:?}");
        assert!(ran.stderr.contains("nothing was condemned"), "{ran:?}");
        assert_eq!((objects(&desk, "packs"), objects(&desk, "condemned")), (before, 0));
    }
    fs::write(&path, whole).unwrap();
    fs::write(desk.object("snap-7.json"), "{}").unwrap();
    desk.run("gc acme --grace 0").refused(10, &["snap-7.json"]);
    fs::remove_file(desk.object("snap-7.json")).unwrap();
    desk.ok("gc acme --grace 0");
}

#[test]
fn packs_without_any_record_are_left_alone() {
    let desk = Desk::new();
    three(&desk);
    let before = objects(&desk, "packs");
    fs::rename(desk.object(""), desk.path("aside")).unwrap();
    desk.run("gc acme --grace 0").refused(10, &["no record at all"]);
    assert_eq!(objects(&desk, "packs"), before);
}

#[test]
fn it_is_told_why_something_is_still_there() {
    let desk = Desk::new();
    let [first, _, third] = three(&desk);
    desk.ok(&format!("tag acme/alice keep --sha {first}"));
    let told = desk.json(&format!("gc acme --explain {first}"));
    let told = &told["explanation"];
    assert_eq!((&told["alive"], &told["roots"][0]["tags"][0]), (&true.into(), &"keep".into()));
    assert_eq!(told["sharing"].as_array().unwrap().len(), 2);
    assert!(told["freed_bytes"].as_u64().unwrap() > 0);
    let pack = told["packs"][0]["pack"].as_str().unwrap();
    let of_pack = desk.ok(&format!("gc acme --explain {pack}"));
    assert!(of_pack.contains(&third) && of_pack.contains("current"), "{of_pack}");
    desk.run("gc acme --explain 0000000000").refused(3, &["does not exist"]);
    let nobody = "01ARZ3NDEKTSV4RRFFQ69G5FAV-00000";
    assert!(desk.ok(&format!("gc acme --explain {nobody}")).contains("Nothing needs"));
}

#[test]
fn what_is_needed_of_packs_that_are_mostly_not_is_moved() {
    let desk = Desk::new();
    let noise = noise(5_000_000);
    fs::write(desk.path("udd/kept"), &noise[..500_000]).unwrap();
    fs::write(desk.path("udd/own"), &noise[500_000..2_500_000]).unwrap();
    let first = desk.capture("1");
    fs::write(desk.path("udd/own"), &noise[2_500_000..4_500_000]).unwrap();
    desk.capture("2");
    desk.ok(&format!("delete acme/alice --sha {first}"));
    assert_eq!(tenant(&desk.json("gc acme --dry-run --max-unused 100"))["repacked"]["packs"], 0);
    let plan = desk.json("gc acme --dry-run");
    let repacked = &tenant(&plan)["repacked"];
    assert_eq!((&repacked["records"], &repacked["failed"]), (&1.into(), &0.into()), "{plan}");
    assert!(repacked["saved_bytes"].as_u64().unwrap() > 1_900_000, "{plan}");
    assert!(desk.ok("gc acme --dry-run").contains("would be emptied"));
    let run = desk.json("gc acme --grace 0 --wait");
    assert_eq!(&tenant(&run)["repacked"], repacked);
    assert_eq!(tenant(&run)["pending"], 0);
    let moved = tenant(&run)["condemned_by_cause"].as_array().unwrap();
    assert!(!moved.is_empty(), "{run}");
    let stored: u64 = fs::read_dir(content(&desk).join("packs"))
        .unwrap()
        .map(|pack| pack.unwrap().metadata().unwrap().len())
        .sum();
    assert!(stored < 2_600_000, "{stored} bytes are left");
    desk.ok("verify acme/alice --no-cache");
    desk.ok("restore acme/alice out");
    for file in ["kept", "own"] {
        assert!(
            fs::read(desk.path("out").join(file)).unwrap() == fs::read(desk.path("udd").join(file)).unwrap()
        );
    }
    assert_eq!(objects(&desk, "pins"), 0);
}

#[test]
fn a_tenant_that_cannot_be_read_keeps_no_other_from_being_collected() {
    let desk = Desk::new();
    let [first, ..] = three(&desk);
    desk.ok(&format!("delete acme/alice --sha {first}"));
    desk.ok("snapshot udd aaa/alice");
    let records = desk.path(".local/share/pstore/store/objects/snapshots/aaa/alice/131");
    fs::write(records.join("snap-7.json"), "{}").unwrap();
    let ran = desk.run("gc --grace 0 --json");
    ran.refused(
        40,
        &["nothing was condemned in aaa", "snap-7.json", "`pstore gc aaa`", "1 of 2 tenants failed"],
    );
    assert_eq!(
        (&ran.json()["failed"][0]["tenant_id"], &ran.json()["failed"][0]["kind"]),
        (&"aaa".into(), &"damaged".into())
    );
    desk.run("gc aaa --grace 0").refused(10, &["nothing was condemned in aaa", "snap-7.json"]);
    assert_eq!(objects(&desk, "condemned"), 1);
    fs::remove_file(records.join("snap-7.json")).unwrap();
    desk.ok("gc --grace 0");
}

#[test]
fn a_dry_run_says_of_everything_that_it_would_be_done() {
    let desk = Desk::new();
    let [first, second, _] = ["one", "two", "three"].map(|change| desk.capture(change));
    desk.ok(&format!("delete acme/alice --sha {first}"));
    desk.ok(&format!("delete acme/alice --sha {second}"));
    let mut counted = 0;
    for _ in 0..4 {
        let told = desk.ok("gc acme --dry-run --grace 0");
        for line in told.lines().filter_map(|line| line.strip_prefix("acme: ")) {
            assert!(line.split(", ").all(|count| count.contains("would be ")), "{told}");
            counted += 1;
        }
        desk.ok("gc acme --grace 0");
    }
    assert!(counted > 0, "no collection had anything to do but packs");
}
