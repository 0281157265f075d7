//! Archives that a program which knows only the contract has made the current snapshot.

use std::{fs, path::Path, process::Command, sync::Arc};

use serde_json::Value;
use store::{
    archive::header::MemberKind,
    bucket::{Key, MemoryBucket, Recorder, Write},
    format::layout,
    ops::archive::import_foreign::Adoption,
    progress::Silent,
};
use tests::{
    binary::{Host, Running},
    desk::Desk,
    mount::MountDesk,
    stranger::{flip, objects, pointer, pointer_to},
    tarball::Tarball,
    tree::{assert_same, noise},
    world::{World, actor, request},
};

const PROFILE: &str = "acme/alice";

fn change(desk: &Desk, note: &str) {
    fs::write(desk.profile.join("note"), note).unwrap();
}

/// The directory as GNU tar and zstd make an archive of it.
fn archive(directory: &Path) -> Vec<u8> {
    let line = "tar --format=posix -C \"$0\" -c . | zstd -q";
    let made = Command::new("sh").args(["-c", line]).arg(directory).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    made.stdout
}

fn load(desk: &Desk, to: &str) -> Value {
    let target = desk.path(to);
    desk.host.succeed(["restore", PROFILE, target.to_str().unwrap(), "--chrome-major", "131"])
}

#[test]
fn an_archive_is_taken_in_once_and_its_pointer_stays_as_it_is() {
    let desk = Desk::local();
    desk.fill(3);
    desk.keep(PROFILE, &[]);
    change(&desk, "more");
    let theirs = flip(&desk.path("store"), &archive(&desk.profile), |_| {});
    let loaded = load(&desk, "out");
    assert_eq!(loaded["outcome"], "success", "{loaded}");
    assert_same(&desk.profile, &desk.path("out"));
    let now = pointer(&desk.path("store"));
    for (field, value) in theirs.as_object().unwrap() {
        assert_eq!(&now[field], value, "{field}");
    }
    assert_eq!(now["pstore"]["record"], loaded["record"]);
    assert_eq!(now["pstore"]["contract_only_seen"], true);
    let again = load(&desk, "again");
    assert_eq!((&again["record"], &again["outcome"]), (&loaded["record"], &"success".into()));
    let listed = desk.host.succeed(["list", PROFILE]);
    assert_eq!((listed["snapshots"].as_array().unwrap().len(), &listed["foreign"]), (2, &false.into()));
    let shown = desk.host.succeed(["show", PROFILE]);
    assert_eq!(
        (&shown["captured_by"]["host"], &shown["captured_at_ms"], &shown["notes"]),
        (&"e2b".into(), &1_733_456_512_000_u64.into(), &"from elsewhere".into())
    );
    assert_eq!(shown["health"]["cookies"]["rows"], 3);
    assert!(shown["counts"]["new_bytes"].as_u64().unwrap() < 10_000, "what was known is not stored: {shown}");
    let log = desk.host.succeed(["log", PROFILE]);
    let mut kinds: Vec<&str> =
        log["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    // What happens within a millisecond is told in any order.
    kinds.sort_unstable();
    assert_eq!(kinds, ["adopt", "flip", "foreign_flip"]);
    // Who goes on from there goes on from their archive, and remembers that they are there.
    change(&desk, "and more");
    let next = desk.keep(PROFILE, &[]);
    assert_eq!(next["flipped_from_sha256_prefix"], theirs["active_sha256_prefix"]);
    assert_eq!(pointer(&desk.path("store"))["pstore"]["contract_only_seen"], true);
    // And back to what is known already, without its archive being read again.
    fs::remove_file(desk.path("store/objects").join(theirs["active_archive_key"].as_str().unwrap())).unwrap();
    fs::write(objects(&desk.path("store")).join("latest.json"), theirs.to_string()).unwrap();
    assert_eq!(load(&desk, "back")["record"], loaded["record"]);
    desk.host.verify(PROFILE, &[]);
}

/// Each does the work; one of them says so in the pointer, and the other goes by that.
/// Looking at a profile neither writes to the store nor hands anybody's databases to SQLite.
#[test]
fn an_archive_is_taken_in_by_who_loads_it_or_says_so_and_by_nobody_else() {
    let desk = Desk::local();
    desk.fill(3);
    desk.keep(PROFILE, &[]);
    change(&desk, "more");
    flip(&desk.path("store"), &archive(&desk.profile), |_| {});
    let objects = || tests::tree::look_at(&desk.path("store/objects"));
    let before = objects();
    let out = desk.path("never.tar.zst");
    let looks: [&[&str]; 6] = [
        &["list", PROFILE],
        &["show", PROFILE],
        &["history", PROFILE],
        &["export", PROFILE, "--output", out.to_str().unwrap()],
        &["verify", PROFILE],
        &["log", PROFILE],
    ];
    for look in looks {
        let ended = desk.host.run(look);
        if matches!(look[0], "list" | "show" | "history" | "export") {
            assert!(ended.stderr.contains("`pstore import --current"), "{look:?}: {ended:#?}");
        }
        assert!(objects() == before, "{look:?} has changed the store");
    }
    assert_eq!(desk.host.succeed(["list", PROFILE])["foreign"], true);
    let taken = desk.host.succeed(["import", "--current", PROFILE]);
    assert_eq!(taken["outcome"], "stored", "{taken}");
    assert_eq!(desk.host.succeed(["list", PROFILE])["foreign"], false);
    assert_eq!(desk.host.succeed(["show", PROFILE])["record"], taken["record"]);
    assert_eq!(desk.host.succeed(["import", "--current", PROFILE])["outcome"], "unchanged");
    desk.host.verify(PROFILE, &[]);
}

#[test]
fn of_two_that_take_an_archive_in_at_once_both_get_it() {
    let desk = Desk::local();
    desk.fill(3);
    desk.keep(PROFILE, &[]);
    fs::write(desk.profile.join("large"), noise(3_000_000, 1)).unwrap();
    flip(&desk.path("store"), &archive(&desk.profile), |_| {});
    let hosts = ["one", "two", "three"].map(|home| Host::local(&desk.path(home), &desk.path("store")));
    let out = |home: usize| desk.path(&format!("out{home}"));
    let running: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| {
            host.start(["restore", PROFILE, out(at).to_str().unwrap(), "--chrome-major", "131", "--require"])
        })
        .collect();
    let ended: Vec<_> = running.into_iter().map(Running::wait).collect();
    let current = pointer(&desk.path("store"))["pstore"]["snapshot_id"].clone();
    for (at, ended) in ended.iter().enumerate() {
        assert_eq!((ended.code, &ended.document["outcome"]), (Some(0), &"success".into()), "{ended:#?}");
        assert_eq!(ended.document["snapshot_id"], current, "{ended:#?}");
        assert_same(&desk.profile, &out(at));
    }
    let log = desk.host.succeed(["log", PROFILE]);
    assert_eq!(log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "adopt").count(), 1);
    desk.host.verify(PROFILE, &[]);
}

#[test]
fn a_tenant_that_pstore_has_never_seen_is_loaded_all_the_same() {
    let desk = Desk::local();
    desk.fill(3);
    desk.host.succeed(["init"]);
    flip(&desk.path("store"), &archive(&desk.profile), |_| {});
    assert_eq!(load(&desk, "out")["outcome"], "success");
    assert_same(&desk.profile, &desk.path("out"));
    let listed = desk.host.succeed(["list", PROFILE]);
    assert_eq!(listed["snapshots"][0]["latest"], true, "{listed}");
}

/// A profile whose cookies are damaged.
fn torn() -> Desk {
    let desk = Desk::local();
    desk.fill(500);
    let path = desk.profile.join("Default/Cookies");
    let mut database = fs::read(&path).unwrap();
    let middle = database.len() / 2;
    database[middle..middle + 8192].fill(0xff);
    fs::write(path, database).unwrap();
    desk
}

#[test]
fn whatever_is_wrong_with_an_archive_becomes_a_fresh_profile_with_the_contracts_word() {
    let good = Tarball::new().file("Default/a", b"content").end().zstd();
    let mut changed = good.clone();
    changed[20] ^= 1;
    let evil = Tarball::new().file("../evil", b"x").end().zstd();
    let torn = archive(&torn().profile);
    type Change = fn(&mut Value);
    let cases: [(&str, &[u8], Change); 8] = [
        ("sha_mismatch", &good, |manifest| manifest["archive_size_bytes"] = 1_000.into()),
        ("unsupported_version", &good, |manifest| manifest["version"] = 0.into()),
        ("sha_mismatch", &good, |manifest| manifest["tenant_id"] = "globex".into()),
        ("integrity_failed", &evil, |_| {}),
        ("integrity_failed", &torn, |_| {}),
        ("version_mismatch", &good, |manifest| manifest["chrome_major_version"] = 132.into()),
        ("fresh_fallback", &good, |manifest| manifest["mode"] = "hot".into()),
        ("success", &good, |_| {}),
    ];
    for (at, (outcome, archive, change)) in cases.into_iter().enumerate() {
        let desk = Desk::local();
        desk.host.succeed(["init"]);
        flip(&desk.path("store"), archive, change);
        let loaded = load(&desk, "out");
        assert_eq!(loaded["outcome"], outcome, "{at}: {loaded}");
        assert_eq!(desk.path("out/Default/a").exists(), outcome == "success", "{at}");
        assert!(!desk.path("evil").exists());
    }
    let desk = Desk::local();
    desk.host.succeed(["init"]);
    let theirs = flip(&desk.path("store"), &good, |_| {});
    let stored = desk.path("store/objects").join(theirs["active_archive_key"].as_str().unwrap());
    fs::write(&stored, &changed).unwrap();
    assert_eq!(load(&desk, "changed")["outcome"], "sha_mismatch");
    fs::write(&stored, [good.clone(), b"more".to_vec()].concat()).unwrap();
    assert_eq!(load(&desk, "longer")["outcome"], "sha_mismatch");
    fs::remove_file(&stored).unwrap();
    assert_eq!(load(&desk, "gone")["outcome"], "fresh_fallback");
    fs::write(&stored, &good).unwrap();
    let small = desk.host.clone().with("PSTORE_MAX_PROFILE_BYTES", "1");
    let target = desk.path("small");
    let line = ["restore", PROFILE, target.to_str().unwrap(), "--chrome-major", "131"];
    assert_eq!(small.succeed(line)["outcome"], "too_large");
    // Nothing of this was published.
    assert_eq!(pointer(&desk.path("store")), theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_too_long_is_not_fetched() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
    let world = World::open(recorder.clone(), None).await;
    let pointer = pointer_to("0123456789ab", "");
    let long = Key::new(pointer["active_manifest_key"].as_str().unwrap()).unwrap();
    for (key, bytes) in
        [(layout::latest(&world.lineage), pointer.to_string().into_bytes()), (long, vec![b' '; 8 << 20])]
    {
        world.root.put(&key, bytes.into(), Write::Create).await.unwrap();
    }
    let adoption = Adoption {
        actor: actor("test"),
        about: request(&world.lineage, Path::new("")).about,
        max_bytes: 1 << 30,
        quota_bytes: None,
        threads: 1,
        judge: None,
    };
    let error = adoption.adopt(&world.store, &world.lineage, Arc::new(Silent)).await.unwrap_err();
    assert!(error.to_string().contains("at most 1048576"), "{error}");
    assert!(recorder.downloaded_bytes() < 1 << 20, "{}", recorder.downloaded_bytes());
}

#[test]
fn an_archive_is_mounted_and_committed_upon() {
    let source = Desk::local();
    source.fill(3);
    let desk = MountDesk::local();
    desk.host.succeed(["init"]);
    let theirs = flip(&desk.path("store"), &archive(&source.profile), |_| {});
    desk.mount();
    assert_eq!(Desk::cookies(&desk.mountpoint).len(), 3);
    fs::write(desk.mountpoint.join("note"), "new").unwrap();
    desk.commit();
    desk.unmount(&[]);
    assert_eq!(pointer(&desk.path("store"))["flipped_from_sha256_prefix"], theirs["active_sha256_prefix"]);
    let log = desk.host.succeed(["log", PROFILE]);
    assert_eq!(log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "adopt").count(), 1);
}

/// A mount looks into no file: what was found when the archive was taken in counts. Who only looks
/// sees it. It is the same where somebody has made a damaged snapshot the current one.
#[test]
fn an_archive_with_a_damaged_database_is_not_mounted_for_a_browser() {
    let (desk, torn) = (MountDesk::local(), torn());
    desk.host.succeed(["init"]);
    let theirs = flip(&desk.path("store"), &archive(&torn.profile), |_| {});
    for _ in 0..2 {
        assert_eq!(desk.mount()["fallback"], "integrity_failed");
        assert!(!desk.mountpoint.join("Default/Cookies").exists());
        desk.unmount(&[]);
    }
    let prefix = theirs["active_sha256_prefix"].as_str().unwrap();
    let (chosen, place) = (format!("{PROFILE}@{prefix}"), desk.mountpoint.to_str().unwrap());
    desk.host.succeed(["mount", &chosen, place, "--chrome-major", "131", "--read-only"]);
    assert!(desk.mountpoint.join("Default/Cookies").exists());
    desk.unmount(&[]);
    let wanted = MountDesk::local();
    let profile = torn.profile.to_str().unwrap();
    wanted.host.succeed(["snapshot", profile, PROFILE, "--chrome-major", "131", "--allow-damaged"]);
    assert_eq!(wanted.mount()["fallback"], "integrity_failed");
    assert!(!wanted.mountpoint.join("Default/Cookies").exists());
    wanted.unmount(&[]);
}

#[test]
fn what_only_old_programs_write_is_read() {
    let desk = Desk::local();
    desk.host.succeed(["init"]);
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    let mut gnu = Tarball::new();
    let name = store::archive::header::Header {
        size: long.len() as u64 + 1,
        ..store::archive::header::Header::new("././@LongLink", MemberKind::GnuLongPath)
    };
    gnu = gnu.member(&name, format!("{long}\0").as_bytes()).file("cut", b"long");
    flip(&desk.path("store"), &gnu.file("deep/in/nowhere", b"x").end().zstd(), |_| {});
    load(&desk, "out");
    assert_eq!(fs::read(desk.path("out").join(long)).unwrap(), b"long");
    assert_eq!(fs::read(desk.path("out/deep/in/nowhere")).unwrap(), b"x");
}
