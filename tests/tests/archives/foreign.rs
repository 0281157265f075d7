//! These tests load archives that a program which knows only the contract has made the current snapshot.

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
    contract_client::{flip, objects, pointer, pointer_to},
    mount_fixture::MountFixture,
    profile_fixture::ProfileFixture,
    store_fixture::{StoreFixture, actor, request},
    tarball::Tarball,
    tree::{assert_same, noise},
};

const PROFILE: &str = "acme/alice";

fn change(fixture: &ProfileFixture, note: &str) {
    fs::write(fixture.profile.join("note"), note).unwrap();
}

/// The directory as GNU tar and zstd make an archive of it.
fn archive(directory: &Path) -> Vec<u8> {
    let line = "tar --format=posix -C \"$0\" -c . | zstd -q";
    let made = Command::new("sh").args(["-c", line]).arg(directory).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    made.stdout
}

fn load(fixture: &ProfileFixture, to: &str) -> Value {
    let target = fixture.path(to);
    fixture.host.succeed(["restore", PROFILE, target.to_str().unwrap(), "--chrome-major", "131"])
}

#[test]
fn an_archive_is_taken_in_once_and_its_pointer_stays_as_it_is() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep(PROFILE, &[]);
    change(&fixture, "more");
    let theirs = flip(&fixture.path("store"), &archive(&fixture.profile), |_| {});
    let loaded = load(&fixture, "out");
    assert_eq!(loaded["outcome"], "success", "{loaded}");
    assert_same(&fixture.profile, &fixture.path("out"));
    let now = pointer(&fixture.path("store"));
    for (field, value) in theirs.as_object().unwrap() {
        assert_eq!(&now[field], value, "{field}");
    }
    assert_eq!(now["pstore"]["record"], loaded["record"]);
    assert_eq!(now["pstore"]["contract_only_seen"], true);
    let again = load(&fixture, "again");
    assert_eq!((&again["record"], &again["outcome"]), (&loaded["record"], &"success".into()));
    let listed = fixture.host.succeed(["list", PROFILE]);
    assert_eq!((listed["snapshots"].as_array().unwrap().len(), &listed["foreign"]), (2, &false.into()));
    let shown = fixture.host.succeed(["show", PROFILE]);
    assert_eq!(
        (&shown["captured_by"]["host"], &shown["captured_at_ms"], &shown["notes"]),
        (&"e2b".into(), &1_733_456_512_000_u64.into(), &"from elsewhere".into())
    );
    assert_eq!(shown["health"]["cookies"]["rows"], 3);
    assert!(shown["counts"]["new_bytes"].as_u64().unwrap() < 10_000, "what was known is not stored: {shown}");
    let log = fixture.host.succeed(["log", PROFILE]);
    let mut kinds: Vec<&str> =
        log["events"].as_array().unwrap().iter().map(|event| event["kind"].as_str().unwrap()).collect();
    // What happens within a millisecond is told in any order.
    kinds.sort_unstable();
    assert_eq!(kinds, ["adopt", "flip", "foreign_flip"]);
    // Who goes on from there goes on from their archive, and remembers that they are there.
    change(&fixture, "and more");
    let next = fixture.keep(PROFILE, &[]);
    assert_eq!(next["flipped_from_sha256_prefix"], theirs["active_sha256_prefix"]);
    assert_eq!(pointer(&fixture.path("store"))["pstore"]["contract_only_seen"], true);
    // And back to what is known already, without its archive being read again.
    fs::remove_file(fixture.path("store/objects").join(theirs["active_archive_key"].as_str().unwrap()))
        .unwrap();
    fs::write(objects(&fixture.path("store")).join("latest.json"), theirs.to_string()).unwrap();
    assert_eq!(load(&fixture, "back")["record"], loaded["record"]);
    fixture.host.verify(PROFILE, &[]);
}

/// Each does the work; one of them says so in the pointer, and the other goes by that.
/// Looking at a profile neither writes to the store nor hands anybody's databases to SQLite.
#[test]
fn an_archive_is_taken_in_by_who_loads_it_or_says_so_and_by_nobody_else() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep(PROFILE, &[]);
    change(&fixture, "more");
    flip(&fixture.path("store"), &archive(&fixture.profile), |_| {});
    let objects = || tests::tree::look_at(&fixture.path("store/objects"));
    let before = objects();
    let out = fixture.path("never.tar.zst");
    let looks: [&[&str]; 6] = [
        &["list", PROFILE],
        &["show", PROFILE],
        &["history", PROFILE],
        &["export", PROFILE, "--output", out.to_str().unwrap()],
        &["verify", PROFILE],
        &["log", PROFILE],
    ];
    for look in looks {
        let ended = fixture.host.run(look);
        if matches!(look[0], "list" | "show" | "history" | "export") {
            assert!(ended.stderr.contains("`pstore import --current"), "{look:?}: {ended:#?}");
        }
        assert!(objects() == before, "{look:?} has changed the store");
    }
    assert_eq!(fixture.host.succeed(["list", PROFILE])["foreign"], true);
    let taken = fixture.host.succeed(["import", "--current", PROFILE]);
    assert_eq!(taken["outcome"], "stored", "{taken}");
    assert_eq!(fixture.host.succeed(["list", PROFILE])["foreign"], false);
    assert_eq!(fixture.host.succeed(["show", PROFILE])["record"], taken["record"]);
    assert_eq!(fixture.host.succeed(["import", "--current", PROFILE])["outcome"], "unchanged");
    fixture.host.verify(PROFILE, &[]);
}

#[test]
fn of_two_that_take_an_archive_in_at_once_both_get_it() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep(PROFILE, &[]);
    fs::write(fixture.profile.join("large"), noise(3_000_000, 1)).unwrap();
    flip(&fixture.path("store"), &archive(&fixture.profile), |_| {});
    let hosts = ["one", "two", "three"].map(|home| Host::local(&fixture.path(home), &fixture.path("store")));
    let out = |home: usize| fixture.path(&format!("out{home}"));
    let running: Vec<_> = hosts
        .iter()
        .enumerate()
        .map(|(at, host)| {
            host.start(["restore", PROFILE, out(at).to_str().unwrap(), "--chrome-major", "131", "--require"])
        })
        .collect();
    let ended: Vec<_> = running.into_iter().map(Running::wait).collect();
    let current = pointer(&fixture.path("store"))["pstore"]["snapshot_id"].clone();
    for (at, ended) in ended.iter().enumerate() {
        assert_eq!((ended.code, &ended.document["outcome"]), (Some(0), &"success".into()), "{ended:#?}");
        assert_eq!(ended.document["snapshot_id"], current, "{ended:#?}");
        assert_same(&fixture.profile, &out(at));
    }
    let log = fixture.host.succeed(["log", PROFILE]);
    assert_eq!(log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "adopt").count(), 1);
    fixture.host.verify(PROFILE, &[]);
}

#[test]
fn a_tenant_that_pstore_has_never_seen_is_loaded_all_the_same() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.host.succeed(["init"]);
    flip(&fixture.path("store"), &archive(&fixture.profile), |_| {});
    assert_eq!(load(&fixture, "out")["outcome"], "success");
    assert_same(&fixture.profile, &fixture.path("out"));
    let listed = fixture.host.succeed(["list", PROFILE]);
    assert_eq!(listed["snapshots"][0]["latest"], true, "{listed}");
}

/// A profile whose cookies are damaged.
fn torn() -> ProfileFixture {
    let fixture = ProfileFixture::local();
    fixture.fill(500);
    let path = fixture.profile.join("Default/Cookies");
    let mut database = fs::read(&path).unwrap();
    let middle = database.len() / 2;
    database[middle..middle + 8192].fill(0xff);
    fs::write(path, database).unwrap();
    fixture
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
        let fixture = ProfileFixture::local();
        fixture.host.succeed(["init"]);
        flip(&fixture.path("store"), archive, change);
        let loaded = load(&fixture, "out");
        assert_eq!(loaded["outcome"], outcome, "{at}: {loaded}");
        assert_eq!(fixture.path("out/Default/a").exists(), outcome == "success", "{at}");
        assert!(!fixture.path("evil").exists());
    }
    let fixture = ProfileFixture::local();
    fixture.host.succeed(["init"]);
    let theirs = flip(&fixture.path("store"), &good, |_| {});
    let stored = fixture.path("store/objects").join(theirs["active_archive_key"].as_str().unwrap());
    fs::write(&stored, &changed).unwrap();
    assert_eq!(load(&fixture, "changed")["outcome"], "sha_mismatch");
    fs::write(&stored, [good.clone(), b"more".to_vec()].concat()).unwrap();
    assert_eq!(load(&fixture, "longer")["outcome"], "sha_mismatch");
    fs::remove_file(&stored).unwrap();
    assert_eq!(load(&fixture, "gone")["outcome"], "fresh_fallback");
    fs::write(&stored, &good).unwrap();
    let small = fixture.host.clone().with("PSTORE_MAX_PROFILE_BYTES", "1");
    let target = fixture.path("small");
    let line = ["restore", PROFILE, target.to_str().unwrap(), "--chrome-major", "131"];
    assert_eq!(small.succeed(line)["outcome"], "too_large");
    // Nothing of this was published.
    assert_eq!(pointer(&fixture.path("store")), theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_that_is_too_long_is_not_fetched() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
    let store_fixture = StoreFixture::open(recorder.clone(), None).await;
    let pointer = pointer_to("0123456789ab", "");
    let long = Key::new(pointer["active_manifest_key"].as_str().unwrap()).unwrap();
    for (key, bytes) in [
        (layout::latest(&store_fixture.lineage), pointer.to_string().into_bytes()),
        (long, vec![b' '; 8 << 20]),
    ] {
        store_fixture.root.put(&key, bytes.into(), Write::Create).await.unwrap();
    }
    let adoption = Adoption {
        actor: actor("test"),
        about: request(&store_fixture.lineage, Path::new("")).about,
        max_bytes: 1 << 30,
        quota_bytes: None,
        threads: 1,
        judge: None,
    };
    let error =
        adoption.adopt(&store_fixture.store, &store_fixture.lineage, Arc::new(Silent)).await.unwrap_err();
    assert!(error.to_string().contains("at most 1048576"), "{error}");
    assert!(recorder.downloaded_bytes() < 1 << 20, "{}", recorder.downloaded_bytes());
}

#[test]
fn an_archive_is_mounted_and_committed_upon() {
    let source = ProfileFixture::local();
    source.fill(3);
    let fixture = MountFixture::local();
    fixture.host.succeed(["init"]);
    let theirs = flip(&fixture.path("store"), &archive(&source.profile), |_| {});
    fixture.mount();
    assert_eq!(ProfileFixture::cookies(&fixture.mountpoint).len(), 3);
    fs::write(fixture.mountpoint.join("note"), "new").unwrap();
    fixture.commit();
    fixture.unmount(&[]);
    assert_eq!(pointer(&fixture.path("store"))["flipped_from_sha256_prefix"], theirs["active_sha256_prefix"]);
    let log = fixture.host.succeed(["log", PROFILE]);
    assert_eq!(log["events"].as_array().unwrap().iter().filter(|event| event["kind"] == "adopt").count(), 1);
}

/// A mount looks into no file: what was found when the archive was taken in counts. Who only looks
/// sees it. It is the same where somebody has made a damaged snapshot the current one.
#[test]
fn an_archive_with_a_damaged_database_is_not_mounted_for_a_browser() {
    let (fixture, torn) = (MountFixture::local(), torn());
    fixture.host.succeed(["init"]);
    let theirs = flip(&fixture.path("store"), &archive(&torn.profile), |_| {});
    for _ in 0..2 {
        assert_eq!(fixture.mount()["fallback"], "integrity_failed");
        assert!(!fixture.mountpoint.join("Default/Cookies").exists());
        fixture.unmount(&[]);
    }
    let prefix = theirs["active_sha256_prefix"].as_str().unwrap();
    let (chosen, place) = (format!("{PROFILE}@{prefix}"), fixture.mountpoint.to_str().unwrap());
    fixture.host.succeed(["mount", &chosen, place, "--chrome-major", "131", "--read-only"]);
    assert!(fixture.mountpoint.join("Default/Cookies").exists());
    fixture.unmount(&[]);
    let wanted = MountFixture::local();
    let profile = torn.profile.to_str().unwrap();
    wanted.host.succeed(["snapshot", profile, PROFILE, "--chrome-major", "131", "--allow-damaged"]);
    assert_eq!(wanted.mount()["fallback"], "integrity_failed");
    assert!(!wanted.mountpoint.join("Default/Cookies").exists());
    wanted.unmount(&[]);
}

#[test]
fn what_only_old_programs_write_is_read() {
    let fixture = ProfileFixture::local();
    fixture.host.succeed(["init"]);
    let long = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    let mut gnu = Tarball::new();
    let name = store::archive::header::Header {
        size: long.len() as u64 + 1,
        ..store::archive::header::Header::new("././@LongLink", MemberKind::GnuLongPath)
    };
    gnu = gnu.member(&name, format!("{long}\0").as_bytes()).file("cut", b"long");
    flip(&fixture.path("store"), &gnu.file("deep/in/nowhere", b"x").end().zstd(), |_| {});
    load(&fixture, "out");
    assert_eq!(fs::read(fixture.path("out").join(long)).unwrap(), b"long");
    assert_eq!(fs::read(fixture.path("out/deep/in/nowhere")).unwrap(), b"x");
}
