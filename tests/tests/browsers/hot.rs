//! These tests commit a mount while a real Chromium runs on it, and read what was stored in another.
//!
//! `PSTORE_HOT_COMMITS` says how many commits are made beside a page that never pauses.

use std::{env, fs, thread, time::Duration};

use serde_json::{Value, json};
use tests::{
    binary::Host,
    chromium::{Chromium, Page, Site},
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

/// Writes to every place a site can, without pause.
const BUSY: &str = include_str!("busy.js");
/// Finds the newest number in each of them.
const FOUND: &str = include_str!("busy_found.js");

fn mount(fixture: &MountFixture) {
    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.succeed(["mount", ALICE, place, "--chrome-major", &Chromium::major()]);
}

fn another(fixture: &MountFixture, name: &str) -> Host {
    fixture.another(name).with("PSTORE_MODES", "cold,hot")
}

#[test]
fn a_browser_runs_on_and_what_it_held_in_memory_is_found_on_another_host() {
    let fixture = MountFixture::hot();
    mount(&fixture);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    site.leave(&mut devtools, "kept");
    devtools.set_cookie("late", "too");
    let committed = fixture.commit_hot();
    assert!(chromium.runs());
    assert_eq!((&committed["ended"], &committed["pointer"]), (&"running".into(), &"flipped".into()));
    assert_eq!((&committed["warnings"], &committed["databases_damaged"]), (&json!([]), &json!(0)));
    let record = fixture.host.succeed(["show", ALICE]);
    assert_eq!((&record["mode"], &record["notes"]), (&"hot".into(), &"".into()), "{record:#}");
    let recovered = record["health"]["recovered"].as_array().unwrap();
    assert!(recovered.iter().any(|database| database["from"] == "log"), "{record:#}");
    // The browser has noticed nothing.
    assert_eq!(site.find(&mut devtools), Site::all("kept"));

    let (out, host) = (fixture.path("out"), another(&fixture, "two"));
    host.restore(ALICE, &out);
    let again = Chromium::start(&out);
    let mut devtools = again.devtools();
    assert_eq!(devtools.cookie("late").as_deref(), Some("too"));
    let mut found = site.find(&mut devtools);
    // Chromium writes these some seconds after they were set.
    for late in ["local_storage", "cache_storage"] {
        found[late] = "kept".into();
    }
    assert_eq!(found, Site::all("kept"));
    again.close();
    chromium.close();
    fixture.unmount(&["--commit"]);
    assert_eq!(fixture.host.succeed(["show", ALICE])["mode"], "cold");
}

#[test]
fn one_that_cannot_be_asked_is_captured_with_a_warning() {
    let fixture = MountFixture::hot();
    mount(&fixture);
    let chromium = Chromium::start_unreachable(&fixture.mountpoint);
    let committed = fixture.commit_hot();
    let warning = committed["warnings"][0].as_str().unwrap();
    assert!(warning.contains("half minute") && warning.contains("DevTools"), "{committed:#}");
    assert!(chromium.runs());
    fixture.unmount(&["--commit"]);
}

/// How long Chromium takes at most to write what it has acknowledged, in seconds.
const LOCAL_STORAGE_LAGS: f64 = 60.0;
const CACHE_STORAGE_LAGS: f64 = 10.0;

/// The numbers that the page was told are stored, and when.
struct Acknowledged(Vec<(f64, u64)>);

impl Acknowledged {
    fn of(page: &mut Page<'_>, log: &str) -> Self {
        let log = page.evaluate(&format!("window.{log}"));
        let told = |entry: &Value| (entry[0].as_f64().unwrap() / 1000.0, entry[1].as_u64().unwrap());
        Self(log.as_array().unwrap().iter().map(told).collect())
    }

    /// When the last one was acknowledged.
    fn last(&self) -> f64 {
        self.0.last().map_or(0.0, |(at, _)| *at)
    }

    /// The newest that was acknowledged by then.
    fn newest(&self, by: f64) -> u64 {
        self.0.iter().rfind(|(at, _)| *at <= by).map_or(0, |(_, number)| *number)
    }

    /// How long before the last one the first was acknowledged that is not there, if `found` is the newest that is.
    fn lag(&self, found: u64) -> f64 {
        let missed = self.0.iter().find(|(_, number)| *number > found);
        missed.map_or(0.0, |(at, _)| self.last() - at)
    }
}

/// How often something happened, by how long it took.
#[derive(Default)]
struct Times(Vec<f64>);

impl Times {
    fn told(mut self, of: &str) -> String {
        self.0.sort_by(f64::total_cmp);
        let at = |share: f64| self.0[((self.0.len() - 1) as f64 * share) as usize];
        format!("{of} {:.1}, p99 {:.1}, most {:.1}", at(0.5), at(0.99), at(1.0))
    }
}

#[test]
fn all_that_a_busy_page_was_told_is_stored_is_in_every_commit_beside_it() {
    let commits: u64 = env::var("PSTORE_HOT_COMMITS").map_or(5, |text| text.parse().unwrap());
    let fixture = MountFixture::hot();
    mount(&fixture);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    let mut page = devtools.open(&site.url());
    assert_eq!(page.evaluate(BUSY), "busy");
    let [mut frozen, mut lags] = [Times::default(), Times::default()];
    let mut written = 0;
    for round in 0..commits {
        // At any moment of what the page does.
        thread::sleep(Duration::from_millis(2 * u64::from(noise(1, round)[0])));
        let cached = Acknowledged::of(&mut page, "cacheLog");
        let told = Acknowledged::of(&mut page, "log");
        written = told.newest(told.last());
        let due = |of: &Acknowledged, lag: f64| of.newest(told.last() - lag) as i64;
        let committed = fixture.commit_hot();
        frozen.0.push(committed["frozen_ms"].as_f64().unwrap());
        assert_eq!((&committed["databases_damaged"], &committed["warnings"]), (&json!(0), &json!([])));

        // Another host, which has nothing of it.
        let (out, home) = (fixture.path(&format!("out-{round}")), format!("reader-{round}"));
        another(&fixture, &home).restore(ALICE, &out);
        let reader = Chromium::start(&out);
        let mut devtools = reader.devtools();
        let cookie = devtools.cookie("counted").map_or(0, |count| count.parse().unwrap());
        let found = devtools.open(&site.url()).evaluate(FOUND);
        let number = |place: &str| found[place].as_i64().unwrap_or(0);
        assert!(number("rows") >= written as i64, "{written} rows were acknowledged; {found:#}");
        assert!(cookie >= written, "{written} cookies were acknowledged; {cookie} is there");
        let stored = number("local_storage");
        assert!(stored >= due(&told, LOCAL_STORAGE_LAGS), "local storage: {found:#}");
        assert!(number("cache_storage") >= due(&cached, CACHE_STORAGE_LAGS), "caches: {found:#}");
        lags.0.push(told.lag(stored as u64));
        drop(reader);
        fs::remove_dir_all(&out).unwrap();
        fs::remove_dir_all(fixture.path(&home)).unwrap();
    }
    let failures = page.evaluate("window.failures");
    assert_eq!(failures, Value::Array(Vec::new()), "the page has noticed");
    let waits = page.evaluate("window.waits");
    let waits = Times(waits.as_array().unwrap().iter().map(|wait| wait.as_f64().unwrap()).collect());
    println!(
        "{commits} commits beside {written} rounds of writes; {}; {}; {}",
        frozen.told("ms that changes waited:"),
        waits.told("ms that a row took:"),
        lags.told("seconds that local storage lagged:"),
    );
    chromium.close();
    fixture.unmount(&["--discard"]);
}
