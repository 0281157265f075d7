//! These tests say what a profile must have, and capture profiles without it.

use std::{fs, time::SystemTime};

use serde_json::{Value, json};

use crate::{
    chrome,
    test_host::{Ran, TestHost, until},
};

/// When something lapses so many days from now, as Chrome counts.
fn in_days(days: i64) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as i64;
    now + days * 86_400_000_000 + 11_644_473_600_000_000
}

fn cookies(host: &TestHost, rows: &[(&str, &str, i64)]) {
    let rows: Vec<String> = rows
        .iter()
        .map(|(host, name, lapses)| format!("('{host}', '{name}', 'hush', x'', '/', {lapses})"))
        .collect();
    chrome::cookies(&host.path("udd/Default/Cookies"), &rows.join(", "));
}

/// A profile that is logged in, and of which that is expected.
fn logged_in() -> TestHost {
    let host = TestHost::new();
    cookies(&host, &[(".a.test", "sid", in_days(30)), ("a.test", "theme", in_days(300))]);
    host.ok("snapshot udd acme/alice");
    host.ok("expect acme/alice --cookie .a.test:sid");
    host
}

fn held_back(ran: &Ran, missing: &[&str]) -> Value {
    ran.refused(29, &["not made the current one: logged out"]);
    ran.refused(29, missing);
    let document = ran.json();
    assert_eq!((&document["held_back"], &document["pointer"]), (&"logged out".into(), &"unchanged".into()));
    document
}

#[test]
fn a_capture_without_an_expected_cookie_is_held_back_and_called_logged_out() {
    let host = logged_in();
    cookies(&host, &[("a.test", "theme", in_days(300)), ("a.test", "other", in_days(300))]);
    let held =
        held_back(&host.run("snapshot udd acme/alice --json"), &["cookie .a.test:sid: it is not there"]);
    let list = host.json("list acme/alice");
    let row = &list["snapshots"][1];
    assert_eq!((&row["held_back"], &row["latest"]), (&"logged out".into(), &false.into()));
    assert_eq!(
        row["missing"],
        json!([{ "kind": "cookie", "name": ".a.test:sid", "why": "it is not there" }])
    );
    let text = host.ok("list acme/alice");
    assert!(text.contains("held back (logged out: cookie .a.test:sid)"), "{text}");
    let event = host.event("held_back");
    assert_eq!(event["reason"], "logged out: cookie .a.test:sid: it is not there");
    assert_eq!(event["record"], held["record"]);
    let shown = host.ok(&format!("show acme/alice@{}", held["sha256_prefix"].as_str().unwrap()));
    assert!(shown.contains("expected  logged out: cookie .a.test:sid: it is not there"), "{shown}");
    for told in [list.to_string(), text, shown, host.ok("log acme/alice")] {
        assert!(!told.contains("hush"), "{told}");
    }
    // Somebody may know better.
    let allowed = host.json("snapshot udd acme/alice --allow-logged-out");
    assert_eq!((&allowed["pointer"], &allowed["held_back"]), (&"flipped".into(), &Value::Null));
    let text = host.ok("list acme/alice");
    assert!(text.contains("  logged out: cookie .a.test:sid") && !text.contains("held back"), "{text}");
}

#[test]
fn a_cookie_that_has_lapsed_is_missing_and_a_session_s_is_not() {
    let host = logged_in();
    host.ok("expect acme/alice --cookie b.test:session");
    cookies(&host, &[(".a.test", "sid", in_days(-1)), ("b.test", "session", 0)]);
    held_back(&host.run("snapshot udd acme/alice --json"), &["cookie .a.test:sid: it has lapsed"]);
    // Chrome's dot makes no difference, nor does which of its profiles has it.
    cookies(&host, &[("b.test", "session", 0)]);
    fs::create_dir_all(host.path("udd/Other")).unwrap();
    fs::rename(host.path("udd/Default/Cookies"), host.path("udd/Other/Cookies")).unwrap();
    cookies(&host, &[("a.test", "sid", in_days(2))]);
    let taken = host.json("snapshot udd acme/alice");
    assert_eq!(taken["pointer"], "flipped", "{taken}");
}

#[test]
fn an_expected_origin_keeps_something_in_local_storage_or_has_a_database() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    host.ok("expect acme/alice --origin https://App.test:443/ --origin http://b.test:81");
    let profile = host.path("udd/Default");
    chrome::local_storage(&profile, &["_https://app.test\0token", "META:http://b.test:81"]);
    let missing = ["origin http://b.test:81: it keeps nothing"];
    let held = host.run("snapshot udd acme/alice --json --check none");
    held_back(&held, &missing);
    assert!(!held.stderr.contains("app.test"), "{held:?}");
    let database = profile.join("IndexedDB/http_b.test_81.indexeddb.leveldb");
    fs::create_dir_all(&database).unwrap();
    assert_eq!(host.json("snapshot udd acme/alice")["pointer"], "flipped");
    fs::write(profile.join("Local Storage/leveldb/CURRENT"), "nonsense").unwrap();
    let torn = host.run("snapshot udd acme/alice --json --allow-damaged");
    held_back(
        &torn,
        &["origin https://app.test: Default/Local Storage/leveldb cannot be read: CURRENT names"],
    );
}

#[test]
fn what_comes_through_an_archive_or_a_mount_is_judged_too() {
    let host = logged_in();
    host.ok("expect acme/alice --file Default/Preferences --file Default/kept");
    fs::create_dir_all(host.path("udd/Default/kept")).unwrap();
    fs::write(host.path("udd/Default/kept/a"), "a").unwrap();
    host.ok("export acme/alice -o archives");
    let archive = fs::read_dir(host.path("archives")).unwrap().map(|entry| entry.unwrap().path());
    let archive = { archive }.find(|path| path.to_string_lossy().ends_with(".tar.zst")).unwrap();
    let line = format!("import {} acme/alice --json", archive.display());
    held_back(&host.run(&line), &["logged out: file Default/kept: it is not there"]);
    assert_eq!(host.event("held_back")["reason"], "logged out: file Default/kept: it is not there");
    assert_eq!(host.json("snapshot udd acme/alice")["pointer"], "flipped");

    fs::create_dir(host.path("mnt")).unwrap();
    host.ok("mount acme/alice mnt");
    let _unmounted = Unmounted(&host);
    let closed = || host.json("mounts")["mounts"][0]["open_for_writing"] == json!([]);
    fs::write(host.path("mnt/Default/note"), "harmless").unwrap();
    until("it is closed", closed);
    assert_eq!(host.json("commit mnt")["pointer"], "flipped", "nothing that is expected has changed");
    fs::remove_dir_all(host.path("mnt/Default/kept")).unwrap();
    held_back(&host.run("commit mnt --json"), &["logged out: file Default/kept: it is not there"]);
    let kept = host.json("log acme/alice")["events"].as_array().unwrap().clone();
    assert_eq!(kept.iter().filter(|event| event["kind"] == "held_back").count(), 2);
    assert_eq!(host.json("commit mnt --allow-logged-out")["pointer"], "flipped");
}

struct Unmounted<'a>(&'a TestHost);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        self.0.run("unmount mnt --discard");
    }
}

#[test]
fn what_is_expected_is_added_shown_removed_and_cleared() {
    let host = TestHost::new();
    host.ok("snapshot udd acme/alice");
    assert_eq!(host.ok("expect acme/alice"), "nothing is expected of acme/alice\n");
    let all = "expect acme/alice --cookie .a.test:sid --origin https://a.test --file Default/History";
    assert_eq!(host.json(all)["outcome"], "changed");
    assert_eq!(host.json(all)["outcome"], "unchanged");
    let shown = "a snapshot of acme/alice is held back as logged out unless it has\n  \
                 cookie  .a.test:sid\n  origin  https://a.test\n  file    Default/History\n";
    assert_eq!(host.ok("expect acme/alice"), shown);
    let document = host.json("expect acme/alice --origin https://a.test --remove");
    assert_eq!((&document["origins"], &document["revision"]), (&json!([]), &json!(2)));
    host.run("expect acme/alice --origin https://a.test --remove")
        .refused(3, &["origin https://a.test", "`pstore expect acme/alice` shows"]);
    host.run("expect acme/alice --remove").refused(2, &["--remove goes with", "--clear"]);
    host.run("expect acme/alice --cookie sid").refused(2, &[".example.com:sid"]);
    host.run("expect acme/alice --origin a.test").refused(2, &["https://app.example.com"]);
    host.run("expect acme/alice --file ../x").refused(2, &["Default/Preferences"]);
    host.run("expect acme/nobody --file x").refused(3, &["profile acme/nobody", "acme/alice"]);
    host.run("expect acme/nobody").refused(3, &["profile acme/nobody"]);
    host.ok("expect acme/alice --clear");
    let cleared = host.json("expect acme/alice");
    assert_eq!((&cleared["cookies"], &cleared["files"]), (&json!([]), &json!([])));
}

#[test]
fn a_capture_is_held_back_while_what_is_expected_cannot_be_read() {
    let host = logged_in();
    let document = host.object("../expectations.json");
    fs::write(&document, "{").unwrap();
    host.change("new");
    let ran = host.run("snapshot udd acme/alice --json");
    ran.refused(29, &["what is expected of the profile cannot be read", "expectations.json"]);
    assert_eq!(ran.json()["held_back"], "unjudged");
    host.run("expect acme/alice").refused(10, &["`pstore expect acme/alice --clear`"]);
    host.ok("expect acme/alice --clear");
    assert_eq!(host.json("snapshot udd acme/alice")["pointer"], "flipped");
}

#[test]
fn the_first_expected_cookie_that_lapses_is_forecast_for_each_profile() {
    let host = logged_in();
    host.ok("snapshot udd acme/bob");
    host.ok("expect acme/bob --cookie a.test:theme");
    let expiry = |profile: &str| {
        let document = host.json("list acme --expiry");
        let lines = document["expiry"].as_array().unwrap().clone();
        lines.into_iter().find(|line| line["profile_id"] == profile).unwrap()
    };
    // Nobody has looked since.
    assert_eq!((&expiry("alice")["judged"], &expiry("alice")["first_lapse"]), (&false.into(), &Value::Null));
    host.change("new");
    for profile in ["alice", "bob"] {
        host.ok(&format!("snapshot udd acme/{profile}"));
    }
    let alice = expiry("alice");
    assert_eq!(
        (&alice["first_lapse"]["host"], &alice["first_lapse"]["name"]),
        (&".a.test".into(), &"sid".into())
    );
    let lapses = alice["first_lapse"]["lapses_at_ms"].as_i64().unwrap();
    assert!((lapses - (in_days(30) / 1000 - 11_644_473_600_000)).abs() < 600_000, "{alice}");
    let text = host.ok("list acme --expiry");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with("acme/alice")
            && ["29 days", ".a.test:sid", "all there"].iter().all(|cell| lines[1].contains(cell)),
        "{text}"
    );
    assert!(lines[2].starts_with("acme/bob") && lines[2].contains("299 days"), "{text}");
    let own = host.json("list acme/alice --expiry");
    assert_eq!(own["expiry"].as_array().unwrap().len(), 1);
    let row = &host.json("list acme/alice")["snapshots"][1];
    assert_eq!((&row["first_lapse"], &row["missing"]), (&alice["first_lapse"], &json!([])));
    let shown = host.ok("show acme/alice");
    assert!(shown.contains("expected  all there; .a.test:sid lapses first, "), "{shown}");
    host.run("list --expiry").refused(2, &["TENANT"]);
}
