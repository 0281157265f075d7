//! These tests commit a mount while a real Chromium runs on it, and read what was stored in another.
//!
//! `PSTORE_HOT_COMMITS` says how many commits are made beside a page that never pauses.

use std::{env, fs};

use serde_json::{Value, json};
use tests::{
    binary::Host,
    chromium::{Chromium, Page, Site},
    mount_fixture::{ALICE, MountFixture},
};

/// Writes one row after another, and counts those that the browser has acknowledged.
const BUSY: &str = r#"(async () => {
    const asked = indexedDB.open('busy', 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore('rows');
    const database = await new Promise((ok, no) => { asked.onsuccess = () => ok(asked.result); asked.onerror = no; });
    Object.assign(window, { acknowledged: 0, waits: [], failures: [] });
    window.addEventListener('error', event => window.failures.push(String(event.message)));
    const write = () => {
        const began = performance.now();
        const change = database.transaction('rows', 'readwrite', { durability: 'strict' });
        change.objectStore('rows').put('x'.repeat(2000), window.acknowledged + 1);
        change.oncomplete = () => {
            window.acknowledged++;
            window.waits.push(performance.now() - began);
            document.cookie = `counted=${window.acknowledged}; max-age=100000`;
            document.cookie = `session=${window.acknowledged}`;
            setTimeout(write, 0);
        };
        change.onabort = () => window.failures.push(String(change.error));
    };
    write();
    return 'busy';
})()"#;

/// How many rows there are, if they are the first ones and all whole.
const ROWS: &str = r#"(async () => {
    const asked = indexedDB.open('busy', 1);
    const database = await new Promise((ok, no) => { asked.onsuccess = () => ok(asked.result); asked.onerror = no; });
    const rows = database.transaction('rows').objectStore('rows');
    const all = asked => new Promise((ok, no) => { asked.onsuccess = () => ok(asked.result); asked.onerror = no; });
    const [keys, values] = await Promise.all([all(rows.getAllKeys()), all(rows.getAll())]);
    const whole = keys.every((key, at) => key === at + 1) && values.every(value => value === 'x'.repeat(2000));
    return whole ? keys.length : -1;
})()"#;

fn mount(fixture: &MountFixture) {
    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.succeed(["mount", ALICE, place, "--chrome-major", &Chromium::major()]);
}

fn another(fixture: &MountFixture, name: &str) -> Host {
    fixture.another(name).with("PSTORE_MODES", "cold,hot")
}

fn number(page: &mut Page<'_>, expression: &str) -> u64 {
    page.evaluate(expression).as_u64().unwrap()
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

#[test]
fn all_that_a_busy_page_was_told_is_stored_is_in_every_commit_beside_it() {
    let commits: u64 = env::var("PSTORE_HOT_COMMITS").map_or(4, |text| text.parse().unwrap());
    let fixture = MountFixture::hot();
    mount(&fixture);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    let mut page = devtools.open(&site.url());
    assert_eq!(page.evaluate(BUSY), "busy");
    let mut frozen = Vec::new();
    for round in 0..commits {
        let before = number(&mut page, "window.acknowledged");
        frozen.push(fixture.commit_hot()["frozen_ms"].as_f64().unwrap());
        let out = fixture.path(&format!("out-{round}"));
        fixture.host.restore(ALICE, &out);
        let reader = Chromium::start(&out);
        let mut devtools = reader.devtools();
        let cookie = devtools.cookie("counted").map_or(0, |count| count.parse().unwrap());
        let rows = number(&mut devtools.open(&site.url()), ROWS);
        assert!(
            rows >= before && cookie >= before,
            "{before} were acknowledged; {rows} rows, cookie {cookie}"
        );
        drop(reader);
        fs::remove_dir_all(&out).unwrap();
    }
    let failures = page.evaluate("window.failures");
    assert_eq!(failures, Value::Array(Vec::new()), "the page has noticed");
    let written = number(&mut page, "window.acknowledged");
    let waits = page.evaluate("window.waits.sort((a, b) => a - b)");
    let waits: Vec<f64> = waits.as_array().unwrap().iter().map(|wait| wait.as_f64().unwrap()).collect();
    frozen.sort_by(f64::total_cmp);
    let at = |times: &[f64], share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!(
        "{commits} commits beside {written} rows; changes waited {:.1} ms, p99 {:.1}, most {:.1}; \
         a row took {:.1} ms, p99 {:.1}, most {:.1}",
        at(&frozen, 0.5),
        at(&frozen, 0.99),
        at(&frozen, 1.0),
        at(&waits, 0.5),
        at(&waits, 0.99),
        at(&waits, 1.0)
    );
    chromium.close();
    fixture.unmount(&["--discard"]);
}
