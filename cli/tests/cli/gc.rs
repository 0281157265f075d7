//! These tests free space, and check what goes, what stays, and what is told about it.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::test_host::{TestHost, noise};

/// Three snapshots, the current one the last; each has content that no other has.
fn three(host: &TestHost) -> [String; 3] {
    ["1", "2", "3"].map(|n| {
        fs::write(host.path("udd/own"), noise(200_000 + n.len() + n.parse::<usize>().unwrap())).unwrap();
        host.capture(n)
    })
}

fn content(host: &TestHost) -> PathBuf {
    host.path(".local/share/pstore/store/objects/content/acme")
}

fn objects(host: &TestHost, folder: &str) -> usize {
    fs::read_dir(content(host).join(folder)).map_or(0, Iterator::count)
}

fn tenant(document: &Value) -> &Value {
    &document["tenants"][0]
}

#[test]
fn what_was_deleted_goes_in_two_runs_and_the_rest_is_whole() {
    let host = TestHost::new();
    let [first, second, _] = three(&host);
    let before = objects(&host, "packs");
    host.ok(&format!("delete acme/alice --sha {first}"));
    host.ok(&format!("delete acme/alice --sha {second}"));
    let run = host.json("gc acme --grace 0");
    assert_eq!(tenant(&run)["deleted"]["packs"], 0);
    let condemned = tenant(&run)["condemned"]["packs"].as_u64().unwrap();
    assert!(condemned >= 2, "{run}");
    assert_eq!(tenant(&run)["condemned_by_cause"][0]["cause"], "deleted");
    assert_eq!(tenant(&run)["condemned_by_profile"][0]["profile_id"], "alice");
    assert_eq!(objects(&host, "packs"), before);
    let run = host.json("gc acme --grace 0");
    assert_eq!(tenant(&run)["deleted"]["packs"], condemned);
    assert_eq!(objects(&host, "packs") as u64, before as u64 - condemned);
    assert_eq!(tenant(&host.json("gc acme --grace 0"))["pending"], 0);
    host.ok("verify acme/alice --no-cache");
    host.ok("restore acme/alice out");
    assert_eq!(fs::read(host.path("out/own")).unwrap(), fs::read(host.path("udd/own")).unwrap());
}

#[test]
fn both_steps_in_one_run_if_it_may_wait() {
    let host = TestHost::new();
    let [first, ..] = three(&host);
    host.ok(&format!("delete acme/alice --sha {first}"));
    let run = host.json("gc --grace 0 --wait");
    assert_eq!(tenant(&run)["pending"], 0);
    assert!(tenant(&run)["deleted"]["packs"].as_u64().unwrap() > 0, "{run}");
    host.ok("verify acme/alice --no-cache");
}

#[test]
fn the_grace_is_waited_for() {
    let host = TestHost::new();
    let [first, ..] = three(&host);
    host.ok(&format!("delete acme/alice --sha {first}"));
    let before = objects(&host, "packs");
    for _ in 0..3 {
        host.ok("gc acme");
    }
    assert_eq!(objects(&host, "packs"), before);
    assert_eq!(objects(&host, "condemned"), 1);
    let text = host.ok("gc acme --dry-run");
    assert!(text.contains("for the grace"), "{text}");
}

#[test]
fn a_dry_run_tells_what_the_run_does() {
    let host = TestHost::new();
    let [first, ..] = three(&host);
    host.ok(&format!("delete acme/alice --sha {first}"));
    for _ in 0..3 {
        let mut plan = host.json("gc --dry-run --grace 0");
        assert_eq!(plan["outcome"], "planned");
        plan["outcome"] = "collected".into();
        let mut run = host.json("gc --grace 0");
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
    let host = TestHost::new();
    let [first, second, _] = three(&host);
    host.ok(&format!("delete acme/alice --sha {first}"));
    let record = host.json(&format!("show acme/alice --sha {second}"))["record"].as_str().unwrap().to_owned();
    let before = objects(&host, "packs");
    let path = host.object(&format!("snap-{record}.json"));
    let whole = fs::read(&path).unwrap();
    for damage in ["{", "{\"version\": 2, \"writer\": \"pstore 9\"}"] {
        fs::write(&path, damage).unwrap();
        let ran = host.run("gc acme --grace 0");
        assert!([10, 11].contains(&ran.code), "{ran:?}");
        assert!(ran.stderr.contains("nothing was condemned"), "{ran:?}");
        assert_eq!((objects(&host, "packs"), objects(&host, "condemned")), (before, 0));
    }
    fs::write(&path, whole).unwrap();
    fs::write(host.object("snap-7.json"), "{}").unwrap();
    host.run("gc acme --grace 0").refused(10, &["snap-7.json"]);
    fs::remove_file(host.object("snap-7.json")).unwrap();
    host.ok("gc acme --grace 0");
}

#[test]
fn packs_without_any_record_are_left_alone() {
    let host = TestHost::new();
    three(&host);
    let before = objects(&host, "packs");
    fs::rename(host.object(""), host.path("aside")).unwrap();
    host.run("gc acme --grace 0").refused(10, &["no record at all"]);
    assert_eq!(objects(&host, "packs"), before);
}

#[test]
fn it_is_told_why_something_is_still_there() {
    let host = TestHost::new();
    let [first, _, third] = three(&host);
    host.ok(&format!("tag acme/alice keep --sha {first}"));
    let told = host.json(&format!("gc acme --explain {first}"));
    let told = &told["explanation"];
    assert_eq!((&told["alive"], &told["roots"][0]["tags"][0]), (&true.into(), &"keep".into()));
    assert_eq!(told["sharing"].as_array().unwrap().len(), 2);
    assert!(told["freed_bytes"].as_u64().unwrap() > 0);
    let pack = told["packs"][0]["pack"].as_str().unwrap();
    let of_pack = host.ok(&format!("gc acme --explain {pack}"));
    assert!(of_pack.contains(&third) && of_pack.contains("current"), "{of_pack}");
    host.run("gc acme --explain 0000000000").refused(3, &["does not exist"]);
    let nobody = "01ARZ3NDEKTSV4RRFFQ69G5FAV-00000";
    assert!(host.ok(&format!("gc acme --explain {nobody}")).contains("Nothing needs"));
}

#[test]
fn what_is_needed_of_packs_that_are_mostly_not_is_moved() {
    let host = TestHost::new();
    let noise = noise(5_000_000);
    fs::write(host.path("udd/kept"), &noise[..500_000]).unwrap();
    fs::write(host.path("udd/own"), &noise[500_000..2_500_000]).unwrap();
    let first = host.capture("1");
    fs::write(host.path("udd/own"), &noise[2_500_000..4_500_000]).unwrap();
    host.capture("2");
    host.ok(&format!("delete acme/alice --sha {first}"));
    assert_eq!(tenant(&host.json("gc acme --dry-run --max-unused 100"))["repacked"]["packs"], 0);
    let plan = host.json("gc acme --dry-run");
    let repacked = &tenant(&plan)["repacked"];
    assert_eq!((&repacked["records"], &repacked["failed"]), (&1.into(), &0.into()), "{plan}");
    assert!(repacked["saved_bytes"].as_u64().unwrap() > 1_900_000, "{plan}");
    assert!(host.ok("gc acme --dry-run").contains("would be emptied"));
    let run = host.json("gc acme --grace 0 --wait");
    assert_eq!(&tenant(&run)["repacked"], repacked);
    assert_eq!(tenant(&run)["pending"], 0);
    let moved = tenant(&run)["condemned_by_cause"].as_array().unwrap();
    assert!(!moved.is_empty(), "{run}");
    let stored: u64 = fs::read_dir(content(&host).join("packs"))
        .unwrap()
        .map(|pack| pack.unwrap().metadata().unwrap().len())
        .sum();
    assert!(stored < 2_600_000, "{stored} bytes are left");
    host.ok("verify acme/alice --no-cache");
    host.ok("restore acme/alice out");
    for file in ["kept", "own"] {
        assert!(
            fs::read(host.path("out").join(file)).unwrap() == fs::read(host.path("udd").join(file)).unwrap()
        );
    }
    assert_eq!(objects(&host, "pins"), 0);
}

#[test]
fn a_tenant_that_cannot_be_read_keeps_no_other_from_being_collected() {
    let host = TestHost::new();
    let [first, ..] = three(&host);
    host.ok(&format!("delete acme/alice --sha {first}"));
    host.ok("snapshot udd aaa/alice");
    let records = host.path(".local/share/pstore/store/objects/snapshots/aaa/alice/131");
    fs::write(records.join("snap-7.json"), "{}").unwrap();
    let ran = host.run("gc --grace 0 --json");
    ran.refused(
        40,
        &["nothing was condemned in aaa", "snap-7.json", "`pstore gc aaa`", "1 of 2 tenants failed"],
    );
    assert_eq!(
        (&ran.json()["failed"][0]["tenant_id"], &ran.json()["failed"][0]["kind"]),
        (&"aaa".into(), &"damaged".into())
    );
    host.run("gc aaa --grace 0").refused(10, &["nothing was condemned in aaa", "snap-7.json"]);
    assert_eq!(objects(&host, "condemned"), 1);
    fs::remove_file(records.join("snap-7.json")).unwrap();
    host.ok("gc --grace 0");
}

#[test]
fn a_dry_run_says_of_everything_that_it_would_be_done() {
    let host = TestHost::new();
    let [first, second, _] = ["one", "two", "three"].map(|change| host.capture(change));
    host.ok(&format!("delete acme/alice --sha {first}"));
    host.ok(&format!("delete acme/alice --sha {second}"));
    let mut counted = 0;
    for _ in 0..4 {
        let told = host.ok("gc acme --dry-run --grace 0");
        for line in told.lines().filter_map(|line| line.strip_prefix("acme: ")) {
            assert!(line.split(", ").all(|count| count.contains("would be ")), "{told}");
            counted += 1;
        }
        host.ok("gc acme --grace 0");
    }
    assert!(counted > 0, "no collection had anything to do but packs");
}
