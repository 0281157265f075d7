//! These tests delete a profile, and a tenant, with all that they have; and profiles that never were any.

use std::{fs, path::Path};

use serde_json::Value;

use crate::desk::{Desk, files};

const STORE: &str = ".local/share/pstore/store/objects";

fn objects(desk: &Desk, below: &str) -> Vec<String> {
    let root = desk.path(STORE).join(below);
    if !root.exists() {
        return Vec::new();
    }
    files(&root).into_iter().map(|(path, _)| path.display().to_string()).collect()
}

/// Two snapshots of acme/alice, of which one is tagged and one has an archive, and one of acme/bob.
fn stored() -> Desk {
    let desk = Desk::new();
    desk.capture("first");
    desk.ok("tag acme/alice golden");
    desk.capture("second");
    desk.ok("export acme/alice --publish");
    desk.ok("snapshot udd acme/bob");
    desk
}

fn profiles(desk: &Desk) -> Vec<String> {
    let listed = desk.json("list acme");
    let name = |profile: &Value| {
        let deleted = if profile["deletion"].is_null() { "" } else { " (deleted)" };
        format!("{}{deleted}", profile["profile_id"].as_str().unwrap())
    };
    listed["profiles"].as_array().unwrap().iter().map(name).collect()
}

#[test]
fn a_plan_says_what_would_go_and_changes_nothing() {
    let desk = stored();
    let before = files(&desk.path(STORE));
    let text = desk.ok("delete acme/alice --all");
    for said in ["2 (Chrome 131)", "golden", "archives  1", "nobody", "add --confirm"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    let plan = desk.json("delete acme --all");
    assert_eq!((&plan["outcome"], &plan["profile_id"]), (&"planned".into(), &Value::Null));
    assert_eq!(
        (&plan["snapshots"], &plan["archives"], &plan["gc_due"]),
        (&3.into(), &1.into(), &false.into())
    );
    assert!(files(&desk.path(STORE)) == before, "nothing was written");
}

#[test]
fn a_deleted_profile_is_gone_and_everybody_is_told_so() {
    let desk = stored();
    // What another program has stored goes, too.
    for name in ["profile-0123456789ab.tar.zst", "profile-0123456789ab.manifest.json"] {
        fs::write(desk.object(name), "another program's").unwrap();
    }
    let receipt =
        desk.run_args("delete acme/alice --all --confirm --json", &["--reason", "left the company"]).json();
    assert_eq!((&receipt["outcome"], &receipt["gc_due"]), (&"deleted".into(), &true.into()), "{receipt}");
    assert_eq!((&receipt["snapshots"], &receipt["archives"]), (&2.into(), &2.into()), "{receipt}");
    assert_eq!(receipt["reason"], "left the company");
    assert!(!receipt["deleted_by"]["user"].as_str().unwrap().is_empty(), "{receipt}");
    let left = objects(&desk, "snapshots/acme/alice");
    assert!(!left.iter().any(|key| key.contains("profile-")), "{left:?}");

    fs::create_dir(desk.path("mnt")).unwrap();
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
        desk.run(line).refused(41, &["acme/alice was deleted on ", "left the company", "--tombstone"]);
        let error = &desk.run(&format!("--json {line}")).json()["error"];
        assert_eq!((&error["kind"], &error["exit_code"]), (&"deleted".into(), &41.into()), "{line}");
    }
    assert!(!desk.path("out").exists(), "no empty profile is loaded in its place");
    assert_eq!(profiles(&desk), ["alice (deleted)", "bob"]);
    assert!(desk.ok("list acme").contains("deleted on "));
    assert_eq!(desk.ok("complete-words show acme/"), "acme/bob\n");
    for line in [
        "stats",
        "gc --grace 0 --wait",
        "retention plan acme",
        "reap",
        "verify acme/bob",
        "verify acme",
        "restore acme/bob bob",
    ] {
        desk.ok(line);
    }
    // The same command says what was done, and does nothing.
    let again = desk.json("delete acme/alice --all --confirm");
    assert_eq!((&again["outcome"], &again["deleted_at_ms"]), (&"deleted".into(), &receipt["deleted_at_ms"]));
    desk.run("delete acme/alice --tombstone --confirm")
        .refused(41, &["cannot begin anew yet", "pstore gc acme"]);
}

#[test]
fn a_profile_that_is_in_use_is_kept_and_who_uses_it_is_named() {
    let desk = stored();
    let token = desk.acquire("run-1", "--host host-7");
    let before = objects(&desk, "snapshots/acme/alice");
    desk.run("delete acme/alice --all --confirm").refused(24, &["run-1", "host-7", "pstore force-unlock"]);
    let plan = desk.json("delete acme/alice --all");
    assert_eq!((&plan["in_use"][0]["kind"], &plan["in_use"][0]["run_id"]), (&"lock".into(), &"run-1".into()));
    desk.ok(&format!("lock release acme/alice --token {token}"));

    // A session that was cut short, perhaps elsewhere.
    fs::create_dir(desk.path("mnt")).unwrap();
    desk.ok("mount acme/alice mnt --host host-8");
    fs::write(desk.path("mnt/note"), "kept").unwrap();
    desk.ok("unmount mnt --keep");
    let session = desk.json("sessions")["sessions"][0]["session"].as_str().unwrap().to_owned();
    desk.run("delete acme/alice --all --confirm").refused(27, &[&session, "host-8", "--ignore-session"]);
    assert_eq!(desk.json("delete acme/alice --all")["in_use"][0]["session"], session.as_str());
    desk.run("delete acme/alice --all --ignore-session 7ZZ --confirm").refused(3, &["no session 7ZZ"]);
    let now = objects(&desk, "snapshots/acme/alice");
    assert!(before.iter().all(|key| now.contains(key)), "{before:?} {now:?}");
    desk.ok(&format!("delete acme/alice --all --ignore-session {session} --confirm"));
    assert_eq!(profiles(&desk), ["alice (deleted)", "bob"]);
}

#[test]
fn a_deleted_tenant_is_gone_and_others_are_untouched() {
    let desk = stored();
    desk.ok("snapshot udd other/alice");
    let other = |desk: &Desk| [objects(desk, "content/other"), objects(desk, "snapshots/other")].concat();
    let before = other(&desk);
    desk.run("delete acme").refused(2, &["is a tenant", "pstore delete acme --all"]);
    let receipt = desk.json("delete acme --all --confirm");
    assert_eq!((&receipt["outcome"], &receipt["snapshots"]), (&"deleted".into(), &3.into()), "{receipt}");
    for line in ["list acme", "list acme/bob", "snapshot udd acme/new", "stats acme", "delete acme/bob --all"]
    {
        desk.run(line).refused(41, &["tenant acme was deleted on "]);
    }
    let listed = desk.json("list");
    assert_eq!(
        (&listed["tenants"], &listed["deleted"][0]["tenant_id"]),
        (&serde_json::json!(["other"]), &"acme".into())
    );
    for line in ["gc --grace 0 --wait", "stats", "reap", "retention plan", "gc --dry-run", "verify"] {
        desk.ok(line);
    }
    assert_eq!(objects(&desk, "content/acme/packs"), Vec::<String>::new());
    assert_eq!(other(&desk), before);
    desk.ok("restore other/alice out");
}

#[test]
fn refused_work_leaves_no_profile_behind() {
    let desk = stored();
    fs::write(desk.path("bad.tar.zst"), "no archive").unwrap();
    let refused = [
        "import bad.tar.zst acme/imported --chrome-major 131",
        "run acme/mistyped --chrome-major 131 -- /no/such/command",
        "snapshot nowhere acme/nowhere --chrome-major 131",
    ];
    for line in refused {
        assert_ne!(desk.run(line).code, 0, "{line}");
    }
    fs::create_dir_all(desk.path(".config/pstore")).unwrap();
    fs::write(desk.path(".config/pstore/pstore.toml"), "[tenants.acme]\nquota_bytes = 1\n").unwrap();
    desk.change("so that there is something new");
    desk.run("snapshot udd acme/full").refused(35, &[]);
    fs::remove_file(desk.path(".config/pstore/pstore.toml")).unwrap();
    assert_eq!(profiles(&desk), ["alice", "bob"]);
    // What is left of one can be deleted all the same.
    let left = objects(&desk, "snapshots/acme/mistyped");
    assert!(!left.is_empty(), "a lock was taken for it");
    desk.ok("delete acme/mistyped --all --confirm");
    desk.run("delete acme/nobody --all --confirm").refused(3, &["acme/nobody"]);
}

#[test]
fn a_profile_can_begin_anew_when_nothing_is_left_of_it() {
    let desk = stored();
    desk.ok("delete acme/alice --all --confirm");
    desk.run("delete acme/bob --tombstone").refused(3, &["was not deleted"]);
    desk.run("delete acme/alice@latest --all").refused(2, &["names a snapshot"]);
    // As a collection leaves it, a day later.
    let folder = desk.path(STORE).join("snapshots/acme/alice");
    fs::remove_dir_all(folder.join("131")).unwrap();
    assert_eq!(desk.json("delete acme/alice --tombstone")["outcome"], "planned");
    let removed = desk.json("delete acme/alice --tombstone --confirm");
    assert_eq!(removed["outcome"], "tombstone_removed", "{removed}");
    desk.ok("snapshot udd acme/alice");
    assert_eq!(profiles(&desk), ["alice", "bob"]);
    assert!(Path::new(&folder).exists());
}
