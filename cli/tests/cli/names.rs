//! These tests name snapshots as `acme/alice@REF`, with every command that takes one.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{clock::run_at, test_host::TestHost};

/// Three snapshots, the second of which is tagged.
fn three() -> (TestHost, [String; 3]) {
    let host = TestHost::new();
    let all = [host.capture("1"), host.capture("2"), host.capture("3")];
    host.ok(&format!("tag acme/alice@{} keep-me", all[1]));
    (host, all)
}

/// The short id of the snapshot that is shown.
fn shown(host: &TestHost, name: &str) -> String {
    let record = host.json(&format!("show {name}"));
    let listed = host.json("list acme/alice");
    let mut lines = listed["snapshots"].as_array().unwrap().iter();
    let line = lines.find(|line| line["record"] == record["record"]).unwrap();
    line["sha256_prefix"].as_str().unwrap().to_owned()
}

/// A time in UTC, as `list` prints it.
fn time(format: &str, unix_ms: u64) -> String {
    let made =
        Command::new("date").args(["-u", "-d", &format!("@{}", unix_ms / 1000), format]).output().unwrap();
    String::from_utf8(made.stdout).unwrap().trim().to_owned()
}

fn captured_at_ms(host: &TestHost, prefix: &str) -> u64 {
    host.json(&format!("show acme/alice@{prefix}"))["captured_at_ms"].as_u64().unwrap()
}

#[test]
fn digits_a_tag_and_a_place_name_a_snapshot() {
    let (host, [first, second, third]) = three();
    for (name, expected) in [
        ("acme/alice", &third),
        ("acme/alice@latest", &third),
        ("acme/alice@latest~0", &third),
        ("acme/alice@latest~1", &second),
        ("acme/alice@latest~2", &first),
        ("acme/alice@keep-me", &second),
        (&format!("acme/alice@{}", &first[..10]), &first),
        (&format!("acme/alice@{}", first.to_uppercase()), &first),
    ] {
        assert_eq!(&shown(&host, name), expected, "{name}");
    }
    let record = host.json("show acme/alice@latest~1")["record"].as_str().unwrap().to_owned();
    assert_eq!(shown(&host, &format!("acme/alice@{record}")), second);
    host.run("show acme/alice@latest~3").refused(
        3,
        &["latest~3", "where 2 came before the current one", "`pstore list acme/alice --chrome-major 131`"],
    );
}

#[test]
fn places_are_counted_from_the_current_one_and_what_was_held_back_does_not_count() {
    let (host, [first, ..]) = three();
    host.ok("rollback acme/alice@latest~1 --confirm");
    assert_eq!(shown(&host, "acme/alice@latest~1"), first);
    host.run("show acme/alice@latest~2").refused(3, &["where 1 came before"]);
    // A session that had started afresh is held back: it was never the current one.
    host.ok("restore acme/alice fresh --chrome-major 99");
    let held = host.run("snapshot fresh acme/alice --chrome-major 131");
    held.refused(29, &[]);
    let next = host.capture("4");
    assert_eq!(shown(&host, "acme/alice@latest"), next);
    let listed = host.json("list acme/alice");
    assert_eq!(listed["snapshots"].as_array().unwrap().len(), 5, "{listed}");
    let third = listed["snapshots"][2]["sha256_prefix"].as_str().unwrap();
    assert_eq!(shown(&host, "acme/alice@latest~1"), third);
}

#[test]
fn a_time_names_the_newest_that_is_not_after_it() {
    let host = TestHost::new();
    let mut taken = Vec::new();
    for (at, offset) in ["-3h", "-2h", "-1h"].into_iter().enumerate() {
        host.change(&at.to_string());
        let document = run_at(&host, offset, "snapshot udd acme/alice --json").json();
        taken.push(document["active_sha256_prefix"].as_str().unwrap().to_owned());
    }
    let [first, second, third] = &taken[..] else { panic!("{taken:?}") };
    let at = captured_at_ms(&host, second);
    for (name, expected) in [
        // As `list` prints it: the second in which it was taken counts in full.
        (time("+%Y-%m-%dT%H:%M:%S", at), second),
        (time("+%Y-%m-%dT%H:%M:%SZ", at), second),
        (time("+%Y-%m-%dT%H:%M", at + 60_000), second),
        (format!("{}+02:00", time("+%Y-%m-%dT%H:%M:%S", at + 7_200_000)), second),
        (time("+%Y-%m-%dT%H:%M:%S", at - 1000), first),
        (time("+%Y-%m-%dT%H:%M", at + 86_400_000), third),
    ] {
        assert_eq!(&shown(&host, &format!("acme/alice@{name}")), expected, "{name} of {taken:?}");
    }
    let before = time("+%Y-%m-%dT%H:%M", at - 86_400_000);
    host.run(&format!("show acme/alice@{before}"))
        .refused(3, &["or before", &before, "`pstore list acme/alice"]);
}

#[test]
fn of_a_host_whose_clock_is_ahead_the_stores_clock_counts() {
    let host = TestHost::new();
    host.change("1");
    let ahead = run_at(&host, "+40d", "snapshot udd acme/alice --json").json();
    let ahead = ahead["active_sha256_prefix"].as_str().unwrap();
    let tomorrow = captured_at_ms(&host, ahead) - 39 * 86_400_000;
    assert_eq!(shown(&host, &format!("acme/alice@{}", time("+%Y-%m-%dT%H:%M", tomorrow))), ahead);
}

#[test]
fn every_command_that_takes_a_snapshot_takes_its_name() {
    let (host, [first, second, third]) = three();
    let prefix = |document: &Value, field: &str| document[field].as_str().unwrap().to_owned();
    assert_eq!(prefix(&host.json("restore acme/alice@keep-me out"), "sha256_prefix"), second);
    assert_eq!(fs::read_to_string(host.path("out/changed")).unwrap(), "2");
    let loaded = host.json("restore acme/alice@latest~2 loaded --chrome-major 131");
    assert_eq!(prefix(&loaded, "sha256_prefix"), first);
    let history = host.json("history acme/alice@keep-me");
    assert_eq!(history["snapshots"].as_array().unwrap().len(), 2);
    assert_eq!(host.json("verify acme/alice@keep-me")["snapshots"], 1);
    assert!(host.ok("verify acme/alice@latest").contains(&format!("in snapshot {third} of acme/alice")));
    let diff = host.json("diff acme/alice@latest~2 keep-me");
    assert_eq!(
        (prefix(&diff["before"], "sha256_prefix"), prefix(&diff["after"], "sha256_prefix")),
        (first.clone(), second.clone())
    );
    assert_eq!(host.json("diff acme/alice keep-me"), host.json("diff acme/alice@latest~1 latest"));
    assert_eq!(prefix(&host.json("tag acme/alice@latest~2 oldest"), "sha256_prefix"), first);
    host.run("untag acme/alice oldest").refused(3, &["`pstore untag acme/alice@oldest oldest`"]);
    assert_eq!(prefix(&host.json("untag acme/alice@oldest oldest"), "sha256_prefix"), first);
    let mut run = host.command("run acme/alice@keep-me --directory ran -- cp");
    assert!(run.args(["{profile}/changed", "seen"]).status().unwrap().success());
    assert_eq!(fs::read_to_string(host.path("seen")).unwrap(), "2");
    let planned = host.json("rollback acme/alice@latest~1");
    assert_eq!(planned["outcome"], "planned");
    host.ok("export acme/alice@latest~1 -o archives");
    assert_eq!(prefix(&host.json(&format!("delete acme/alice@{first}")), "sha256_prefix"), first);
}

#[test]
fn a_snapshot_that_is_not_there_is_told_with_the_command_that_lists_those_that_are() {
    let (host, _) = three();
    fs::create_dir(host.path("mnt")).unwrap();
    for line in [
        "show acme/alice@nothing",
        "history acme/alice@nothing",
        "restore acme/alice@nothing out",
        "restore acme/alice@nothing out --chrome-major 131",
        "run acme/alice@nothing -- true",
        "mount --read-only acme/alice@nothing mnt",
        "diff acme/alice@nothing",
        "verify acme/alice@nothing",
        "export acme/alice@nothing -o archives",
        "rollback acme/alice@nothing",
        "delete acme/alice@nothing",
        "tag acme/alice@nothing x",
        "untag acme/alice@nothing x",
    ] {
        host.run(line)
            .refused(3, &["a snapshot nothing of acme/alice", "does not exist", "`pstore list acme/alice"]);
    }
    assert_eq!(host.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 3);
}

#[test]
fn two_names_for_one_snapshot_and_none_at_all_are_refused() {
    let (host, _) = three();
    for line in ["show", "history", "verify", "rollback", "delete", "export -o archives", "run --directory x"]
    {
        let end = if line.starts_with("run") { " -- true" } else { "" };
        host.run(&format!("{line} acme/alice@latest~1 --sha 3f{end}"))
            .refused(2, &["@latest~1 and --sha 3f both name a snapshot", "leave --sha out"]);
    }
    for verb in ["rollback", "delete"] {
        host.run(&format!("{verb} acme/alice")).refused(
            2,
            &[
                "which snapshot of acme/alice",
                &format!("`pstore {verb} acme/alice@REF`"),
                "`pstore list acme/alice`",
            ],
        );
    }
    for wrong in ["", "a~1", "latest~x", "2026-11-31T10:00", "10:00"] {
        host.run(&format!("show acme/alice@{wrong}"))
            .refused(2, &["names no snapshot", "latest~2", "2026-11-15T10:00"]);
    }
    host.run("verify acme/alice@latest --repair")
        .refused(2, &["--repair looks at all", "`pstore verify acme/alice --repair`"]);
}

#[test]
fn a_tag_that_could_be_digits_is_refused_and_both_are_named() {
    let (host, [first, second, third]) = three();
    let digits = first[..6].to_owned();
    host.ok(&format!("tag acme/alice@{second} {digits}"));
    host.run(&format!("show acme/alice@{digits}")).refused(
        4,
        &[
            "fits several snapshots",
            &first,
            &format!("{second} (tagged so)"),
            "give more digits, as acme/alice@",
        ],
    );
    // --sha takes digits alone.
    assert_eq!(
        host.json(&format!("show acme/alice --sha {digits}"))["record"],
        host.json(&format!("show acme/alice@{first}"))["record"]
    );
    // One snapshot that is both is no riddle.
    let own = third[..6].to_owned();
    host.ok(&format!("tag acme/alice@latest {own}"));
    assert_eq!(shown(&host, &format!("acme/alice@{own}")), third);
    // A tag that two snapshots have.
    host.ok("tag acme/alice@latest keep-me");
    host.run("show acme/alice@keep-me").refused(4, &[&second, &third]);
    host.run("tag acme/alice latest").refused(2, &["the word for the current snapshot"]);
}

#[test]
fn a_tagged_snapshot_is_not_deleted_by_the_way() {
    let (host, [_, second, _]) = three();
    let ran = host.run("delete acme/alice@keep-me --json");
    ran.refused(
        27,
        &["it is tagged keep-me", &format!("`pstore untag acme/alice@{second} keep-me`"), "--tagged"],
    );
    assert_eq!(ran.json()["error"]["kind"], "snapshot_needed");
    // What keeps it anyway is said first.
    host.ok("tag acme/alice@latest newest");
    host.run("delete acme/alice@newest --tagged").refused(27, &["it is the current one"]);
    host.run("delete acme/alice@newest").refused(27, &["it is the current one"]);
    assert_eq!(host.json("delete acme/alice@keep-me --tagged")["outcome"], "deleted");
    assert_eq!(host.json("list acme/alice")["snapshots"].as_array().unwrap().len(), 2);
}
