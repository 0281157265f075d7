//! These tests check what is refused, with which code, and what is said about it.

use std::fs;

use crate::desk::Desk;

#[test]
fn bad_names_are_refused_before_anything_is_touched() {
    let desk = Desk::new();
    desk.run("snapshot udd alice").refused(2, &["invalid profile", "write it as TENANT/PROFILE"]);
    desk.run("snapshot udd .acme/alice").refused(2, &["invalid tenant name", "starts with a dot"]);
    desk.run("list acme/a:b").refused(2, &["invalid profile name", "only A-Z a-z 0-9"]);
    desk.run("snapshot udd acme/alice --chrome-major 0131").refused(2, &["whole number from 1 to 65535"]);
    desk.run("snapshot udd acme/alice --label x").refused(2, &["KEY=VALUE"]);
    desk.run("snapshot udd acme/alice --label a=1 --label a=2").refused(2, &["given twice"]);
    desk.run("snapshot udd acme/alice --reason boredom").refused(2, &["before-upgrade"]);
    desk.run("show acme/alice --sha xyz").refused(2, &["0-9 a-f"]);
    desk.run("list --store /srv/store").refused(2, &["names no store", "s3://bucket/prefix"]);
    desk.run("list --store s3://b --endpoint localhost:9000").refused(2, &["is no endpoint"]);
    assert!(!desk.path(".local").exists() && !desk.path(".cache").exists());
}

#[test]
fn what_is_missing_is_named_and_what_is_there_is_suggested() {
    let desk = Desk::new();
    desk.run("list acme/alice")
        .refused(3, &["there is no store at file://", "hint: the first `pstore snapshot`"]);
    desk.run("snapshot nowhere acme/alice").refused(3, &["there is no directory nowhere"]);
    desk.ok("snapshot udd acme/alice");
    desk.run("show other/alice").refused(3, &["tenant other does not exist", "its tenants are acme"]);
    desk.run("show acme/bob").refused(3, &["profile acme/bob does not exist", "acme/alice"]);
    desk.run("show acme/alice --chrome-major 99")
        .refused(3, &["Chrome 99", "there are snapshots of Chrome 131"]);
    desk.run("show acme/alice --sha ffffffffffff").refused(3, &["does not exist", "`pstore list acme/alice"]);
}

#[test]
fn a_chrome_that_is_not_known_is_asked_for() {
    let desk = Desk::new();
    fs::remove_file(desk.path("udd/Last Version")).unwrap();
    desk.run("snapshot udd acme/alice").refused(2, &["hint: say it with --chrome-major"]);
    desk.ok("snapshot udd acme/alice --chrome-major 131");
}

#[test]
fn a_target_that_exists_is_kept_unless_forced() {
    let desk = Desk::new();
    desk.ok("snapshot udd acme/alice");
    fs::create_dir(desk.path("out")).unwrap();
    fs::write(desk.path("out/mine"), "mine").unwrap();
    desk.run("restore acme/alice out")
        .refused(5, &["exists and is not empty", "hint: use --force to replace it"]);
    assert!(desk.path("out/mine").exists());
    desk.ok("restore acme/alice out --force");
    assert!(!desk.path("out/mine").exists() && desk.path("out/Last Version").exists());
}

#[test]
fn a_directory_around_the_store_is_neither_stored_nor_replaced() {
    let desk = Desk::new();
    desk.ok("snapshot udd acme/alice");
    desk.run("snapshot . acme/alice --chrome-major 131").refused(2, &["overlap"]);
    desk.run("restore acme/alice .local --force").refused(2, &["overlap"]);
    desk.run("restore acme/alice .local/share/pstore/store/x").refused(2, &["overlap"]);
    desk.ok("verify acme/alice --read-data");
}

#[test]
fn a_prefix_that_fits_several_snapshots_shows_them() {
    let desk = Desk::new();
    // Sixteen first digits: among seventeen snapshots two share one.
    for at in 0..17 {
        fs::write(desk.path("udd/turn"), at.to_string()).unwrap();
        desk.ok("snapshot udd acme/alice");
    }
    let list = desk.json("list acme/alice");
    let prefixes: Vec<&str> = list["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["sha256_prefix"].as_str().unwrap())
        .collect();
    let twice = |digit: char| prefixes.iter().filter(|prefix| prefix.starts_with(digit)).count() > 1;
    let digit = "0123456789abcdef".chars().find(|digit| twice(*digit)).unwrap();
    let ran = desk.run(&format!("show acme/alice --sha {digit}"));
    ran.refused(4, &["fits several snapshots", "hint: give more digits"]);
    let candidate = prefixes.iter().find(|prefix| prefix.starts_with(digit)).unwrap();
    assert!(ran.stderr.contains(candidate), "{ran:?}");
}

#[test]
fn damage_is_found_and_never_restored() {
    let desk = Desk::new();
    desk.ok("snapshot udd acme/alice");
    let packs = desk.path(".local/share/pstore/store/objects/content/acme/packs");
    let pack = fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.into_iter().find(|path| path.to_string_lossy().ends_with("-00000")).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[1000] ^= 1;
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, bytes).unwrap();
    let ran = desk.run("verify acme/alice --read-data --json");
    ran.refused(10, &["is damaged: 1 finding"]);
    let report = ran.json();
    assert_eq!(report["error"]["kind"], "damaged");
    assert_eq!(report["damage"][0]["files"][0], "Default/History");
    desk.run("restore acme/alice out").refused(10, &["is damaged", "pstore verify acme/alice"]);
    assert!(!desk.path("out").exists());
}

#[test]
fn a_server_that_does_not_answer_is_unavailable() {
    let desk = Desk::new();
    let s3 = |line: &str| {
        let mut command = desk.command(line);
        command.args(["--store", "s3://bucket/x", "--endpoint", "http://127.0.0.1:9"]);
        command
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("PSTORE_RETRY_SECONDS", "1");
        crate::desk::Ran::of(line, command.output().unwrap())
    };
    s3("list acme/alice").refused(14, &["s3://bucket/x", "hint: check --store, --endpoint"]);
    s3("snapshot udd acme/alice").refused(14, &["hint: check --store"]);
    let doctor = s3("doctor --json");
    assert_eq!(doctor.code, 14, "{doctor:?}");
    assert_eq!(doctor.json()["checks"][0]["status"], "fail");
}

#[test]
fn a_directory_of_one_chrome_is_not_stored_as_anothers() {
    let desk = Desk::new();
    let line = "snapshot udd acme/alice --chrome-major 130";
    desk.run(line).refused(34, &["Chrome 131", "pstore snapshot udd acme/alice --chrome-major 131"]);
    desk.run("show acme/alice").refused(3, &[]);
    assert!(desk.run(&format!("{line} --force")).stderr.contains("is stored as Chrome 130"));
}
