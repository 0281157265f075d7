//! These tests take profiles of a real Chromium through the program, to a store and back.

use std::{
    env, fs, net::TcpStream, os::unix::fs::symlink, path::Path, process::Command, sync::Arc, thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::bucket::{Access, Bucket, Key, LocalBucket, S3Bucket, S3Config};
use tests::{
    binary::{Ended, Host},
    chromium::{ARGUMENTS, Chromium, Devtools, Site},
    profile_fixture::ProfileFixture,
    server::SeaweedFs,
    store_fixture::StoreFixture,
};

pub(super) const ALICE: &str = "acme/alice";
const CRASHED: &str = "chrome-crashed-before-capture";

/// Leaves `mark` wherever a site can, and ends the browser well.
pub(super) fn browse(fixture: &ProfileFixture, site: &Site, mark: &str) {
    let chromium = Chromium::start(&fixture.profile);
    site.leave(&mut chromium.devtools(), mark);
    chromium.close();
}

#[track_caller]
fn assert_finds(fixture: &ProfileFixture, site: &Site, mark: &str) {
    let chromium = Chromium::start(&fixture.profile);
    assert_eq!(site.find(&mut chromium.devtools()), Site::all(mark));
    chromium.close();
}

async fn pointer(config: &S3Config, major: &str) -> Value {
    let bucket = S3Bucket::open(config.clone()).await;
    let key = Key::new(format!("snapshots/{ALICE}/{major}/latest.json")).unwrap();
    serde_json::from_slice(&bucket.get(&key, u64::MAX).await.unwrap().bytes).unwrap()
}

fn record(host: &Host) -> Value {
    host.succeed(["show", ALICE])
}

#[track_caller]
fn assert_warns(document: &Value, words: &str) {
    let warnings = document["warnings"].as_array().unwrap();
    let found = warnings.iter().any(|warning| warning.as_str().unwrap().contains(words));
    assert!(found, "no {words:?} in {document:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_site_left_is_there_after_a_snapshot_a_wipe_and_a_load() {
    let server = SeaweedFs::shared().await;
    let config = server.config();
    let fixture = ProfileFixture::s3(&config);
    let site = Site::start();
    browse(&fixture, &site, "the-original");
    let major = fixture.major();

    let stored = fixture.keep(ALICE, &[]);
    let pointer = pointer(&config, &major).await;
    let prefix = pointer["active_sha256_prefix"].as_str().unwrap();
    assert_eq!((prefix.len(), &stored["active_sha256_prefix"]), (12, &prefix.into()));
    assert_eq!((&pointer["version"], &pointer["flipped_from_sha256_prefix"]), (&1.into(), &"".into()));
    let below = format!("snapshots/{ALICE}/{major}/profile-{prefix}");
    assert_eq!(pointer["active_archive_key"], format!("{below}.tar.zst"));
    assert_eq!(pointer["active_manifest_key"], format!("{below}.manifest.json"));
    assert!(pointer["flipped_at_ms"].as_u64().unwrap() >= stored["captured_at_ms"].as_u64().unwrap());

    let record = record(&fixture.host);
    assert_eq!(
        (&record["schema"], &record["mode"]),
        (&"computer-plane.profile-snapshot".into(), &"cold".into())
    );
    assert_eq!((&record["tenant_id"], &record["profile_id"]), (&"acme".into(), &"alice".into()));
    assert_eq!(record["chrome_major_version"].to_string(), major);
    assert_eq!((&record["notes"], &record["predecessor_sha256"]), (&"".into(), &"".into()));
    assert_eq!(record["chrome_uptime_seconds_at_capture"], 0);
    let health = &record["health"];
    assert_eq!(health["ended"], "not_running", "{record:#}");
    let cookies = ProfileFixture::cookies(&fixture.profile).len();
    assert_eq!((&health["cookies"]["rows"], &stored["cookies"]), (&cookies.into(), &cookies.into()));
    assert!(cookies > 0 && stored["databases_checked"].as_u64().unwrap() > 20, "{stored:#}");
    assert_eq!(stored["databases_damaged"], 0);

    let loaded = fixture.load(ALICE);
    assert_eq!((&loaded["outcome"], &loaded["record"]), (&"success".into(), &stored["record"]));
    assert_eq!(loaded["warnings"], serde_json::json!([]));
    assert_finds(&fixture, &site, "the-original");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_generation_has_what_was_left_in_it() {
    let server = SeaweedFs::shared().await;
    let fixture = ProfileFixture::s3(&server.config());
    let site = Site::start();
    let mut prefixes = vec![String::new()];
    for generation in 0..4 {
        if generation > 0 {
            assert_eq!(fixture.load(ALICE)["outcome"], "success");
            assert_finds(&fixture, &site, &format!("generation-{}", generation - 1));
        }
        browse(&fixture, &site, &format!("generation-{generation}"));
        let stored = fixture.keep(ALICE, &[]);
        assert_eq!(stored["flipped_from_sha256_prefix"], *prefixes.last().unwrap());
        prefixes.push(stored["active_sha256_prefix"].as_str().unwrap().to_owned());
    }
    // And an old one can be had back.
    let (major, target) = (fixture.major(), fixture.profile.to_str().unwrap());
    fs::remove_dir_all(&fixture.profile).unwrap();
    fixture.host.succeed(["restore", ALICE, target, "--chrome-major", &major, "--sha", &prefixes[2]]);
    assert_finds(&fixture, &site, "generation-1");
}

#[test]
fn a_browser_that_runs_is_closed_and_loses_nothing() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    let chromium = Chromium::start(&fixture.profile);
    let mut devtools = chromium.devtools();
    site.leave(&mut devtools, "kept");
    thread::sleep(Duration::from_secs(1));
    devtools.set_cookie("late", "too");
    thread::sleep(Duration::from_secs(1));

    let stored = fixture.keep(ALICE, &[]);
    assert!(!chromium.runs());
    assert_eq!((&stored["ended"], &stored["warnings"]), (&"closed".into(), &serde_json::json!([])));
    let record = record(&fixture.host);
    assert_eq!((&record["health"]["ended"], &record["notes"]), (&"closed".into(), &"".into()));
    assert!(record["chrome_uptime_seconds_at_capture"].as_u64().unwrap() > 0, "{record:#}");

    fixture.load(ALICE);
    let again = Chromium::start(&fixture.profile);
    let mut devtools = again.devtools();
    assert_eq!(devtools.cookie("late").as_deref(), Some("too"));
    assert_eq!(site.find(&mut devtools), Site::all("kept"));
    again.close();
}

#[test]
fn a_browser_that_runs_is_left_alone_if_it_may_not_be_stopped() {
    let fixture = ProfileFixture::local();
    let chromium = Chromium::start(&fixture.profile);
    let ended = fixture.snapshot(ALICE, &["--no-stop"]);
    assert_eq!((ended.code, &ended.document["error"]["kind"]), (Some(32), &"in_use".into()), "{ended:#?}");
    let message = ended.document["error"]["message"].as_str().unwrap();
    assert!(message.contains(&chromium.pid().to_string()), "{message}");
    assert!(chromium.runs());
    fixture.host.fail(3, ["list", ALICE]);
    chromium.close();
}

#[test]
fn a_browser_that_does_nothing_any_more_is_killed_and_the_record_says_so() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    browse(&fixture, &site, "before");
    let chromium = Chromium::start(&fixture.profile);
    chromium.signal(Signal::STOP);
    let stored = fixture.keep(ALICE, &["--stop-wait", "2"]);
    assert!(!chromium.runs());
    assert_eq!(stored["ended"], "killed");
    assert!(stored["stop_ms"].as_u64().unwrap() >= 2000, "{stored:#}");
    assert_warns(&stored, "was killed");
    let record = record(&fixture.host);
    assert_eq!((&record["health"]["ended"], &record["notes"]), (&"killed".into(), &CRASHED.into()));
    assert_warns(&fixture.load(ALICE), "had crashed");
    assert_finds(&fixture, &site, "before");
}

#[test]
fn a_browser_that_was_killed_before_is_noted_and_its_profile_loads() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    browse(&fixture, &site, "before");
    Chromium::start(&fixture.profile).kill();
    assert!(fs::symlink_metadata(fixture.profile.join("SingletonLock")).is_ok());
    let stored = fixture.keep(ALICE, &["--notes", "seen"]);
    assert_eq!(stored["ended"], "not_running");
    assert_eq!(record(&fixture.host)["notes"], format!("seen; {CRASHED}"));
    let loaded = fixture.load(ALICE);
    assert_eq!(loaded["outcome"], "success");
    assert_warns(&loaded, "had crashed");
    assert_finds(&fixture, &site, "before");
}

/// A lock of another host would keep a Chrome from starting.
#[test]
fn a_profile_goes_from_one_host_to_another_and_back() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    let start_on = |name: &str| {
        let script = format!(r#"echo {name} > /proc/sys/kernel/hostname && exec "$@""#);
        let place = format!("--user-data-dir={}", fixture.profile.display());
        let arguments = [place.as_str(), "--remote-debugging-port=0"];
        let command = ["unshare", "-u", "sh", "-c", &script, "sh", "chromium"];
        let chromium = Chromium::start_under(&command, &fixture.profile, &arguments);
        while chromium.endpoint().is_none() {
            assert!(chromium.runs());
            thread::sleep(Duration::from_millis(20));
        }
        let lock = fs::read_link(fixture.profile.join("SingletonLock")).unwrap();
        assert!(lock.to_str().unwrap().starts_with(name), "{lock:?}");
        chromium
    };
    let (mut last, mut kept) = (None, String::new());
    for (name, is_killed) in [("host-a", false), ("host-b", true), ("host-a", false)] {
        let chromium = start_on(name);
        let mut devtools = chromium.devtools();
        if last.is_some() {
            assert_eq!(site.find(&mut devtools), Site::all(&kept));
        }
        if is_killed {
            drop(devtools);
            chromium.kill();
            assert!(fs::symlink_metadata(fixture.profile.join("SingletonLock")).is_ok());
        } else {
            kept = format!("on-{name}-after-{}", last.unwrap_or("none"));
            site.leave(&mut devtools, &kept);
        }
        let stored = fixture.keep(ALICE, &[]);
        assert_eq!(stored["ended"], if is_killed { "not_running" } else { "closed" });
        assert_eq!(fixture.load(ALICE)["outcome"], "success");
        assert!(fs::symlink_metadata(fixture.profile.join("SingletonLock")).is_err());
        last = Some(name);
    }
}

/// pstore itself stores no such lock; a program that knows only how to copy does.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_with_the_lock_of_another_host_starts_a_browser_here() {
    let fixture = ProfileFixture::local();
    Chromium::start(&fixture.profile).close();
    for (name, to) in [("SingletonLock", "another-host-17"), ("SingletonCookie", "4711")] {
        symlink(to, fixture.profile.join(name)).unwrap();
    }
    let show = [&["chromium"], &ARGUMENTS[..], &["--dump-dom", "data:text/html,<p>it-starts"]].concat();
    let place = format!("--user-data-dir={}", fixture.profile.display());
    let home = tempfile::tempdir().unwrap();
    let refused = Command::new("chromium").args(&show[1..]).arg(place).env("HOME", home.path()).output();
    assert_eq!(refused.unwrap().status.code(), Some(21), "such a lock keeps it from starting");

    let major = fixture.major();
    fixture.host.succeed(["init"]);
    let bucket = Arc::new(LocalBucket::open(&fixture.path("store"), Access::ReadWrite).unwrap());
    let mut store_fixture = StoreFixture::open(bucket, None).await;
    store_fixture.lineage.chrome_major = major.parse().unwrap();
    store_fixture.snapshot(&fixture.profile).await.unwrap();

    const WORDS: &str =
        "SingletonLock, SingletonCookie of process 17 on \"another-host\" came with the snapshot";
    let (plain, loaded) = (fixture.path("plain"), fixture.path("loaded"));
    for (target, more) in [(&plain, &[][..]), (&loaded, &["--chrome-major", &major])] {
        let restored = fixture.host.succeed([&["restore", ALICE, target.to_str().unwrap()], more].concat());
        assert_warns(&restored, WORDS);
        assert!(target.join("Default/History").exists());
        for name in ["SingletonLock", "SingletonCookie"] {
            assert!(fs::symlink_metadata(target.join(name)).is_err(), "{name}");
        }
    }
    let host = fixture.host.clone().with("HOME", home.path().to_str().unwrap());
    let ended = host.run([&["run", ALICE, "--chrome-major", &major, "--"], &show[..]].concat());
    assert_eq!((ended.code, ended.stderr.contains("it-starts")), (Some(0), true), "{ended:#?}");
    assert_warns(&ended.document, WORDS);
}

/// `PSTORE_COOKIE_ROUNDS=50` for more.
#[test]
fn no_cookie_older_than_a_second_is_ever_lost() {
    let rounds = env::var("PSTORE_COOKIE_ROUNDS").map_or(8, |rounds| rounds.parse().unwrap());
    let fixture = ProfileFixture::local();
    for round in 0..rounds {
        let chromium = Chromium::start(&fixture.profile);
        chromium.devtools().set_cookie(&format!("cookie-{round}"), "here");
        thread::sleep(Duration::from_millis(1050));
        assert_eq!(fixture.keep(ALICE, &[])["ended"], "closed");
        drop(chromium);
        assert_eq!(fixture.load(ALICE)["outcome"], "success");
        let found = ProfileFixture::cookies(&fixture.profile);
        for round in 0..=round {
            assert!(found.contains(&format!("cookie-{round}")), "{round}: {found:?}");
        }
    }
}

/// Has a run that a failed test leaves behind end its browser, and itself.
struct EndedOnFailure(u32);

impl Drop for EndedOnFailure {
    fn drop(&mut self) {
        if thread::panicking() {
            kill_process(Pid::from_raw(self.0 as i32).unwrap(), Signal::TERM).ok();
        }
    }
}

/// A run of Chromium on a profile at `place`, which `browse` uses and which ends well.
pub(super) fn run_browser(
    host: &Host,
    place: &Path,
    options: &[&str],
    browse: impl FnOnce(&mut Devtools),
) -> Ended {
    let major = Chromium::major();
    let run = ["run", ALICE, "--chrome-major", &major];
    let command = ["--", "chromium"];
    let more = ["--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"];
    let mut running = host.start([&run[..], options, &command, &ARGUMENTS, &more].concat());
    let _guard = EndedOnFailure(running.id());
    let (port, path) = loop {
        let noted = fs::read_to_string(place.join("DevToolsActivePort")).unwrap_or_default();
        match noted.split_once('\n') {
            // The browser of the run before may have left the file.
            Some((port, path)) if path.len() > 20 && listens(port) => {
                break (port.parse().unwrap(), path.to_owned());
            }
            _ if running.runs() => thread::sleep(Duration::from_millis(20)),
            _ => panic!("{:#?}", running.wait()),
        }
    };
    let mut devtools = Devtools::connect(port, &path);
    browse(&mut devtools);
    devtools.close();
    let ended = running.wait();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    fs::remove_dir_all(place).unwrap();
    ended
}

fn listens(port: &str) -> bool {
    TcpStream::connect(("127.0.0.1", port.parse().unwrap())).is_ok()
}

#[test]
fn a_run_with_a_browser_finds_what_the_run_before_left() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    let place = fixture.path("run");
    for round in 0..2 {
        let options = ["--directory", place.to_str().unwrap()];
        let ended = run_browser(&fixture.host, &place, &options, |devtools| {
            if round == 0 {
                site.leave(devtools, "in-a-run");
            } else {
                assert_eq!(site.find(devtools), Site::all("in-a-run"));
            }
        });
        let load = if round == 0 { "no_prior_state" } else { "success" };
        assert_eq!(
            (&ended.document["load"], &ended.document["snapshot_failed"]),
            (&load.into(), &false.into())
        );
        assert_eq!(ended.document["snapshot"]["pointer"], "flipped", "{ended:#?}");
    }
}

/// `PSTORE_SIGNAL_ROUNDS=17` for fifty ends on a mount and fifty on a copy.
#[test]
fn a_run_that_is_told_to_end_has_its_browser_close_and_loses_no_cookie() {
    let rounds: usize = env::var("PSTORE_SIGNAL_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap());
    let fixture = ProfileFixture::local();
    let (tmp, major) = (fixture.path("tmp"), Chromium::major());
    fs::create_dir(&tmp).unwrap();
    let host = fixture.host.clone().with("TMPDIR", tmp.to_str().unwrap());
    let mut cookies = Vec::new();
    for (round, signal) in
        [Signal::TERM, Signal::HUP, Signal::INT].into_iter().cycle().take(3 * rounds).enumerate()
    {
        for how in [&[][..], &["--copy"]] {
            let run = [&["run", ALICE, "--chrome-major", &major], how, &["--", "chromium"]].concat();
            let more = ["--user-data-dir={profile}", "--remote-debugging-port=0", "about:blank"];
            let mut running = host.start([&run[..], &ARGUMENTS, &more].concat());
            let _guard = EndedOnFailure(running.id());
            let (port, path) = loop {
                match noted_port(&tmp) {
                    Some(noted) => break noted,
                    None => assert!(running.runs(), "{:#?}", running.wait()),
                }
                thread::sleep(Duration::from_millis(20));
            };
            let mut devtools = Devtools::connect(port, &path);
            let cookie = format!("cookie-{round}-{}", how.len());
            devtools.set_cookie(&cookie, "here");
            drop(devtools);
            cookies.push(cookie.clone());
            thread::sleep(Duration::from_millis(500));
            kill_process(Pid::from_raw(running.id() as i32).unwrap(), signal).unwrap();
            let ended = running.wait();
            assert_eq!(ended.code, Some(0), "{ended:#?}");
            assert_eq!(ended.document["snapshot_failed"], false, "{ended:#?}");
            let out = fixture.path(&cookie);
            host.succeed(["restore", ALICE, out.to_str().unwrap(), "--chrome-major", &major]);
            let found = ProfileFixture::cookies(&out);
            assert!(cookies.iter().all(|cookie| found.contains(cookie)), "{signal:?}: {found:?}\n{ended:#?}");
        }
    }
}

/// What the browser of a run, somewhere below `tmp`, has noted of itself.
fn noted_port(tmp: &Path) -> Option<(u16, String)> {
    let places =
        fs::read_dir(tmp).ok()?.flatten().flat_map(|place| [place.path(), place.path().join("profile")]);
    let mut noted = places.filter_map(|place| fs::read_to_string(place.join("DevToolsActivePort")).ok());
    let (port, path) =
        noted.find_map(|text| text.split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())))?;
    Some((port.parse().ok()?, path)).filter(|(_, path)| path.len() > 20)
}
