//! These tests mount by the program and the real kernel: what is changed becomes the next snapshot, and nothing is
//! lost however a mount ends.

use std::{
    fs,
    fs::File,
    io::Write,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process::Command,
    thread,
    time::Instant,
};

use serde_json::Value;
use tests::{
    binary::{Host, assert_says},
    mount_fixture::{ALICE, MountFixture, await_end},
    server::SeaweedFs,
    tree::{assert_same, assert_seen, look_at, make_odd, noise},
};

/// Something of every kind that a test can tell again.
fn fill(root: &Path) {
    fs::create_dir_all(root.join("Default/Cache")).unwrap();
    fs::write(root.join("Local State"), "{}").unwrap();
    fs::write(root.join("Default/History"), noise(1_500_000, 1)).unwrap();
    for number in 0..20_u64 {
        fs::write(root.join(format!("Default/Cache/f_{number:06}")), noise(30_000, number + 2)).unwrap();
    }
}

/// A fixture with one commit of [`fill`], unmounted.
pub(super) fn filled() -> MountFixture {
    let fixture = MountFixture::local();
    fixture.mount();
    fill(&fixture.mountpoint);
    fixture.unmount(&["--commit"]);
    fixture
}

#[track_caller]
fn refused(fixture: &MountFixture, code: i32, verb: &str, more: &[&str]) -> Value {
    let mut ended = fixture.ask(verb, more);
    assert_eq!(ended.code, Some(code), "{ended:#?}");
    ended.document["error"].take()
}

/// Read-ahead is worth most where the store is a directory, and who may not ask for it does without.
#[test]
fn the_kernel_reads_far_ahead_where_the_store_is_near() {
    let fixture = MountFixture::local();
    fixture.mount();
    let device = fs::metadata(&fixture.mountpoint).unwrap().dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let may_ask = File::options().write(true).open(&setting).is_ok();
    let found = fs::read_to_string(&setting).unwrap();
    assert_eq!(found.trim() == "1024", may_ask, "{found}");
    fixture.unmount(&["--discard"]);
}

#[test]
fn what_was_made_in_a_mount_is_there_in_the_next_on_another_host() {
    let fixture = MountFixture::local();
    let mounted = fixture.mount_as(&fixture.host, &["--host", "first"]);
    assert_eq!((&mounted["mode"], &mounted["record"]), (&"locked".into(), &Value::Null), "{mounted:#}");
    assert!(mounted["ready_ms"].as_f64().unwrap() > 0.0);
    fill(&fixture.mountpoint);
    let made = look_at(&fixture.mountpoint);
    let shown = fixture.host.succeed(["mounts"]);
    assert_eq!((&shown["mounts"][0]["dirty"], &shown["mounts"][0]["pid"]), (&true.into(), &mounted["pid"]));

    let committed = fixture.commit();
    assert_eq!(committed["outcome"], "stored", "{committed:#}");
    assert_seen(&made, &fixture.mountpoint);
    let shown = fixture.host.succeed(["mounts"]);
    assert_eq!(
        (&shown["mounts"][0]["dirty"], &shown["mounts"][0]["dirty_bytes"]),
        (&false.into(), &0.into())
    );
    fixture.unmount(&[]);
    assert!(!fixture.is_mounted(&fixture.mountpoint));
    await_end(&mounted);
    assert_eq!((fixture.session_directories(), fs::read_dir(&fixture.mountpoint).unwrap().count()), (0, 0));

    let other = fixture.another("two");
    let again = fixture.mount_as(&other, &["--host", "second"]);
    assert_eq!(again["sha256_prefix"], committed["sha256_prefix"]);
    assert_seen(&made, &fixture.mountpoint);
    fs::write(fixture.mountpoint.join("Default/History"), "short").unwrap();
    fs::remove_dir_all(fixture.mountpoint.join("Default/Cache")).unwrap();
    let made = look_at(&fixture.mountpoint);
    other.succeed(["unmount", fixture.mountpoint.to_str().unwrap(), "--commit"]);
    let hosts: Vec<Value> = fixture.host.succeed(["log", ALICE])["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["by"]["host"].clone())
        .collect();
    assert!(hosts.contains(&"first".into()) && hosts.contains(&"second".into()), "{hosts:?}");

    let target = fixture.path("restored");
    fixture.host.restore(ALICE, &target);
    assert_seen(&made, &target);
    fixture.host.verify(ALICE, &["--read-data"]);
}

#[test]
fn every_odd_entry_goes_through_a_mount_and_its_commit() {
    let fixture = MountFixture::local();
    let plain = fixture.place("plain");
    let skipped = make_odd(&plain);
    fixture.mount();
    let copied = Command::new("cp").arg("-a").arg(plain.join(".")).arg(&fixture.mountpoint).status().unwrap();
    assert!(copied.success());
    assert_same(&plain, &fixture.mountpoint);

    let committed = fixture.commit();
    let left_out = committed["skipped"].as_object().unwrap().values().filter_map(Value::as_u64).sum::<u64>();
    assert_eq!(left_out, skipped, "{committed:#}");
    assert_same(&plain, &fixture.mountpoint);
    fixture.unmount(&[]);
    fixture.mount();
    assert_same(&plain, &fixture.mountpoint);
    // What cannot be stored was there as long as the mount was.
    assert!(!fixture.mountpoint.join("fifo").exists());
    fixture.unmount(&[]);
}

#[test]
fn a_commit_is_the_snapshot_that_a_capture_would_have_made() {
    let fixture = MountFixture::local();
    fixture.mount();
    make_odd(&fixture.mountpoint);
    fill(&fixture.mountpoint);
    fixture.commit();
    // Cut again around what changed, and read whole by the others.
    let history = File::options().write(true).open(fixture.mountpoint.join("Default/History")).unwrap();
    history.write_all_at(&noise(5000, 77), 700_001).unwrap();
    drop(history);
    fs::rename(fixture.mountpoint.join("a/large"), fixture.mountpoint.join("moved")).unwrap();
    let committed = fixture.commit();
    let captured = fixture.host.snapshot(&fixture.mountpoint, "acme/captured");
    assert_eq!(committed["snapshot_id"], captured["snapshot_id"], "{committed:#}\n{captured:#}");
    fixture.unmount(&[]);

    let target = fixture.path("restored");
    fixture.host.restore(ALICE, &target);
    let copied = fixture.host.snapshot(&target, "acme/copied");
    assert_eq!(committed["snapshot_id"], copied["snapshot_id"]);
}

#[test]
fn uncommitted_changes_are_named_and_kept_until_somebody_decides() {
    let fixture = filled();
    fixture.mount();
    fs::write(fixture.mountpoint.join("Default/new one"), "1").unwrap();
    let error = refused(&fixture, 37, "unmount", &[]);
    assert_says(&error, "Default/new one");
    assert!(fixture.is_mounted(&fixture.mountpoint));

    fixture.unmount(&["--discard"]);
    assert_eq!((fixture.session_directories(), fixture.sessions().len()), (0, 0));
    fixture.mount();
    assert!(!fixture.mountpoint.join("Default/new one").exists());

    fs::write(fixture.mountpoint.join("Default/kept"), "2").unwrap();
    let unmounted = fixture.unmount(&["--keep"]);
    assert_eq!(unmounted["kept"], true);
    assert_eq!(fixture.sessions().len(), 1);
    let mounted = fixture.mount();
    assert_eq!((&mounted["resumed"], &mounted["dirty"]), (&true.into(), &true.into()));
    assert_eq!(fs::read(fixture.mountpoint.join("Default/kept")).unwrap(), b"2");
    fixture.unmount(&["--commit"]);
    assert_eq!(fixture.sessions(), Vec::<Value>::new());
    fixture.mount();
    assert_eq!(fs::read(fixture.mountpoint.join("Default/kept")).unwrap(), b"2");
    assert_eq!(fixture.commit()["outcome"], "unchanged");
    fixture.unmount(&[]);
}

#[test]
fn any_snapshot_can_be_read_by_anybody_while_another_mount_goes_on() {
    let fixture = filled();
    let first = fixture.mount();
    fs::write(fixture.mountpoint.join("Local State"), "second").unwrap();
    fixture.commit();
    let (one, two, other) = (fixture.place("ro-1"), fixture.place("ro-2"), fixture.another("two"));
    let old = format!("{ALICE}@{}", first["sha256_prefix"].as_str().unwrap());
    for (what, place) in [(old.as_str(), &one), (ALICE, &two)] {
        let mounted = other.succeed(["mount", "--read-only", what, place.to_str().unwrap()]);
        assert_eq!((&mounted["mode"], &mounted["lock"]), (&"read_only".into(), &Value::Null));
    }
    assert_eq!(fs::read(one.join("Local State")).unwrap(), b"{}");
    assert_eq!(fs::read(two.join("Local State")).unwrap(), b"second");
    for place in [&one, &two] {
        let error = fs::write(place.join("x"), "").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(fs::remove_file(place.join("Local State")).unwrap_err().kind(), error.kind());
        other.succeed(["unmount", place.to_str().unwrap()]);
    }
    // A chosen snapshot is not the current one, so it cannot be gone on from.
    other.fail(2, ["mount", &old, one.to_str().unwrap()]);
    fixture.unmount(&[]);
}

#[test]
fn a_fork_is_its_owners_alone_until_it_is_committed_as_something_else() {
    let fixture = filled();
    fixture.mount();
    let (place, other) = (fixture.place("fork"), fixture.another("two"));
    let place_shown = place.to_str().unwrap();
    let mounted = other.succeed(["mount", "--fork", ALICE, place_shown]);
    assert_eq!(mounted["mode"], "fork");
    fs::write(place.join("Local State"), "of the fork").unwrap();
    assert_eq!(fs::read(fixture.mountpoint.join("Local State")).unwrap(), b"{}");

    assert_says(&other.fail(2, ["commit", place_shown]), "--as");
    let forked = other.succeed(["commit", place_shown, "--as", "acme/alice-fork"]);
    assert_eq!((&forked["profile_id"], &forked["pointer"]), (&"alice-fork".into(), &"flipped".into()));
    other.succeed(["unmount", place_shown]);
    fixture.unmount(&[]);
    let target = fixture.path("restored");
    fixture.host.restore("acme/alice-fork", &target);
    assert_eq!(fs::read(target.join("Local State")).unwrap(), b"of the fork");
    fixture.mount();
    assert_eq!(fs::read(fixture.mountpoint.join("Local State")).unwrap(), b"{}");
    fixture.unmount(&[]);
}

#[test]
fn a_profile_that_is_mounted_is_not_mounted_writably_again() {
    let fixture = filled();
    fixture.mount();
    let other = fixture.another("two");
    let place = fixture.place("elsewhere");
    for host in [&fixture.host, &other] {
        host.fail(24, ["mount", ALICE, place.to_str().unwrap()]);
        // Nor on the same place, which is not empty.
        host.fail(5, ["mount", ALICE, fixture.mountpoint.to_str().unwrap()]);
    }
    assert!(!fixture.is_mounted(&place));
    assert_eq!(fixture.session_directories(), 1);
    assert_eq!(fs::read(fixture.mountpoint.join("Local State")).unwrap(), b"{}");
    fixture.unmount(&[]);
}

#[test]
fn a_commit_is_refused_while_a_file_is_open_for_writing() {
    let fixture = filled();
    fixture.mount();
    // Another process: what the commit's own finds open is told apart by the kernel alone.
    let path = fixture.mountpoint.join("Default/open");
    let mut file = File::create(&path).unwrap();
    file.write_all(b"half").unwrap();
    let error = refused(&fixture, 32, "commit", &[]);
    assert_says(&error, "open");
    file.write_all(b" and half").unwrap();
    // The mount cannot go while it is in use, whatever is to become of the changes.
    refused(&fixture, 32, "unmount", &["--discard"]);
    drop(file);
    assert_eq!(fixture.commit()["outcome"], "stored");
    assert_eq!(fs::read(&path).unwrap(), b"half and half");
    fixture.unmount(&[]);
}

#[test]
fn a_mount_that_is_in_use_says_that_it_was_committed_all_the_same() {
    let fixture = filled();
    fixture.mount();
    let state = fixture.mountpoint.join("Local State");
    fs::write(&state, "changed").unwrap();
    let reading = File::open(&state).unwrap();
    let ended = fixture.ask("unmount", &["--commit"]);
    assert_eq!(ended.code, Some(32), "{ended:#?}");
    assert_says(&ended.document["error"], "committed");
    assert_eq!(ended.document["committed"]["pointer"], "flipped");
    assert_eq!(fixture.local_state(ALICE), "changed");
    drop(reading);
    assert_eq!(fixture.unmount(&["--commit"])["committed"]["outcome"], "unchanged");
}

#[test]
fn a_daemon_killed_in_a_commit_loses_nothing_and_the_next_one_finishes_it() {
    let fixture = MountFixture::local();
    let mut mounted = fixture.mount();
    fill(&fixture.mountpoint);
    let started = Instant::now();
    fixture.commit();
    let usual = started.elapsed();
    let mut cut_short = 0;
    for round in 0..8_u64 {
        for number in 0..6_u64 {
            let path = fixture.mountpoint.join(format!("Default/Cache/f_{:06}", (round + number) % 20));
            fs::write(path, noise(200_000, round * 100 + number + 50)).unwrap();
        }
        fs::write(fixture.mountpoint.join(format!("only in {round}")), "").unwrap();
        fs::remove_file(fixture.mountpoint.join(format!("only in {}", round.wrapping_sub(1)))).ok();
        let made = look_at(&fixture.mountpoint);
        let committing = fixture.host.start(["commit", fixture.mountpoint.to_str().unwrap()]);
        thread::sleep(usual.mul_f64((getrandom::u64().unwrap() % 1000) as f64 / 900.0));
        fixture.kill(&mounted);
        let ended = committing.wait();
        assert!(matches!(ended.code, Some(0 | 3 | 14)), "{ended:#?}");
        cut_short += u32::from(ended.code != Some(0));
        mounted = fixture.mount();
        assert_seen(&made, &fixture.mountpoint);
        if round % 2 == 0 {
            fixture.commit();
            let target = fixture.path(&tests::unique_name());
            fixture.host.restore(ALICE, &target);
            assert_seen(&made, &target);
        }
    }
    println!("{cut_short} of 8 were cut short");
    fixture.unmount(&["--commit"]);
    fixture.host.verify(ALICE, &["--read-data"]);
}

/// The commit that finds the lock gone tells the mount: nobody waits for the next renewal.
#[test]
fn a_commit_that_ends_with_lock_lost_is_known_to_mounts_and_freezes() {
    let fixture = filled();
    fixture.mount_as(&fixture.host, &["--on-lock-lost", "freeze"]);
    fs::write(fixture.mountpoint.join("mine"), "mine").unwrap();
    fixture.host.succeed(["force-unlock", ALICE, "--reason", "test", "--confirm"]);
    let error = refused(&fixture, 25, "commit", &[]);
    assert!(error["hint"].as_str().unwrap().contains("--as acme/alice-rescued"), "{error:#}");
    let mounts = fixture.host.succeed(["mounts"]);
    assert_eq!(mounts["mounts"][0]["lock_lost"], true, "{mounts:#}");
    let write = || fs::write(fixture.mountpoint.join("more"), "more");
    let began = Instant::now();
    while write().is_ok() {
        assert!(began.elapsed().as_secs() < 60, "it never froze");
        thread::yield_now();
    }
    fixture.unmount(&["--discard"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_mount_needs_no_write_access_and_says_what_that_means() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let fixture = MountFixture::s3(&config);
    fixture.mount();
    fs::write(fixture.mountpoint.join("file"), "content").unwrap();
    fixture.unmount(&["--commit"]);
    let reader = Host::s3(&fixture.path("reader"), &server.reader(&config));
    let place = fixture.place("place");
    let place = place.to_str().unwrap();
    let mounted = reader.succeed(["mount", "--read-only", ALICE, place]);
    assert_eq!(fs::read_to_string(Path::new(place).join("file")).unwrap(), "content");
    assert!(mounted["warnings"].to_string().contains("nothing keeps this snapshot"), "{mounted:#}");
    reader.succeed(["unmount", place]);
    let forked = reader.run(["mount", "--fork", ALICE, place]);
    assert_eq!(forked.code, Some(13), "who will write needs the snapshot to stay: {forked:#?}");
}
