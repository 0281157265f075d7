//! These tests make loads fail: each comes to a whole older profile or a fresh one, told, and never a wrong one.
//!
//! A snapshot is packs of chunks and a record here, where one could think of an archive and a
//! manifest; what is promised about these is tested with those, and with archives where they are
//! published: see `publish.rs` too.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::Value;
use store::{
    ErrorKind,
    bucket::{Fault, FaultBucket, MemoryBucket, Rule, Verb},
    catalog::lock::Terms,
};
use tests::{
    binary::{Ended, Running},
    profile_fixture::ProfileFixture,
    server::SeaweedFs,
    store_fixture::StoreFixture,
    tree::noise,
};

const ALICE: &str = "acme/alice";

fn run<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let command = ["--", "sh", "-c", script, "{profile}"];
    [&["run", ALICE, "--chrome-major", "131"], options, &command].concat()
}

fn wait_for(path: &Path, running: &mut Running) {
    while !path.exists() {
        assert!(running.runs(), "it ended before there was {}", path.display());
        thread::sleep(Duration::from_millis(20));
    }
}

/// The files of a store in a directory that lie in a folder of that name.
fn stored(fixture: &ProfileFixture, folder: &str) -> Vec<PathBuf> {
    fn walk(at: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(at).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => walk(&entry.path(), found),
                false => found.push(entry.path()),
            }
        }
    }
    let mut found = Vec::new();
    walk(&fixture.path("store"), &mut found);
    found.retain(|path| path.parent().unwrap().ancestors().any(|above| above.ends_with(folder)));
    assert!(!found.is_empty(), "no {folder} in the store");
    found
}

/// A fresh profile with the reason in it, exit 0 and a warning; with `--require` exit `code`.
#[track_caller]
fn assert_starts_afresh(fixture: &ProfileFixture, outcome: &str, code: i32, more: &[&str]) -> Ended {
    let out = fixture.path("out");
    let host = fixture.elsewhere();
    let restore = [&["restore", ALICE, out.to_str().unwrap()], more].concat();
    host.fail(code, [&restore[..], &["--require"]].concat());
    assert!(!out.exists());
    let ended = host.run(restore);
    assert_eq!((ended.code, &ended.document["outcome"]), (Some(0), &outcome.into()), "{ended:#?}");
    assert!(ended.stderr.contains(&format!("{outcome}: starting with an empty profile")), "{ended:#?}");
    let left: Vec<_> = fs::read_dir(&out).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, [".pstore-load"]);
    let marker: Value = serde_json::from_slice(&fs::read(out.join(".pstore-load")).unwrap()).unwrap();
    assert_eq!(marker["fallback"], outcome);
    ended
}

const FOR_131: [&str; 2] = ["--chrome-major", "131"];

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_fails_marks_the_run_and_the_previous_snapshot_stays() {
    let mut server = SeaweedFs::start().await;
    let mut fixture = ProfileFixture::s3(&server.config());
    fixture.host = fixture.host.clone().impatient();
    fixture.fill(3);
    let good = fixture.keep(ALICE, &[]);
    let (place, go) = (fixture.path("place"), fixture.path("go"));
    let script = format!(
        "touch $0/started; while [ ! -e {} ]; do sleep 0.1; done; echo changed > $0/changed; exit 7",
        go.display()
    );
    let mut running = fixture.host.start(run(&["--directory", place.to_str().unwrap()], &script));
    wait_for(&place.join("started"), &mut running);
    server.stop();
    fs::write(&go, "").unwrap();
    let ended = running.wait();
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(7), &true.into()), "{ended:#?}");
    assert_eq!((&ended.document["lock_lost"], &ended.document["snapshot"]), (&false.into(), &Value::Null));
    for words in ["the profile was not captured", "hint: "] {
        assert!(ended.stderr.contains(words), "no {words:?} in {ended:#?}");
    }
    server.start_again().await;
    assert_eq!(fixture.host.succeed(["show", ALICE])["record"], good["record"]);
    fixture.host.verify(ALICE, &["--read-data"]);
    assert_eq!(fixture.load(ALICE)["record"], good["record"]);
}

#[test]
fn an_archive_that_cannot_be_stored_marks_the_run_and_the_previous_snapshot_stays() {
    let mut fixture = ProfileFixture::local();
    fixture.host = fixture.host.clone().with("PSTORE_ARCHIVE", "always");
    fixture.fill(3);
    let good = fixture.keep(ALICE, &[]);
    let shown = fixture.host.succeed(["show", ALICE]);
    assert_eq!(good["active_sha256_prefix"], shown["archive_sha256"].as_str().unwrap()[..12]);
    // There is no room to put the archive together.
    fs::write(fixture.path("no directory"), "").unwrap();
    let full = fixture.host.clone().with("PSTORE_CACHE_DIR", fixture.path("no directory").to_str().unwrap());
    let script = run(&[], "echo changed > $0/changed; exit 7");
    let ended = full.run(script.clone());
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(7), &true.into()), "{ended:#?}");
    let error = ended.document["snapshot_error"]["message"].as_str().unwrap();
    assert!(error.contains("its archive could not be stored"), "{error}");
    assert_eq!(fixture.host.succeed(["show", ALICE])["record"], good["record"]);
    assert_eq!(fixture.load(ALICE)["record"], good["record"]);
    // Where there is room, the next run's snapshot is published and becomes the current one.
    let ended = fixture.host.run(script);
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(7), &false.into()), "{ended:#?}");
    let shown = fixture.host.succeed(["show", ALICE]);
    assert_eq!(shown["predecessor_sha256"].as_str().unwrap()[..12], good["active_sha256_prefix"]);
    assert!(shown["archive_sha256"].is_string() && shown["tar_sha256"].is_string());
}

/// A record without its packs is one that is still being written: nobody lists it or loads it.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_whose_packs_could_not_be_stored_is_no_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
    let store_fixture = StoreFixture::open(faults.clone(), None).await;
    fs::write(dir.path().join("file"), noise(300_000, 1)).unwrap();
    let good = store_fixture.snapshot(dir.path()).await.unwrap();
    fs::write(dir.path().join("file"), noise(300_000, 2)).unwrap();
    faults.inject(Rule::new(Fault::Before).on(Verb::Create).at("/packs/").always());
    let error = store_fixture.snapshot(dir.path()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(faults.strikes() > 0);
    faults.heal();
    let listing =
        store::ops::read::resolve::list(&store_fixture.store, &store_fixture.lineage).await.unwrap();
    let listed: Vec<_> = listing.records.iter().map(|record| record.record).collect();
    assert_eq!((listed, listing.latest), (vec![good.record], Some(good.record)));
    store_fixture.assert_clean().await;
    store_fixture.restore(&dir.path().join("out")).await.unwrap();
    fs::remove_dir_all(dir.path().join("out")).unwrap();
    assert_ne!(store_fixture.snapshot(dir.path()).await.unwrap().record, good.record);
    store_fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_that_cannot_be_moved_leaves_the_snapshot_to_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
    let store_fixture = StoreFixture::open(faults.clone(), None).await;
    fs::write(dir.path().join("file"), "first").unwrap();
    let first = store_fixture.snapshot(dir.path()).await.unwrap();
    fs::write(dir.path().join("file"), "second").unwrap();
    // The first time it is claimed for the holder of the lock, and names what it did.
    for nth in 2..50 {
        faults.inject(Rule::new(Fault::Before).on(Verb::Replace).at("latest.json").nth(nth));
    }
    let error = store_fixture.snapshot(dir.path()).await.unwrap_err();
    assert!(faults.strikes() > 0);
    faults.heal();
    let list = || store::ops::read::resolve::list(&store_fixture.store, &store_fixture.lineage);
    let listing = list().await.unwrap();
    assert_eq!((listing.records.len(), listing.latest), (2, Some(first.record)), "{error}");
    assert!(matches!(error.kind(), ErrorKind::PointerNotFlipped | ErrorKind::PointerUnknown), "{error}");
    store_fixture.assert_clean().await;

    let second = listing.records.iter().find(|record| record.record != first.record).unwrap().record;
    let terms = Terms { ttl: Duration::from_secs(300), with_process: false };
    let hold = store_fixture.handle("operator").acquire(terms, Duration::ZERO).await.unwrap();
    hold.flip(second).await.unwrap();
    hold.release().await.unwrap();
    assert_eq!(list().await.unwrap().latest, Some(second));
}

#[test]
fn a_snapshot_whose_bytes_are_gone_starts_afresh() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep(ALICE, &[]);
    stored(&fixture, "packs").iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_starts_afresh(&fixture, "fresh_fallback", 10, &FOR_131);
}

#[test]
fn a_snapshot_whose_bytes_are_not_what_they_were_starts_afresh() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep(ALICE, &[]);
    for path in stored(&fixture, "packs") {
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    assert_starts_afresh(&fixture, "sha_mismatch", 10, &FOR_131);
}

#[test]
fn a_snapshot_with_a_damaged_database_starts_afresh() {
    let fixture = ProfileFixture::local();
    fixture.fill(100);
    let path = fixture.profile.join("Default/Cookies");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let ended = fixture.snapshot(ALICE, &[]);
    assert_eq!((ended.code, &ended.document["held_back"]), (Some(29), &"damaged".into()), "{ended:#?}");
    fixture.keep(ALICE, &["--allow-damaged", "--rescan"]);
    assert_starts_afresh(&fixture, "integrity_failed", 33, &FOR_131);
}

#[test]
fn a_lock_whose_holder_is_dead_is_in_the_way_until_it_expires() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    let acquire = ["lock", "acquire", ALICE, "--chrome-major", "131", "--ttl", "5", "--run-id", "dead"];
    fixture.host.succeed(acquire);
    let ended = fixture.snapshot(ALICE, &[]);
    let error = &ended.document["error"];
    assert_eq!((ended.code, &error["holder_run_id"]), (Some(24), &"dead".into()), "{ended:#?}");
    fixture.keep(ALICE, &["--wait", "30"]);

    fixture.host.succeed(acquire);
    thread::sleep(Duration::from_secs(6));
    let reaped = fixture.host.succeed(["reap", "acme", "--grace", "0"]);
    assert!(reaped.to_string().contains("dead"), "{reaped:#}");
    fs::write(fixture.profile.join("file"), "later").unwrap();
    fixture.keep(ALICE, &[]);
}

#[test]
fn a_run_that_loses_its_lock_is_stopped_and_moves_nothing() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    let good = fixture.keep(ALICE, &[]);
    let host =
        fixture.host.clone().with("PSTORE_LOCK_TTL_SECONDS", "5").with("PSTORE_LOCK_RENEW_SECONDS", "1");
    let place = fixture.path("place");
    let script = "echo changed > $0/changed; exec sleep 600";
    let mut running = host.start(run(&["--directory", place.to_str().unwrap()], script));
    wait_for(&place.join("changed"), &mut running);
    fixture.host.fail(24, [&["lock", "acquire", ALICE], &FOR_131[..]].concat());
    fixture.host.succeed(["force-unlock", ALICE, "--reason", "test", "--confirm"]);
    fixture.host.succeed(["lock", "acquire", ALICE, "--chrome-major", "131", "--run-id", "other"]);
    let ended = running.wait();
    assert_eq!((ended.code, &ended.document["lock_lost"]), (Some(25), &true.into()), "{ended:#?}");
    assert_eq!(
        (&ended.document["error"]["kind"], &ended.document["snapshot"]),
        (&"lock_lost".into(), &Value::Null)
    );
    assert_eq!(ended.document["command_exit_code"], 128 + 15);
    assert_eq!(fixture.host.succeed(["show", ALICE])["record"], good["record"]);
    assert_eq!(fixture.host.succeed(["list", ALICE])["snapshots"].as_array().unwrap().len(), 1);
    assert!(place.join("changed").exists(), "what was not captured is not thrown away");
}

#[test]
fn a_profile_that_is_too_large_is_refused_with_what_is_large_in_it() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fs::create_dir(fixture.profile.join("Cache")).unwrap();
    fs::write(fixture.profile.join("Cache/data"), noise(400_000, 1)).unwrap();
    let small = fixture.host.clone().with("PSTORE_MAX_PROFILE_BYTES", "300000");
    let snapshot = tests::binary::snapshot(&fixture.profile, ALICE);
    let error = small.fail(31, snapshot);
    assert_eq!(error["kind"], "profile_too_large");
    assert!(error["message"].as_str().unwrap().contains("Cache"), "{error:#}");
    fixture.host.fail(3, ["show", ALICE]);

    // One that was stored when more was allowed is not loaded either.
    fixture.keep(ALICE, &[]);
    let out = fixture.path("out");
    let restore = ["restore", ALICE, out.to_str().unwrap(), "--chrome-major", "131"];
    assert_eq!(small.succeed(restore)["outcome"], "too_large");

    // In a run: the command's own end is what counts.
    let place = fixture.path("place");
    let script = "head -c 400000 /dev/zero > $0/large; exit 3";
    let ended = small.run(run(&["--directory", place.to_str().unwrap()], script));
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(3), &true.into()), "{ended:#?}");
}

#[test]
fn a_snapshot_of_another_chrome_starts_afresh() {
    let fixture = ProfileFixture::local();
    fixture.fill(3);
    fixture.keep(ALICE, &[]);
    let ended = assert_starts_afresh(&fixture, "version_mismatch", 34, &["--chrome-major", "132"]);
    let reason = ended.document["reason"].as_str().unwrap();
    assert!(reason.contains("131") && reason.contains("132"), "{reason}");
    fs::remove_dir_all(fixture.path("out")).unwrap();
    // The same major, but older: it would drop what it does not know.
    assert_starts_afresh(&fixture, "version_mismatch", 34, &["--chrome-version", "131.0.6778.84"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_an_error_and_never_a_fresh_profile() {
    let mut server = SeaweedFs::start().await;
    let mut fixture = ProfileFixture::s3(&server.config());
    fixture.host = fixture.host.clone().impatient();
    fixture.fill(3);
    fixture.keep(ALICE, &[]);
    server.stop();
    let (out, touched) = (fixture.path("out"), fixture.path("touched"));
    let script = format!("touch {}", touched.display());
    let profile = fixture.profile.display().to_string();
    let commands = [
        vec!["restore", ALICE, out.to_str().unwrap(), "--chrome-major", "131"],
        vec!["snapshot", &profile, ALICE, "--chrome-major", "131"],
        run(&[], &script),
    ];
    for command in commands {
        assert_eq!(fixture.host.fail(14, command)["kind"], "unavailable");
    }
    assert!(!out.exists() && !touched.exists());
}

#[test]
fn a_run_sees_what_the_run_before_wrote_and_passes_the_exit_code_on() {
    let fixture = ProfileFixture::local();
    let first = fixture.host.run(run(&[], "echo one > $0/file; exit 9"));
    assert_eq!((first.code, &first.document["load"]), (Some(9), &"no_prior_state".into()), "{first:#?}");
    assert_eq!(first.document["snapshot"]["pointer"], "flipped");
    let second = fixture.host.run(run(&[], r#"[ "$(cat $0/file)" = one ] && echo two > $0/file"#));
    assert_eq!((second.code, &second.document["load"]), (Some(0), &"success".into()), "{second:#?}");
    let third = fixture.host.run(run(&[], r#"[ "$(cat $0/file)" = two ]"#));
    assert_eq!((third.code, &third.document["snapshot_failed"]), (Some(0), &false.into()), "{third:#?}");
    assert_eq!(third.document["snapshot"]["outcome"], "unchanged", "{third:#?}");
}

#[test]
fn a_capture_that_is_refused_is_refused_before_the_command_of_a_run() {
    let fixture = ProfileFixture::local();
    let touched = fixture.path("touched");
    let script = format!("touch {}", touched.display());
    fixture.host.fail(30, run(&["--mode", "hot"], &script));
    fixture.host.fail(2, run(&["--label", "a=1", "--label", "a=2"], &script));
    assert!(!touched.exists());
}
