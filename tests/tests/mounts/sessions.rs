//! These tests cut sessions short: none is lost or passed over, what it builds on stays in the store until it is
//! decided about, and one that cannot be read is told about.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use serde_json::Value;
use tests::{
    binary::{Ended, Host},
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

/// A profile of one snapshot.
fn filled() -> MountFixture {
    let fixture = MountFixture::local();
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("Local State"), "{}").unwrap();
    fs::write(source.join("History"), noise(200_000, 1)).unwrap();
    fixture.host.snapshot(&source, ALICE);
    fixture
}

fn write_synced(path: &Path, bytes: &[u8]) {
    let mut file = File::options().create(true).append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}

fn records(host: &Host) -> Vec<Value> {
    let list = host.succeed(["list", ALICE]);
    list["snapshots"].as_array().unwrap().iter().map(|line| line["record"].clone()).collect()
}

/// Another host goes on with the profile, and removes whatever it may.
fn pass_by(fixture: &MountFixture) -> Host {
    let rules = fixture.path("pstore.toml");
    fs::write(&rules, "[tenants.acme]\nretention.keep = \"one\"\n").unwrap();
    let other = fixture.another("two").with("PSTORE_CONFIG", rules.to_str().unwrap());
    other.succeed(["force-unlock", ALICE, "--reason", "the host is gone", "--confirm"]);
    let later = fixture.path("later");
    fs::create_dir(&later).unwrap();
    fs::write(later.join("Local State"), "later").unwrap();
    other.snapshot(&later, ALICE);
    // What a reader has pinned has expired by now.
    for entry in fs::read_dir(fixture.path("store/objects/content/acme/pins")).unwrap() {
        let _ = fs::remove_file(entry.unwrap().path());
    }
    other.succeed(["retention", "apply", "acme"]);
    for _ in 0..3 {
        other.succeed(["gc", "acme", "--grace", "0", "--wait"]);
    }
    other
}

fn rescued_with_every_byte(how: &[&str]) {
    let fixture = filled();
    let base = records(&fixture.host)[0].clone();
    let mounted = fixture.mount_as(&fixture.host, how);
    write_synced(&fixture.mountpoint.join("History"), b"synced");
    fixture.kill(&mounted);
    let id = fixture.sessions()[0]["session"].as_str().unwrap().to_owned();
    let other = pass_by(&fixture);
    assert!(records(&other).contains(&base), "what a session builds on was removed");
    let said = other.fail(27, ["delete", ALICE, "--sha", &short(&other, &base)]);
    assert!(said["message"].as_str().unwrap().contains(&id), "{said:#}");
    let kept = other.succeed(["sessions", "--remote", "acme"]);
    assert_eq!(kept["kept"][0]["session"], id.as_str(), "{kept:#}");
    // Nothing is left of it on the host that it was read on.
    fs::remove_dir_all(fixture.path("one/.cache")).ok();
    fixture.host.succeed(["sessions", "rescue", &id, "--as", "acme/rescued"]);
    let target = fixture.path("target");
    fixture.host.restore("acme/rescued", &target);
    let expected = [noise(200_000, 1), b"synced".to_vec()].concat();
    assert!(fs::read(target.join("History")).unwrap() == expected);
    // It is decided about: nothing keeps its base any more.
    let kept = other.succeed(["sessions", "--remote", "acme"]);
    assert_eq!(kept["kept"].as_array().unwrap().len(), 0, "{kept:#}");
    other.succeed(["retention", "apply", "acme"]);
    assert!(!records(&other).contains(&base));
}

fn short(host: &Host, record: &Value) -> String {
    let list = host.succeed(["list", ALICE]);
    let lines = list["snapshots"].as_array().unwrap();
    let line = lines.iter().find(|line| line["record"] == *record).unwrap();
    line["sha256_prefix"].as_str().unwrap().to_owned()
}

#[test]
fn a_session_that_was_cut_short_keeps_what_it_builds_on() {
    rescued_with_every_byte(&[]);
}

#[test]
fn so_does_a_fork() {
    rescued_with_every_byte(&["--fork"]);
}

/// Roots come and go with what they are for.
#[test]
fn nothing_is_kept_for_a_session_that_is_over() {
    let fixture = filled();
    let kept = || fixture.host.succeed(["sessions", "--remote", "acme"])["kept"].as_array().unwrap().clone();
    for end in [["--discard"], ["--commit"]] {
        fixture.mount();
        fs::write(fixture.mountpoint.join("new"), end[0]).unwrap();
        assert_eq!(kept().len(), 1);
        fixture.unmount(&end);
        assert_eq!(kept().len(), 0, "{end:?}");
    }
    fixture.mount();
    fs::write(fixture.mountpoint.join("new"), "more").unwrap();
    let committed = fixture.commit();
    let now = kept();
    assert_eq!((now.len(), &now[0]["record"]), (1, &committed["record"]), "it follows what is committed");
    fixture.unmount(&[]);
    assert_eq!(kept().len(), 0);
    // One that was killed before anything was changed holds nothing, and the next removes it.
    let mounted = fixture.mount();
    fixture.kill(&mounted);
    assert_eq!(kept().len(), 1);
    fixture.mount();
    assert_eq!(kept().len(), 1);
    fixture.unmount(&[]);
    assert_eq!(kept().len(), 0);
    fixture.mount_as(&fixture.host, &["--read-only"]);
    assert_eq!(kept().len(), 0, "nothing can be changed");
    fixture.unmount(&[]);
}

/// A session with changes whose journal cannot be read.
fn unreadable() -> (MountFixture, String) {
    let fixture = filled();
    let mounted = fixture.mount();
    write_synced(&fixture.mountpoint.join("Local State"), b"newer");
    fixture.kill(&mounted);
    let id = fixture.sessions()[0]["session"].as_str().unwrap().to_owned();
    fs::write(fixture.path("one/sessions").join(&id).join("journal"), "pstore/journal/9\n").unwrap();
    (fixture, id)
}

#[test]
fn a_session_that_cannot_be_read_is_told_about_and_keeps_the_older_snapshot_from_being_mounted() {
    let (fixture, id) = unreadable();
    let listed = fixture.sessions();
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &Value::from("unreadable")), "{listed:#?}");
    assert_eq!((&listed[0]["session"], &listed[0]["profile_id"]), (&id.as_str().into(), &"alice".into()));
    let place = fixture.mountpoint.to_str().unwrap();
    let mount = ["mount", ALICE, place, "--chrome-major", "131"];
    let said = fixture.host.fail(38, mount);
    assert!(said["message"].as_str().unwrap().contains(&id), "{said:#}");
    assert!(said["hint"].as_str().unwrap().contains("set-aside"), "{said:#}");
    for more in [&["--copy"][..], &[]] {
        let words = [&["run", ALICE, "--chrome-major", "131"], more, &["--", "true"]].concat();
        fixture.host.fail(38, words);
    }
    fixture.host.fail(2, ["sessions", "discard", &id]);
    fixture.host.fail(38, ["sessions", "rescue", &id]);
    // Another profile is not concerned.
    fixture.host.succeed(["mount", "acme/bob", place, "--chrome-major", "131"]);
    fixture.unmount(&[]);
    // This once.
    fixture.host.succeed([&mount[..], &["--ignore-session", &id[..14]]].concat());
    fixture.unmount(&[]);
    fixture.host.fail(38, mount);
    fixture.host.succeed(["sessions", "set-aside", &id]);
    let listed = fixture.sessions();
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &Value::from("set_aside")), "{listed:#?}");
    fixture.mount();
    fixture.unmount(&[]);
    fixture.host.succeed(["sessions", "discard", &id, "--confirm"]);
    assert_eq!(fixture.sessions().len(), 0);
}

#[test]
fn a_session_of_which_nothing_is_known_may_be_of_any_profile() {
    let (fixture, id) = unreadable();
    let session = fixture.path("one/sessions").join(&id);
    fs::write(session.join("session.json"), "{").unwrap();
    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.fail(38, ["mount", "acme/bob", place, "--chrome-major", "131"]);
    fs::remove_file(session.join("session.json")).unwrap();
    fixture.host.fail(38, ["mount", "acme/bob", place, "--chrome-major", "131"]);
    assert_eq!(fixture.sessions()[0]["profile_id"], Value::Null);
    fixture.host.succeed(["sessions", "set-aside", &id]);
    fixture.mount();
    fixture.unmount(&[]);
}

fn hints_at_force(error: &Value) {
    assert!(error["hint"].as_str().unwrap().contains("--as acme/alice --force"), "{error:#}");
}

#[test]
fn a_session_replaces_what_others_have_stored_since_only_by_force_and_says_what() {
    let fixture = filled();
    let mounted = fixture.mount();
    fs::write(fixture.mountpoint.join("Local State"), "unfinished").unwrap();
    fixture.kill(&mounted);
    let id = fixture.sessions()[0]["session"].as_str().unwrap().to_owned();
    let other = fixture.another("two");
    other.succeed(["force-unlock", ALICE, "--reason", "the daemon is dead", "--confirm"]);
    outdo(&fixture, &other, "gone past");
    let current = short(&other, &other.succeed(["show", ALICE])["record"]);
    let rescued = fixture.host.succeed(["sessions", "rescue", &id, "--as", ALICE, "--force"]);
    assert!(rescued["replaced"].as_str().unwrap().starts_with(&current), "{rescued:#}");
    assert_eq!(fixture.local_state(ALICE), "unfinished");
    other.succeed(["rollback", ALICE, "--sha", &current, "--reason", "back", "--confirm"]);
    assert_eq!(fixture.local_state(ALICE), "gone past");
}

/// Another host makes the next snapshot of Alice's profile.
fn outdo(fixture: &MountFixture, other: &Host, state: &str) {
    let place = fixture.place(&tests::unique_name());
    let shown = place.to_str().unwrap();
    other.succeed(["mount", ALICE, shown]);
    fs::write(place.join("Local State"), state).unwrap();
    other.succeed(["unmount", shown, "--commit"]);
}

#[test]
fn a_fork_goes_back_to_its_own_profile_only_while_that_is_what_was_forked() {
    let fixture = filled();
    let (place, other) = (fixture.place("fork"), fixture.another("two"));
    let shown = place.to_str().unwrap();
    fixture.host.succeed(["mount", "--fork", ALICE, shown]);
    fs::write(place.join("Local State"), "of the fork").unwrap();
    let back = ["commit", shown, "--as", ALICE];
    // Nobody has moved the pointer: twice, since the first time is what the fork itself has stored.
    for state in ["of the fork", "of the fork, again"] {
        fs::write(place.join("Local State"), state).unwrap();
        assert_eq!(fixture.host.succeed(back)["replaced"], Value::Null);
        assert_eq!(fixture.local_state(ALICE), state);
    }
    // While somebody else holds the lock, nobody goes around it, by force neither.
    let held = fixture.place("held");
    other.succeed(["mount", ALICE, held.to_str().unwrap()]);
    fixture.host.fail(24, back);
    fixture.host.fail(24, [&back[..], &["--force"]].concat());
    fs::write(held.join("Local State"), "newer").unwrap();
    other.succeed(["unmount", held.to_str().unwrap(), "--commit"]);

    fs::write(place.join("Local State"), "older").unwrap();
    hints_at_force(&fixture.host.fail(26, back));
    assert_eq!(fixture.local_state(ALICE), "newer");
    let current = short(&other, &other.succeed(["show", ALICE])["record"]);
    let forced = fixture.host.succeed([&back[..], &["--force"]].concat());
    assert!(forced["replaced"].as_str().unwrap().starts_with(&current), "{forced:#}");
    assert_eq!(fixture.local_state(ALICE), "older");
    fixture.host.succeed(["unmount", shown]);
}

#[test]
fn a_mount_that_lost_its_lock_goes_back_to_its_own_profile_only_while_nobody_has_moved_it() {
    let fixture = filled();
    fixture.mount();
    let (other, back) = (fixture.another("two"), ["--as", ALICE]);
    fs::write(fixture.mountpoint.join("Local State"), "with the lock").unwrap();
    assert_eq!(fixture.ask("commit", &back).document["pointer"], "flipped");
    other.succeed(["force-unlock", ALICE, "--reason", "taken away", "--confirm"]);
    fs::write(fixture.mountpoint.join("Local State"), "without").unwrap();
    assert_eq!(fixture.ask("commit", &[]).code, Some(25));
    assert_eq!(fixture.ask("commit", &back).code, Some(0));
    assert_eq!(fixture.local_state(ALICE), "without");

    outdo(&fixture, &other, "newer");
    fs::write(fixture.mountpoint.join("Local State"), "older").unwrap();
    let refused = fixture.ask("commit", &back);
    assert_eq!(refused.code, Some(26), "{refused:#?}");
    hints_at_force(&refused.document["error"]);
    assert_eq!(fixture.local_state(ALICE), "newer");
    let forced = fixture.ask("commit", &["--as", ALICE, "--force"]);
    assert!(forced.document["replaced"].is_string(), "{forced:#?}");
    assert_eq!(fixture.local_state(ALICE), "older");
    fixture.unmount(&["--discard"]);
}

/// A session here that was cut short, and a snapshot that another host has made since.
fn diverged() -> (MountFixture, String) {
    let fixture = filled();
    let mounted = fixture.mount();
    write_synced(&fixture.mountpoint.join("unfinished"), b"mine");
    fixture.kill(&mounted);
    let id = fixture.sessions()[0]["session"].as_str().unwrap().to_owned();
    let other = fixture.another("two");
    other.succeed(["force-unlock", ALICE, "--reason", "the host is gone", "--confirm"]);
    let later = fixture.path("later");
    fs::create_dir(&later).unwrap();
    fs::write(later.join("Local State"), "later").unwrap();
    other.snapshot(&later, ALICE);
    (fixture, id)
}

fn run(fixture: &MountFixture, on_diverged: &[&str]) -> Ended {
    let script = ["--", "sh", "-c", "cat \"$0/Local State\" >&2; echo run > $0/by", "{profile}"];
    fixture.host.start(["run", ALICE].iter().chain(on_diverged).chain(&script)).wait()
}

#[test]
fn a_run_after_one_elsewhere_can_set_aside_what_was_cut_short_here() {
    let (fixture, id) = diverged();
    let refused = run(&fixture, &[]);
    assert_eq!(refused.code, Some(26), "{refused:#?}");
    assert!(refused.stderr.contains("--on-diverged"), "{refused:#?}");
    let ended = run(&fixture, &["--on-diverged", "set-aside"]);
    assert!(ended.code == Some(0) && ended.stderr.contains("later"), "{ended:#?}");
    assert!(
        ended.stderr.contains(&format!("pstore sessions rescue {id} --as acme/alice-rescued")),
        "{ended:#?}"
    );
    let left = fixture.sessions();
    assert_eq!(
        (left.len(), &left[0]["session"], &left[0]["state"]),
        (1, &id.clone().into(), &"set_aside".into())
    );

    // A week later it is told of again, by whatever mounts the profile.
    let ended = run(&fixture, &[]);
    assert!(ended.code == Some(0) && !ended.stderr.contains(&id), "{ended:#?}");
    let described = Path::new(left[0]["path"].as_str().unwrap()).join("session.json");
    let mut info: Value = serde_json::from_slice(&fs::read(&described).unwrap()).unwrap();
    info["started_at_ms"] = (info["started_at_ms"].as_u64().unwrap() - 8 * 86_400_000).into();
    fs::write(&described, info.to_string()).unwrap();
    let ended = run(&fixture, &[]);
    assert!(ended.code == Some(0) && ended.stderr.contains("began 8 days ago"), "{ended:#?}");

    fixture.host.succeed(["sessions", "rescue", &id, "--as", "acme/alice-rescued"]);
    let out = fixture.path("out");
    fixture.host.restore("acme/alice-rescued", &out);
    assert_eq!(fs::read(out.join("unfinished")).unwrap(), b"mine");
}

#[test]
fn a_mount_after_one_elsewhere_can_store_what_was_cut_short_here_as_another_profile() {
    let (fixture, id) = diverged();
    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.fail(2, ["mount", ALICE, place, "--on-diverged", "rescue-as=acme/alice"]);
    fixture.host.fail(2, ["mount", ALICE, place, "--on-diverged", "rescue"]);
    assert_eq!(fixture.sessions().len(), 1);
    let mounted = fixture.mount_as(&fixture.host, &["--on-diverged", "rescue-as=acme/alice-lost"]);
    assert_eq!(mounted["resumed"], false);
    let warnings = mounted["warnings"].to_string();
    assert!(warnings.contains(&id) && warnings.contains("of acme/alice-lost"), "{mounted:#}");
    assert_eq!(fs::read(fixture.mountpoint.join("Local State")).unwrap(), b"later");
    fixture.unmount(&[]);
    assert_eq!(fixture.sessions().len(), 0);
    let out = fixture.path("out");
    fixture.host.restore("acme/alice-lost", &out);
    assert_eq!(fs::read(out.join("unfinished")).unwrap(), b"mine");
}
