//! This test saves the work in progress of a Chromium that does nothing.

use std::{
    thread,
    time::{Duration, Instant},
};

use rusqlite::Connection;
use serde_json::Value;
use tests::{
    chromium::{Chromium, Site},
    mount_fixture::{ALICE, MountFixture},
};

const WIP: &str = "acme/alice@wip";
/// Chromium writes half a minute after something was changed.
const QUIET: Duration = Duration::from_secs(45);
const PATIENCE: Duration = Duration::from_secs(400);

fn saved(fixture: &MountFixture) -> Value {
    fixture.host.run(["show", WIP]).document["record"].clone()
}

#[test]
fn a_browser_that_does_nothing_is_not_saved_again_until_it_has_another_cookie() {
    let fixture = MountFixture::hot();
    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.succeed(["mount", ALICE, place, "--chrome-major", &Chromium::major(), "--autosave", "2s"]);
    let (site, chromium) = (Site::start(), Chromium::start(&fixture.mountpoint));
    let mut devtools = chromium.devtools();
    site.leave(&mut devtools, "kept");
    let began = Instant::now();
    let (mut last, mut since, mut saves) = (saved(&fixture), Instant::now(), 0);
    while last.is_null() || since.elapsed() < QUIET {
        assert!(began.elapsed() < PATIENCE, "after {saves} saves there is another one all the time");
        thread::sleep(Duration::from_millis(200));
        let now = saved(&fixture);
        if now != last {
            (last, since, saves) = (now, Instant::now(), saves + 1);
        }
    }
    println!("{saves} saves, the last after {:?}", began.elapsed() - since.elapsed());

    devtools.set_cookie("late", "too");
    let began = Instant::now();
    while saved(&fixture) == last {
        assert!(began.elapsed() < PATIENCE, "the cookie is not saved");
        thread::sleep(Duration::from_millis(200));
    }
    let out = fixture.path("out");
    fixture.host.restore(WIP, &out);
    let cookies = Connection::open(out.join("Default/Cookies")).unwrap();
    let query = "SELECT count(*) FROM cookies WHERE name = 'late'";
    assert_eq!(cookies.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap(), 1);
    chromium.close();
    fixture.unmount(&["--discard"]);
}
