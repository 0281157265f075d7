//! Whoever moves the pointer, and however: where archives are wanted, it names one.

use std::fs;

use serde_json::Value;
use tests::{
    binary::Host,
    desk::Desk,
    mount::MountDesk,
    stranger::{find, flip, lock, objects, pointer},
    tarball::Tarball,
};

const PROFILE: &str = "acme/alice";

/// The host, where archives are always wanted.
fn always(host: &Host) -> Host {
    host.clone().with("PSTORE_ARCHIVE", "always")
}

/// Two snapshots from before archives were wanted.
fn two() -> (Desk, [Value; 2]) {
    let desk = Desk::local();
    desk.fill(3);
    let first = desk.keep(PROFILE, &[]);
    fs::write(desk.profile.join("note"), "more").unwrap();
    let second = desk.keep(PROFILE, &[]);
    find(&desk.path("store")).unwrap_err();
    (desk, [first, second])
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
    let (desk, [first, second]) = two();
    let store = desk.path("store");
    let rolled = roll_back(&always(&desk.host), &first);
    let manifest = find(&store).unwrap();
    assert_eq!(rolled["outcome"], "rolled_back", "{rolled}");
    assert_eq!(manifest["archive_sha256"].as_str().unwrap()[..12], rolled["active_sha256_prefix"]);
    assert_eq!(pointer(&store)["flipped_from_sha256_prefix"], second["active_sha256_prefix"]);
    desk.host.verify(PROFILE, &[]);
}

#[test]
fn a_rollback_whose_archive_cannot_be_stored_moves_nothing() {
    let (desk, [first, _]) = two();
    let before = pointer(&desk.path("store"));
    fs::write(desk.path("no directory"), "").unwrap();
    let full = always(&desk.host).with("PSTORE_CACHE_DIR", desk.path("no directory").to_str().unwrap());
    let sha = first["snapshot_id"].as_str().unwrap();
    let refused = full.fail(20, ["rollback", PROFILE, "--sha", sha, "--reason", "a test", "--confirm"]);
    assert!(refused["message"].as_str().unwrap().contains("archive could not be stored"), "{refused}");
    assert_eq!(pointer(&desk.path("store")), before);
}

#[test]
fn where_another_program_was_seen_a_rollback_is_to_a_snapshot_with_an_archive() {
    let (desk, [first, _]) = two();
    let archive = Tarball::new().file("Local State", b"{}").end().zstd();
    flip(&desk.path("store"), &archive, |_| {});
    desk.host.succeed(["import", "--current", PROFILE]);
    roll_back(&desk.host, &first);
    find(&desk.path("store")).unwrap();
}

/// It will look for an archive when it comes again, though it has moved nothing yet.
#[test]
fn where_another_program_has_held_the_lock_archives_are_wanted() {
    let (desk, [first, _]) = two();
    let store = desk.path("store");
    // An operator's own lock says nothing of who else is there.
    lock(&store, "operator-force");
    assert_eq!(desk.snapshot(PROFILE, &[]).document["outcome"], "unchanged");
    find(&store).unwrap_err();
    lock(&store, "the-other");
    assert_eq!(desk.snapshot(PROFILE, &[]).document["outcome"], "unchanged");
    find(&store).unwrap();
    roll_back(&desk.host, &first);
    find(&store).unwrap();
    // Whoever takes the lock next writes it down: the lock itself is then another.
    fs::write(desk.profile.join("note"), "and more").unwrap();
    desk.keep(PROFILE, &[]);
    find(&store).unwrap();
    assert_eq!(pointer(&store)["pstore"]["contract_only_seen"], true);
    fs::write(desk.profile.join("note"), "and again").unwrap();
    desk.keep(PROFILE, &[]);
    find(&store).unwrap();
}

#[test]
fn a_lock_that_cannot_be_read_hides_nothing_of_what_the_pointer_says() {
    let (desk, [first, _]) = two();
    let store = desk.path("store");
    lock(&store, "the-other");
    fs::write(desk.profile.join("note"), "and more").unwrap();
    desk.keep(PROFILE, &[]);
    assert_eq!(pointer(&store)["pstore"]["contract_only_seen"], true);
    fs::write(objects(&store).join("lock.json"), "no lock").unwrap();
    let sha = first["snapshot_id"].as_str().unwrap();
    let to_first = ["rollback", PROFILE, "--sha", sha, "--reason", "a test", "--confirm", "--force"];
    desk.host.succeed(to_first);
    find(&store).unwrap();
}

#[test]
fn what_is_current_already_gets_its_archive_too() {
    let (desk, [_, second]) = two();
    let store = desk.path("store");
    let host = always(&desk.host);
    assert_eq!(roll_back(&host, &second)["outcome"], "unchanged");
    assert_eq!(pointer(&store)["pstore"]["record"], second["record"]);
    find(&store).unwrap();
}

#[test]
fn a_snapshot_that_changes_nothing_gives_the_current_one_its_archive() {
    // Without a look into any file, and with one.
    for rescan in [&[][..], &["--rescan"]] {
        let (mut desk, [_, second]) = two();
        let store = desk.path("store");
        desk.host = always(&desk.host);
        let same = desk.snapshot(PROFILE, rescan).document;
        assert_eq!((&same["outcome"], &same["record"]), (&"unchanged".into(), &second["record"]), "{same}");
        let manifest = find(&store).unwrap();
        assert_eq!(manifest["archive_sha256"].as_str().unwrap()[..12], same["active_sha256_prefix"]);
        // It is still the same move.
        let now = pointer(&store);
        assert_eq!(now["flipped_from_sha256_prefix"], second["flipped_from_sha256_prefix"]);
        let again = desk.snapshot(PROFILE, rescan).document;
        assert_eq!(
            (&again["outcome"], pointer(&store)["active_sha256_prefix"].clone()),
            (&"unchanged".into(), now["active_sha256_prefix"].clone())
        );
    }
}

#[test]
fn a_commit_that_changes_nothing_gives_the_current_one_its_archive() {
    let desk = MountDesk::local();
    desk.mount();
    fs::write(desk.mountpoint.join("note"), "one").unwrap();
    desk.commit();
    desk.unmount(&[]);
    find(&desk.path("store")).unwrap_err();
    desk.mount_as(&always(&desk.host), &[]);
    assert_eq!(desk.commit()["outcome"], "unchanged");
    find(&desk.path("store")).unwrap();
    // Its own claim has survived that.
    fs::write(desk.mountpoint.join("note"), "two").unwrap();
    desk.commit();
    find(&desk.path("store")).unwrap();
    desk.unmount(&[]);
}

#[test]
fn an_import_writes_over_a_damaged_pointer_only_by_force() {
    let (desk, _) = two();
    let (store, file) = (desk.path("store"), desk.path("theirs.tar.zst"));
    fs::write(&file, Tarball::new().file("Local State", b"{}").end().zstd()).unwrap();
    let latest = objects(&store).join("latest.json");
    fs::write(&latest, "{").unwrap();
    let line = ["import", file.to_str().unwrap(), PROFILE, "--chrome-major", "131"];
    let refused = desk.host.fail(10, line);
    assert_eq!(refused["hint"], "--force writes a new one in its place", "{refused}");
    assert_eq!(fs::read(&latest).unwrap(), b"{");
    let imported = always(&desk.host).succeed([&line[..], &["--force"]].concat());
    assert_eq!(pointer(&store)["pstore"]["record"], imported["record"]);
    find(&store).unwrap();
}

#[test]
fn an_import_moves_the_pointer_to_an_archive_even_if_it_was_there() {
    let desk = Desk::local();
    let file = desk.path("theirs.tar.zst");
    fs::write(&file, Tarball::new().file("Local State", b"{}").end().zstd()).unwrap();
    let line = ["import", file.to_str().unwrap(), PROFILE, "--chrome-major", "131"];
    let first = desk.host.succeed(line);
    find(&desk.path("store")).unwrap_err();
    let again = always(&desk.host).succeed(line);
    assert_eq!((&again["outcome"], &again["record"]), (&"unchanged".into(), &first["record"]), "{again}");
    find(&desk.path("store")).unwrap();
}
