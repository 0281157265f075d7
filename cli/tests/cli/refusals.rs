//! These tests check what is refused, with which code, and what is said about it.

use std::fs;

use crate::test_host::TestHost;

#[test]
fn bad_names_are_refused_before_anything_is_touched() {
    let host = TestHost::new();
    host.run("snapshot udd alice").refused(2, &["invalid profile", "write it as TENANT/PROFILE"]);
    host.run("snapshot udd .acme/alice").refused(2, &["invalid tenant name", "starts with a dot"]);
    host.run("list acme/a:b").refused(2, &["invalid profile name", "only A-Z a-z 0-9"]);
    host.run("snapshot udd acme/alice --chrome-major 0131").refused(2, &["whole number from 1 to 65535"]);
    host.run("snapshot udd acme/alice --label x").refused(2, &["KEY=VALUE"]);
    host.run("snapshot udd acme/alice --label a=1 --label a=2").refused(2, &["given twice"]);
    host.run("snapshot udd acme/alice --reason boredom").refused(2, &["before-upgrade"]);
    host.run("show acme/alice --sha xyz").refused(2, &["0-9 a-f"]);
    host.run("list --store /srv/store").refused(2, &["names no store", "s3://bucket/prefix"]);
    host.run("list --store s3://b --endpoint localhost:9000").refused(2, &["is no endpoint"]);
    assert!(!host.path(".local").exists() && !host.path(".cache").exists());
}

#[test]
fn what_is_missing_is_named_and_what_is_there_is_suggested() {
    let host = TestHost::new();
    host.run("list acme/alice")
        .refused(3, &["there is no store at file://", "hint: the first `pstore snapshot`"]);
    host.run("snapshot nowhere acme/alice").refused(3, &["there is no directory nowhere"]);
    host.ok("snapshot udd acme/alice");
    host.run("show other/alice").refused(3, &["tenant other does not exist", "its tenants are acme"]);
    host.run("show acme/bob").refused(3, &["profile acme/bob does not exist", "acme/alice"]);
    host.run("show acme/alice --chrome-major 99")
        .refused(3, &["Chrome 99", "there are snapshots of Chrome 131"]);
    host.run("show acme/alice --sha ffffffffffff").refused(3, &["does not exist", "`pstore list acme/alice"]);
}

#[test]
fn a_chrome_that_is_not_known_is_asked_for() {
    let host = TestHost::new();
    fs::remove_file(host.path("udd/Last Version")).unwrap();
    host.run("snapshot udd acme/alice").refused(2, &["hint: say it with --chrome-major"]);
    host.ok("snapshot udd acme/alice --chrome-major 131");
}

#[test]
fn a_target_that_exists_is_kept_unless_forced() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("out")).unwrap();
    fs::write(host.path("out/mine"), "mine").unwrap();
    host.run("restore acme/alice out")
        .refused(5, &["exists and is not empty", "hint: use --force to replace it"]);
    assert!(host.path("out/mine").exists());
    host.ok("restore acme/alice out --force");
    assert!(!host.path("out/mine").exists() && host.path("out/Last Version").exists());
}

#[test]
fn a_directory_around_the_store_is_neither_stored_nor_replaced() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host.run("snapshot . acme/alice --chrome-major 131").refused(2, &["overlap"]);
    host.run("restore acme/alice .local --force").refused(2, &["overlap"]);
    host.run("restore acme/alice .local/share/pstore/store/x").refused(2, &["overlap"]);
    host.ok("verify acme/alice --read-data");
}

#[test]
fn a_prefix_that_fits_several_snapshots_shows_them() {
    let host = TestHost::new();
    // Sixteen first digits: among seventeen snapshots two share one.
    for at in 0..17 {
        fs::write(host.path("udd/turn"), at.to_string()).unwrap();
        host.ok("snapshot udd acme/alice");
    }
    let list = host.json("list acme/alice");
    let prefixes: Vec<&str> = list["snapshots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["sha256_prefix"].as_str().unwrap())
        .collect();
    let twice = |digit: char| prefixes.iter().filter(|prefix| prefix.starts_with(digit)).count() > 1;
    let digit = "0123456789abcdef".chars().find(|digit| twice(*digit)).unwrap();
    let ran = host.run(&format!("show acme/alice --sha {digit}"));
    ran.refused(4, &["fits several snapshots", "hint: give more digits"]);
    let candidate = prefixes.iter().find(|prefix| prefix.starts_with(digit)).unwrap();
    assert!(ran.stderr.contains(candidate), "{ran:?}");
}

#[test]
fn damage_is_found_and_never_restored() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    let packs = host.path(".local/share/pstore/store/objects/content/acme/packs");
    let pack = fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path());
    let pack = pack.into_iter().find(|path| path.to_string_lossy().ends_with("-00000")).unwrap();
    let mut bytes = fs::read(&pack).unwrap();
    bytes[1000] ^= 1;
    fs::remove_file(&pack).unwrap();
    fs::write(&pack, bytes).unwrap();
    let ran = host.run("verify acme/alice --read-data --json");
    ran.refused(10, &["is damaged: 1 finding"]);
    let report = ran.json();
    assert_eq!(report["error"]["kind"], "damaged");
    assert_eq!(report["damage"][0]["files"][0], "Default/History");
    host.run("restore acme/alice out").refused(10, &["is damaged", "pstore verify acme/alice"]);
    assert!(!host.path("out").exists());
}

#[test]
fn a_server_that_does_not_answer_is_unavailable() {
    let host = TestHost::new();
    let s3 = |line: &str| {
        let mut command = host.command(line);
        command.args(["--store", "s3://bucket/x", "--endpoint", "http://127.0.0.1:9"]);
        command
            .env("AWS_ACCESS_KEY_ID", "a")
            .env("AWS_SECRET_ACCESS_KEY", "b")
            .env("PSTORE_RETRY_SECONDS", "1");
        crate::test_host::Ran::of(line, command.output().unwrap())
    };
    s3("list acme/alice").refused(14, &["s3://bucket/x", "hint: check --store, --endpoint"]);
    s3("snapshot udd acme/alice").refused(14, &["hint: check --store"]);
    let doctor = s3("doctor --json");
    assert_eq!(doctor.code, 14, "{doctor:?}");
    assert_eq!(doctor.json()["checks"][0]["status"], "fail");
}

#[test]
fn a_directory_of_one_chrome_is_not_stored_as_anothers() {
    let host = TestHost::new();
    let line = "snapshot udd acme/alice --chrome-major 130";
    host.run(line).refused(34, &["Chrome 131", "pstore snapshot udd acme/alice --chrome-major 131"]);
    host.run("show acme/alice").refused(3, &[]);
    assert!(host.run(&format!("{line} --force")).stderr.contains("is stored as Chrome 130"));
}
