//! These tests commit a mount while a real Chromium runs on it, and read what was stored in another.
//!
//! `PSTORE_HOT_COMMITS` says how many commits are made beside a page that never pauses.

use std::{
    fs,
    sync::{Arc, mpsc::sync_channel},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rusqlite::Connection;
use serde_json::json;
use tests::{
    binary::Host,
    chromium::{Chromium, Site},
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

use super::busy::{Busy, Due, Reader, commits, mount, now};

fn another(fixture: &MountFixture, name: &str) -> Host {
    fixture.another(name).with("PSTORE_MODES", "cold,hot")
}

#[test]
fn a_browser_runs_on_and_what_it_held_in_memory_is_found_on_another_host() {
    let fixture = MountFixture::hot();
    mount(&fixture, &fixture.host);
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

/// Replaces one cookie without pause, and leaves the browser time for others.
const SPIN: &str = "window.number = 0;
    (function spin() {
        for (let at = 0; at < 10; at++) document.cookie = `spun=${++number}; max-age=100000`;
        setTimeout(spin, 5);
    })();
    number";

#[test]
fn a_cookie_that_a_site_replaces_without_pause_is_in_every_commit() {
    let commits = commits(10);
    let fixture = MountFixture::hot();
    mount(&fixture, &fixture.host);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    let mut page = devtools.open(&site.url());
    page.evaluate(SPIN);
    let query = "SELECT count(*) FROM cookies WHERE name = 'spun'";
    for round in 0..commits {
        let committed = fixture.commit_hot();
        let snapshot = format!("{ALICE}@{}", committed["record"].as_str().unwrap());
        let out = fixture.path(&format!("out-{round}"));
        fixture.host.restore(&snapshot, &out);
        let cookies = Connection::open(out.join("Default/Cookies")).unwrap();
        let found: i64 = cookies.query_row(query, [], |row| row.get(0)).unwrap();
        assert_eq!((found, &committed["warnings"]), (1, &json!([])), "in commit {round}");
        fs::remove_dir_all(&out).unwrap();
    }
    chromium.close();
    fixture.unmount(&["--discard"]);
}

#[test]
fn one_that_cannot_be_asked_is_captured_with_a_warning() {
    let fixture = MountFixture::hot();
    mount(&fixture, &fixture.host);
    let chromium = Chromium::start_unreachable(&fixture.mountpoint);
    let committed = fixture.commit_hot();
    let warning = committed["warnings"][0].as_str().unwrap();
    assert!(warning.contains("half minute") && warning.contains("DevTools"), "{committed:#}");
    assert!(chromium.runs());
    fixture.unmount(&["--commit"]);
}

/// Snapshots that are read back at once, while the page goes on. As many more wait.
const READERS: usize = 2;

/// How often something happened, by how long it took.
#[derive(Clone, Default)]
struct Times(Vec<f64>);

impl Times {
    fn told(mut self, of: &str) -> String {
        self.0.sort_by(f64::total_cmp);
        let Some(last) = self.0.len().checked_sub(1) else { return format!("{of} never") };
        let at = |share: f64| self.0[(last as f64 * share) as usize];
        format!("{of} {:.1}, p99 {:.1}, most {:.1}", at(0.5), at(0.99), at(1.0))
    }
}

#[test]
fn all_that_a_busy_page_was_told_is_stored_is_in_every_commit_beside_it() {
    let commits = commits(60);
    let fixture = MountFixture::hot();
    mount(&fixture, &fixture.host);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    let mut page = Busy::start(&mut devtools, &site, &fixture.mountpoint);
    let (mut frozen, mut beside, mut written) = (Times::default(), Vec::new(), 0);
    let reader = Reader::new(&fixture, &site);
    let (tell, told) = sync_channel::<(String, Due)>(READERS);
    let told = Arc::new(Mutex::new(told));
    thread::scope(|scope| {
        // The readers end when it goes, and it fails when they have ended.
        let (tell, told) = (tell, told);
        for _ in 0..READERS {
            let (reader, told) = (&reader, Arc::clone(&told));
            scope.spawn(move || {
                let next = || told.lock().recv();
                while let Ok((record, due)) = next() {
                    reader.assert_has(&record, due);
                }
            });
        }
        drop(told);
        for round in 0..commits {
            // At any moment of what the page does.
            thread::sleep(Duration::from_millis(u64::from(noise(1, round)[0])));
            let (due, began) = (page.due(), now());
            let committed = fixture.commit_hot();
            beside.push(began..now());
            frozen.0.push(committed["frozen_ms"].as_f64().unwrap());
            assert_eq!((&committed["databases_damaged"], &committed["warnings"]), (&json!(0), &json!([])));
            written = due.rows;
            if round % 100 == 99 {
                println!("{} commits; {}", round + 1, frozen.clone().told("ms that changes waited:"));
            }
            let record = committed["record"].as_str().unwrap().to_owned();
            if tell.send((record, due)).is_err() {
                break; // A reader has failed, and says why.
            }
        }
    });
    page.due();
    let is_beside = |(began, took): &(f64, f64)| {
        let near = beside.partition_point(|commit| commit.end < *began);
        beside.get(near).is_some_and(|commit| commit.start <= began + took / 1000.0)
    };
    let (during, apart): (Vec<_>, Vec<_>) = page.rows.iter().partition(|row| is_beside(row));
    let of = |rows: Vec<(f64, f64)>| Times(rows.into_iter().map(|(_, took)| took).collect());
    println!(
        "{commits} commits beside {written} rounds of writes; {}; {}; {}; the history was {:.1} s behind at most",
        frozen.told("ms that changes waited:"),
        of(during).told("ms that a row took beside a commit:"),
        of(apart).told("between commits:"),
        page.history_was_behind,
    );
    chromium.close();
    fixture.unmount(&["--discard"]);
}
