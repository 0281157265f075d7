//! These tests move the pointer in every way: where archives are wanted, it names one.

use std::fs;

use serde_json::Value;
use tests::{
    binary::Host,
    contract_client::{find, flip, lock, objects, pointer},
    mount_fixture::MountFixture,
    profile_fixture::ProfileFixture,
    tarball::Tarball,
};

const PROFILE: &str = "acme/alice";

/// The host, where archives are always wanted.
fn always(host: &Host) -> Host {
    host.clone().with("PSTORE_ARCHIVE", "always")
}

/// Two snapshots from before archives were wanted.
fn two() -> (ProfileFixture, [Value; 2]) {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    let first = fixture.keep(PROFILE, &[]);
    fs::write(fixture.profile.join("note"), "more").unwrap();
    let second = fixture.keep(PROFILE, &[]);
    find(&fixture.path("store")).unwrap_err();
    (fixture, [first, second])
}

fn roll_back(host: &Host, to: &Value) -> Value {
    let sha = to["snapshot_id"].as_str().unwrap();
    host.succeed([
        "rollback",
        PROFILE,
        "--sha",
        sha,
        "--chrome-major",
        "131",
        "--reason",
        "a test",
        "--confirm",
    ])
}

#[test]
fn a_rollback_is_to_a_snapshot_with_an_archive() {
    let (fixture, [first, second]) = two();
    let store = fixture.path("store");
    let rolled = roll_back(&always(&fixture.host), &first);
    let manifest = find(&store).unwrap();
    assert_eq!(rolled["outcome"], "rolled_back", "{rolled}");
    assert_eq!(manifest["archive_sha256"].as_str().unwrap()[..12], rolled["active_sha256_prefix"]);
    assert_eq!(pointer(&store)["flipped_from_sha256_prefix"], second["active_sha256_prefix"]);
    fixture.host.verify(PROFILE, &[]);
}

#[test]
fn a_rollback_whose_archive_cannot_be_stored_moves_nothing() {
    let (fixture, [first, _]) = two();
    let before = pointer(&fixture.path("store"));
    fs::write(fixture.path("no directory"), "").unwrap();
    let full = always(&fixture.host).with("PSTORE_CACHE_DIR", fixture.path("no directory").to_str().unwrap());
    let sha = first["snapshot_id"].as_str().unwrap();
    let refused = full.fail(20, ["rollback", PROFILE, "--sha", sha, "--reason", "a test", "--confirm"]);
    assert!(refused["message"].as_str().unwrap().contains("archive could not be stored"), "{refused}");
    assert_eq!(pointer(&fixture.path("store")), before);
}

#[test]
fn where_another_program_was_seen_a_rollback_is_to_a_snapshot_with_an_archive() {
    let (fixture, [first, _]) = two();
    let archive = Tarball::new().file("Local State", b"{}").end().zstd();
    flip(&fixture.path("store"), &archive, |_| {});
    fixture.host.succeed(["import", "--current", PROFILE]);
    roll_back(&fixture.host, &first);
    find(&fixture.path("store")).unwrap();
}

/// It will look for an archive when it comes again, though it has moved nothing yet.
#[test]
fn where_another_program_has_held_the_lock_archives_are_wanted() {
    let (fixture, [first, _]) = two();
    let store = fixture.path("store");
    // An operator's own lock says nothing of who else is there.
    lock(&store, "operator-force");
    assert_eq!(fixture.snapshot(PROFILE, &[]).document["outcome"], "unchanged");
    find(&store).unwrap_err();
    lock(&store, "the-other");
    assert_eq!(fixture.snapshot(PROFILE, &[]).document["outcome"], "unchanged");
    find(&store).unwrap();
    roll_back(&fixture.host, &first);
    find(&store).unwrap();
    // Whoever takes the lock next writes it down: the lock itself is then another.
    fs::write(fixture.profile.join("note"), "and more").unwrap();
    fixture.keep(PROFILE, &[]);
    find(&store).unwrap();
    assert_eq!(pointer(&store)["pstore"]["contract_only_seen"], true);
    fs::write(fixture.profile.join("note"), "and again").unwrap();
    fixture.keep(PROFILE, &[]);
    find(&store).unwrap();
}

#[test]
fn a_lock_that_cannot_be_read_hides_nothing_of_what_the_pointer_says() {
    let (fixture, [first, _]) = two();
    let store = fixture.path("store");
    lock(&store, "the-other");
    fs::write(fixture.profile.join("note"), "and more").unwrap();
    fixture.keep(PROFILE, &[]);
    assert_eq!(pointer(&store)["pstore"]["contract_only_seen"], true);
    fs::write(objects(&store).join("lock.json"), "no lock").unwrap();
    let sha = first["snapshot_id"].as_str().unwrap();
    let to_first = ["rollback", PROFILE, "--sha", sha, "--reason", "a test", "--confirm", "--force"];
    fixture.host.succeed(to_first);
    find(&store).unwrap();
}

#[test]
fn what_is_current_already_gets_its_archive_too() {
    let (fixture, [_, second]) = two();
    let store = fixture.path("store");
    let host = always(&fixture.host);
    assert_eq!(roll_back(&host, &second)["outcome"], "unchanged");
    assert_eq!(pointer(&store)["pstore"]["record"], second["record"]);
    find(&store).unwrap();
}

#[test]
fn a_snapshot_that_changes_nothing_gives_the_current_one_its_archive() {
    // Without a look into any file, and with one.
    for rescan in [&[][..], &["--rescan"]] {
        let (mut fixture, [_, second]) = two();
        let store = fixture.path("store");
        fixture.host = always(&fixture.host);
        let same = fixture.snapshot(PROFILE, rescan).document;
        assert_eq!((&same["outcome"], &same["record"]), (&"unchanged".into(), &second["record"]), "{same}");
        let manifest = find(&store).unwrap();
        assert_eq!(manifest["archive_sha256"].as_str().unwrap()[..12], same["active_sha256_prefix"]);
        // It is still the same move.
        let now = pointer(&store);
        assert_eq!(now["flipped_from_sha256_prefix"], second["flipped_from_sha256_prefix"]);
        let again = fixture.snapshot(PROFILE, rescan).document;
        assert_eq!(
            (&again["outcome"], pointer(&store)["active_sha256_prefix"].clone()),
            (&"unchanged".into(), now["active_sha256_prefix"].clone())
        );
    }
}

#[test]
fn a_commit_that_changes_nothing_gives_the_current_one_its_archive() {
    let fixture = MountFixture::local();
    fixture.mount();
    fs::write(fixture.mountpoint.join("note"), "one").unwrap();
    fixture.commit();
    fixture.unmount(&[]);
    find(&fixture.path("store")).unwrap_err();
    fixture.mount_as(&always(&fixture.host), &[]);
    assert_eq!(fixture.commit()["outcome"], "unchanged");
    find(&fixture.path("store")).unwrap();
    // Its own claim has survived that.
    fs::write(fixture.mountpoint.join("note"), "two").unwrap();
    fixture.commit();
    find(&fixture.path("store")).unwrap();
    fixture.unmount(&[]);
}

#[test]
fn an_import_writes_over_a_damaged_pointer_only_by_force() {
    let (fixture, _) = two();
    let (store, file) = (fixture.path("store"), fixture.path("theirs.tar.zst"));
    fs::write(&file, Tarball::new().file("Local State", b"{}").end().zstd()).unwrap();
    let latest = objects(&store).join("latest.json");
    fs::write(&latest, "{").unwrap();
    let line = ["import", file.to_str().unwrap(), PROFILE, "--chrome-major", "131"];
    let refused = fixture.host.fail(10, line);
    assert_eq!(refused["hint"], "--force writes a new one in its place", "{refused}");
    assert_eq!(fs::read(&latest).unwrap(), b"{");
    let imported = always(&fixture.host).succeed([&line[..], &["--force"]].concat());
    assert_eq!(pointer(&store)["pstore"]["record"], imported["record"]);
    find(&store).unwrap();
}

#[test]
fn an_import_moves_the_pointer_to_an_archive_even_if_it_was_there() {
    let fixture = ProfileFixture::local();
    let file = fixture.path("theirs.tar.zst");
    fs::write(&file, Tarball::new().file("Local State", b"{}").end().zstd()).unwrap();
    let line = ["import", file.to_str().unwrap(), PROFILE, "--chrome-major", "131"];
    let first = fixture.host.succeed(line);
    find(&fixture.path("store")).unwrap_err();
    let again = always(&fixture.host).succeed(line);
    assert_eq!((&again["outcome"], &again["record"]), (&"unchanged".into(), &first["record"]), "{again}");
    find(&fixture.path("store")).unwrap();
}
