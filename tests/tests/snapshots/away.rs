//! These tests run and mount while the store is away, as the setting `on_unavailable` has it.

use std::fs;

use serde_json::Value;
use tests::{
    binary::Host,
    mount_fixture::{ALICE, MountFixture},
    profile_fixture::ProfileFixture,
    server::SeaweedFs,
};

fn run<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    let command = ["--", "sh", "-c", script, "{profile}"];
    [&["run", ALICE], options, &command].concat()
}

fn current(host: &Host) -> Value {
    host.succeed(["list", ALICE])["active_sha256_prefix"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_starts_empty_while_the_store_is_away_if_that_is_set_and_replaces_nothing() {
    let mut server = SeaweedFs::start().await;
    let fixture = ProfileFixture::s3(&server.config());
    fixture.fill(3);
    let kept = fixture.keep(ALICE, &[])["active_sha256_prefix"].clone();
    let host = fixture.host.clone().impatient();
    let temporary = fixture.path("temporary");
    fs::create_dir(&temporary).unwrap();
    let fresh = host.clone().with("PSTORE_ON_UNAVAILABLE", "fresh");
    let fresh = fresh.with("TMPDIR", temporary.to_str().unwrap());
    let touched = fixture.path("touched");
    let touch = format!("touch {}", touched.display());
    server.stop();

    host.fail(14, run(&["--chrome-major", "131"], &touch));
    fresh.fail(14, run(&["--chrome-major", "131", "--require"], &touch));
    fresh.fail(14, run(&["--chrome-major", "131", "--sha", "abcdef"], &touch));
    let unknown = fresh.fail(14, run(&[], &touch));
    assert!(unknown["hint"].as_str().unwrap().contains("--chrome-major"), "{unknown:#}");
    assert!(!touched.exists());

    // It is away until the end: what was done is kept on this host.
    let ended =
        fresh.run(run(&["--chrome-major", "131"], "[ ! -e $0/Default ] && echo work > $0/work; exit 7"));
    assert_eq!((ended.code, &ended.document["load"]), (Some(7), &"fresh_fallback".into()), "{ended:#?}");
    assert_eq!(ended.document["snapshot_error"]["kind"], "unavailable", "{ended:#?}");
    assert!(ended.stderr.contains("fresh_fallback: starting with an empty profile"), "{ended:#?}");
    let copy = ended.stderr.split("what was not captured is kept in ").nth(1).unwrap();
    let copy = copy.split(';').next().unwrap();
    assert_eq!(fs::read_to_string(format!("{copy}/work")).unwrap(), "work\n");
    let left = fresh.succeed(["sessions"])["copies"][0]["copy"].as_str().unwrap().to_owned();
    fresh.succeed(["sessions", "discard", &left, "--confirm"]);

    // It comes back before the end: the capture is stored, and the good snapshot stays the current one.
    let (begun, go) = (fixture.path("begun"), fixture.path("go"));
    let script = format!(
        "echo work > $0/work; touch {}; while [ ! -e {} ]; do sleep 0.1; done",
        begun.display(),
        go.display()
    );
    let mut running = fresh.start(run(&["--chrome-major", "131"], &script));
    while !begun.exists() {
        assert!(running.runs(), "it ended before the command began");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    server.start_again().await;
    fs::write(&go, "").unwrap();
    let ended = running.wait();
    assert_eq!((ended.code, &ended.document["load"]), (Some(0), &"fresh_fallback".into()), "{ended:#?}");
    let snapshot = &ended.document["snapshot"];
    assert_eq!(
        (&snapshot["outcome"], &snapshot["held_back"]),
        (&"stored".into(), &"fallback".into()),
        "{ended:#?}"
    );
    assert_eq!(ended.document["snapshot_failed"], true, "{ended:#?}");
    assert_eq!(current(&host), kept);
}

/// A commit is stored, and the good snapshot stays the current one.
fn is_held_back(fixture: &MountFixture, kept: &Value) {
    let committed = fixture.ask("commit", &[]);
    assert_eq!(
        (committed.code, &committed.document["held_back"]),
        (Some(29), &"fallback".into()),
        "{committed:#?}"
    );
    assert_eq!(current(&fixture.host), *kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_starts_empty_while_the_store_is_away_if_that_is_set_and_replaces_nothing() {
    let mut server = SeaweedFs::start().await;
    let fixture = MountFixture::s3(&server.config());
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("note"), "good").unwrap();
    let kept = fixture.host.snapshot(&source, ALICE)["active_sha256_prefix"].clone();
    let host = fixture.host.clone().impatient();
    let fresh = host.clone().with("PSTORE_ON_UNAVAILABLE", "fresh");
    let place = fixture.mountpoint.to_str().unwrap();
    let work = fixture.mountpoint.join("work");
    server.stop();

    host.fail(14, ["mount", ALICE, place, "--chrome-major", "131"]);
    for more in ["--require", "--read-only", "--fork"] {
        fresh.fail(14, ["mount", ALICE, place, "--chrome-major", "131", more]);
    }
    let unknown = fresh.fail(14, ["mount", ALICE, place]);
    assert!(unknown["hint"].as_str().unwrap().contains("--chrome-major"), "{unknown:#}");

    let mounted = fixture.mount_as(&fresh, &[]);
    assert_eq!((&mounted["fallback"], &mounted["record"]), (&"fresh_fallback".into(), &Value::Null));
    let warnings = mounted["warnings"].to_string();
    assert!(warnings.contains("fresh_fallback: starting with an empty profile"), "{warnings}");
    assert_eq!(fs::read_dir(&fixture.mountpoint).unwrap().count(), 0);
    fs::write(&work, "one").unwrap();
    // It is still away: the changes stay.
    assert_eq!(fixture.ask("commit", &[]).code, Some(14));
    assert_eq!(fixture.ask("unmount", &[]).code, Some(37));
    server.start_again().await;
    is_held_back(&fixture, &kept);
    fixture.unmount(&[]);

    // Killed: its changes are in a session, which is continued when the store is back, and not before.
    server.stop();
    let mounted = fixture.mount_as(&fresh, &[]);
    fs::write(&work, "two").unwrap();
    fixture.kill(&mounted);
    let session = mounted["session"].as_str().unwrap();
    let refused = fresh.fail(14, ["mount", ALICE, place, "--chrome-major", "131"]);
    assert!(refused["hint"].as_str().unwrap().contains(session), "{refused:#}");
    server.start_again().await;
    assert_eq!(fixture.mount_as(&fresh, &[])["resumed"], true);
    assert_eq!(fs::read_to_string(&work).unwrap(), "two");
    is_held_back(&fixture, &kept);
    fixture.unmount(&["--discard"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_that_began_without_the_store_goes_on_from_its_own_commits() {
    let mut server = SeaweedFs::start().await;
    let fixture = MountFixture::s3(&server.config());
    // Another profile makes the store and the tenant; there is no snapshot of this one.
    let source = fixture.path("source");
    fs::create_dir(&source).unwrap();
    fixture.host.snapshot(&source, "acme/bob");
    let fresh = fixture.host.clone().impatient().with("PSTORE_ON_UNAVAILABLE", "fresh");
    let work = fixture.mountpoint.join("work");
    server.stop();
    fixture.mount_as(&fresh, &[]);
    // The profile is in use here: a second mount would be a second session to settle.
    let beside = fixture.place("beside");
    let refused = fresh.fail(32, ["mount", ALICE, beside.to_str().unwrap(), "--chrome-major", "131"]);
    assert!(refused["message"].as_str().unwrap().contains("already"), "{refused:#}");
    server.start_again().await;
    for content in ["one", "two"] {
        fs::write(&work, content).unwrap();
        let committed = fixture.ask("commit", &[]);
        assert_eq!(
            (committed.code, &committed.document["held_back"]),
            (Some(0), &Value::Null),
            "{committed:#?}"
        );
    }
    fs::write(&work, "three").unwrap();
    fixture.unmount(&["--commit"]);
    let restored = fixture.path("restored");
    fixture.host.restore(ALICE, &restored);
    assert_eq!(fs::read_to_string(restored.join("work")).unwrap(), "three");
}
