//! These tests delete a profile, and a tenant, with all that they have; and profiles that never were any.

use std::{fs, path::Path};

use serde_json::Value;

use crate::test_host::{TestHost, files};

const STORE: &str = ".local/share/pstore/store/objects";

fn objects(host: &TestHost, below: &str) -> Vec<String> {
    let root = host.path(STORE).join(below);
    if !root.exists() {
        return Vec::new();
    }
    files(&root).into_iter().map(|(path, _)| path.display().to_string()).collect()
}

/// Two snapshots of acme/alice, of which one is tagged and one has an archive, and one of acme/bob.
fn stored() -> TestHost {
    let host = TestHost::new();
    host.capture("first");
    host.ok("tag acme/alice golden");
    host.capture("second");
    host.ok("export acme/alice --publish");
    host.ok("snapshot udd acme/bob");
    host
}

fn profiles(host: &TestHost) -> Vec<String> {
    let listed = host.json("list acme");
    let name = |profile: &Value| {
        let deleted = if profile["deletion"].is_null() { "" } else { " (deleted)" };
        format!("{}{deleted}", profile["profile_id"].as_str().unwrap())
    };
    listed["profiles"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_plan_says_what_would_go_and_changes_nothing() {
    let host = stored();
    let before = files(&host.path(STORE));
    let text = host.ok("delete acme/alice --all");
    for said in ["2 (Chrome 131)", "golden", "archives  1", "nobody", "add --confirm"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let plan = host.json("delete acme --all");
    assert_eq!((&plan["outcome"], &plan["profile_id"]), (&"planned".into(), &Value::Null));
    assert_eq!(
        (&plan["snapshots"], &plan["archives"], &plan["gc_due"]),
        (&3.into(), &1.into(), &false.into())
    );
    assert!(files(&host.path(STORE)) == before, "nothing was written");
}

#[test]
fn a_deleted_profile_is_gone_and_everybody_is_told_so() {
    let host = stored();
    // What another program has stored goes, too.
    for name in ["profile-0123456789ab.tar.zst", "profile-0123456789ab.manifest.json"] {
        fs::write(host.object(name), "another program's").unwrap();
    }
    let receipt =
        host.run_args("delete acme/alice --all --confirm --json", &["--reason", "left the company"]).json();
    assert_eq!((&receipt["outcome"], &receipt["gc_due"]), (&"deleted".into(), &true.into()), "{receipt}");
    assert_eq!((&receipt["snapshots"], &receipt["archives"]), (&2.into(), &2.into()), "{receipt}");
    assert_eq!(receipt["reason"], "left the company");
    assert!(!receipt["deleted_by"]["user"].as_str().unwrap().is_empty(), "{receipt}");
    let left = objects(&host, "snapshots/acme/alice");
    assert!(!left.iter().any(|key| key.contains("profile-")), "{left:?}");

    fs::create_dir(host.path("mnt")).unwrap();
    for line in [
        "list acme/alice",
        "show acme/alice",
        "run acme/alice --chrome-major 131 -- true",
        "run acme/alice --chrome-major 132 -- true",
        "mount acme/alice mnt",
        "mount acme/alice mnt --read-only",
        "restore acme/alice out",
        "restore acme/alice out --chrome-major 131",
        "restore acme/alice out --chrome-major 132",
        "snapshot udd acme/alice",
        "lock acquire acme/alice --chrome-major 131",
        "verify acme/alice",
        "expect acme/alice",
        "expect acme/alice --file Default/Cookies",
    ] {
        host.run(line).refused(41, &["acme/alice was deleted on ", "left the company", "--tombstone"]);
        let error = &host.run(&format!("--json {line}")).json()["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&"deleted".into(), &41.into()), "{line}");
    }
    assert!(!host.path("out").exists(), "no empty profile is loaded in its place");
    assert_eq!(profiles(&host), ["alice (deleted)", "bob"]);
    assert!(host.ok("list acme").contains("deleted on "));
    assert_eq!(host.ok("complete-words show acme/"), "acme/bob\n");
    for line in [
        "stats",
        "gc --grace 0 --wait",
        "retention plan acme",
        "reap",
        "verify acme/bob",
        "verify acme",
        "restore acme/bob bob",
    ] {
        host.ok(line);
    }
    // The same command says what was done, and does nothing.
    let again = host.json("delete acme/alice --all --confirm");
    assert_eq!((&again["outcome"], &again["deleted_at_ms"]), (&"deleted".into(), &receipt["deleted_at_ms"]));
    host.run("delete acme/alice --tombstone --confirm")
        .refused(41, &["cannot begin anew yet", "pstore gc acme"]);
}

#[test]
fn a_profile_that_is_in_use_is_kept_and_who_uses_it_is_named() {
    let host = stored();
    let token = host.acquire("run-1", "--host host-7");
    let before = objects(&host, "snapshots/acme/alice");
    host.run("delete acme/alice --all --confirm").refused(24, &["run-1", "host-7", "pstore force-unlock"]);
    let plan = host.json("delete acme/alice --all");
    assert_eq!((&plan["in_use"][0]["kind"], &plan["in_use"][0]["run_id"]), (&"lock".into(), &"run-1".into()));
    host.ok(&format!("lock release acme/alice --token {token}"));

    // A session that was cut short, perhaps elsewhere.
    fs::create_dir(host.path("mnt")).unwrap();
    host.ok("mount acme/alice mnt --host host-8");
    fs::write(host.path("mnt/note"), "kept").unwrap();
    host.ok("unmount mnt --keep");
    let session = host.json("sessions")["sessions"][0]["session"].as_str().unwrap().to_owned();
    host.run("delete acme/alice --all --confirm").refused(27, &[&session, "host-8", "--ignore-session"]);
    assert_eq!(host.json("delete acme/alice --all")["in_use"][0]["session"], session.as_str());
    host.run("delete acme/alice --all --ignore-session 7ZZ --confirm").refused(3, &["no session 7ZZ"]);
    let now = objects(&host, "snapshots/acme/alice");
    assert!(before.iter().all(|key| now.contains(key)), "{before:?} {now:?}");
    host.ok(&format!("delete acme/alice --all --ignore-session {session} --confirm"));
    assert_eq!(profiles(&host), ["alice (deleted)", "bob"]);
}

#[test]
fn a_deleted_tenant_is_gone_and_others_are_untouched() {
    let host = stored();
    host.ok("snapshot udd other/alice");
    let other = |host: &TestHost| [objects(host, "content/other"), objects(host, "snapshots/other")].concat();
    let before = other(&host);
    host.run("delete acme").refused(2, &["is a tenant", "pstore delete acme --all"]);
    let receipt = host.json("delete acme --all --confirm");
    assert_eq!((&receipt["outcome"], &receipt["snapshots"]), (&"deleted".into(), &3.into()), "{receipt}");
    for line in ["list acme", "list acme/bob", "snapshot udd acme/new", "stats acme", "delete acme/bob --all"]
    {
        host.run(line).refused(41, &["tenant acme was deleted on "]);
    }
    let listed = host.json("list");
    assert_eq!(
        (&listed["tenants"], &listed["deleted"][0]["tenant_id"]),
        (&serde_json::json!(["other"]), &"acme".into())
    );
    for line in ["gc --grace 0 --wait", "stats", "reap", "retention plan", "gc --dry-run", "verify"] {
        host.ok(line);
    }
    assert_eq!(objects(&host, "content/acme/packs"), Vec::<String>::new());
    assert_eq!(other(&host), before);
    host.ok("restore other/alice out");
}

#[test]
fn refused_work_leaves_no_profile_behind() {
    let host = stored();
    fs::write(host.path("bad.tar.zst"), "no archive").unwrap();
    let refused = [
        "import bad.tar.zst acme/imported --chrome-major 131",
        "run acme/mistyped --chrome-major 131 -- /no/such/command",
        "snapshot nowhere acme/nowhere --chrome-major 131",
    ];
    for line in refused {
        assert_ne!(host.run(line).code, 0, "{line}");
    }
    fs::create_dir_all(host.path(".config/pstore")).unwrap();
    fs::write(host.path(".config/pstore/pstore.toml"), "[tenants.acme]\nquota_bytes = 1\n").unwrap();
    host.change("so that there is something new");
    host.run("snapshot udd acme/full").refused(35, &[]);
    fs::remove_file(host.path(".config/pstore/pstore.toml")).unwrap();
    assert_eq!(profiles(&host), ["alice", "bob"]);
    // What is left of one can be deleted all the same.
    let left = objects(&host, "snapshots/acme/mistyped");
    assert!(!left.is_empty(), "a lock was taken for it");
    host.ok("delete acme/mistyped --all --confirm");
    host.run("delete acme/nobody --all --confirm").refused(3, &["acme/nobody"]);
}

#[test]
fn a_profile_can_begin_anew_when_nothing_is_left_of_it() {
    let host = stored();
    host.ok("delete acme/alice --all --confirm");
    host.run("delete acme/bob --tombstone").refused(3, &["was not deleted"]);
    host.run("delete acme/alice@latest --all").refused(2, &["names a snapshot"]);
    // As a collection leaves it, a day later.
    let folder = host.path(STORE).join("snapshots/acme/alice");
    fs::remove_dir_all(folder.join("131")).unwrap();
    assert_eq!(host.json("delete acme/alice --tombstone")["outcome"], "planned");
    let removed = host.json("delete acme/alice --tombstone --confirm");
    assert_eq!(removed["outcome"], "tombstone_removed", "{removed}");
    host.ok("snapshot udd acme/alice");
    assert_eq!(profiles(&host), ["alice", "bob"]);
    assert!(Path::new(&folder).exists());
}
