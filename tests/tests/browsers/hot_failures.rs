//! These tests make a commit beside a browser go wrong: its daemon is killed, its lock is lost, there is no room in the
//! store. What is current stays right, and the next commit succeeds or says why.

use std::{fs, thread, time::Duration};

use serde_json::Value;
use tests::{
    binary::Host,
    chromium::{Chromium, Site},
    disk::SmallDisk,
    mount_fixture::{ALICE, MountFixture},
};

use super::busy::{Busy, Due, Reader, assert_in, discard, mount};

fn current(host: &Host) -> Value {
    host.succeed(["show", ALICE])["record"].clone()
}

#[test]
fn a_daemon_that_is_killed_right_after_a_commit_takes_nothing_with_it() {
    let fixture = MountFixture::hot();
    let site = Site::start();
    let reader = Reader::new(&fixture, &site);
    let mut mounted = mount(&fixture, &fixture.host);
    for _ in 0..2 {
        let chromium = Chromium::start(&fixture.mountpoint);
        let mut devtools = chromium.devtools();
        let mut page = Busy::start(&mut devtools, &site, &fixture.mountpoint);
        let due = page.goes_on(Due::default());
        let committed = fixture.commit_hot();
        let rows = page.due().rows;
        fixture.kill(&mounted);
        chromium.kill();
        reader.assert_has(committed["record"].as_str().unwrap(), due);
        mounted = mount(&fixture, &fixture.host);
        assert_eq!(mounted["resumed"], true, "{mounted:#}");
        // Of what came after the commit, Chromium may not have written all but the rows.
        assert_in(&fixture.mountpoint, &fixture.path("one"), &site, due.with_rows(rows));
    }
    discard(&fixture.host, &fixture.mountpoint);
}

#[test]
fn a_commit_that_loses_its_lock_meanwhile_changes_nothing_of_what_others_made_current() {
    let fixture = MountFixture::hot();
    mount(&fixture, &fixture.host);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    let mut page = Busy::start(&mut devtools, &site, &fixture.mountpoint);
    let due = page.goes_on(Due::default());
    fixture.commit_hot();
    let before = page.goes_on(due);

    let committing = fixture.host.start(["commit", fixture.mountpoint.to_str().unwrap(), "--mode", "hot"]);
    let moment = Duration::from_micros(getrandom::u64().unwrap() % 700_000);
    println!("the lock is taken after {moment:?}");
    thread::sleep(moment);
    let other = fixture.another("two").with("PSTORE_MODES", "cold,hot");
    other.succeed(["force-unlock", ALICE, "--reason", "it is somebody else's turn", "--confirm"]);
    let elsewhere = fixture.place("elsewhere");
    let place = elsewhere.to_str().unwrap();
    other.succeed(["mount", ALICE, place, "--chrome-major", &Chromium::major()]);
    fs::write(elsewhere.join("turn"), "the other's").unwrap();
    let taken = other.succeed(["unmount", place, "--commit"])["committed"]["record"].clone();

    let ended = committing.wait();
    assert!([Some(0), Some(25), Some(26)].contains(&ended.code), "{ended:#?}");
    assert_eq!(current(&other), taken);
    let refused = fixture.ask("commit", &["--mode", "hot"]);
    assert!([Some(25), Some(26)].contains(&refused.code), "{refused:#?}");
    assert!(refused.document["error"]["hint"].is_string(), "{refused:#?}");
    assert_eq!(current(&other), taken);
    page.goes_on(before);
    Reader::new(&fixture, &site).assert_has(taken.as_str().unwrap(), due);
    chromium.close();
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_commit_that_finds_no_room_in_the_store_says_so_and_the_next_one_has_everything() {
    let (fixture, disk) = (MountFixture::hot(), SmallDisk::new(512 << 20));
    let store = disk.path().join("store");
    let host = Host::local(&fixture.path("small"), &store).impatient().with("PSTORE_MODES", "cold,hot");
    let host = host.with("PSTORE_SESSION_DIR", fixture.path("small/sessions").to_str().unwrap());
    mount(&fixture, &host);
    let site = Site::start();
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    let mut page = Busy::start(&mut devtools, &site, &fixture.mountpoint);
    let first = page.goes_on(Due::default());
    let commit = ["commit", fixture.mountpoint.to_str().unwrap(), "--mode", "hot"];
    let before = host.succeed(commit)["record"].clone();

    disk.fill_but(0);
    let ended = host.run(commit);
    assert!(ended.code != Some(0) && ended.stderr.contains("No space left"), "{ended:#?}");
    assert_eq!(current(&host), before);
    let due = page.goes_on(first);
    disk.relieve();
    let due = page.goes_on(due);
    let after = host.succeed(commit)["record"].clone();
    let reader = Reader::new(&fixture, &site).from(&store);
    reader.assert_has(before.as_str().unwrap(), first);
    reader.assert_has(after.as_str().unwrap(), due);
    page.due();
    chromium.close();
    host.succeed(["unmount", commit[1], "--discard"]);
}
