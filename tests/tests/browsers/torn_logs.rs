//! These tests tear the logs of a real Chromium's databases, as a writer does that is killed. What was written before, and
//! what is written afterwards, is there in the next sessions.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use serde_json::json;
use tests::{
    binary::Host,
    chromium::{Chromium, Site},
    profile_fixture::ProfileFixture,
};

use super::profile::{ALICE, browse, run_browser};

const TRANSFORM: &str = "cut-torn-logs";

/// Adds the header of a record, and nothing of the record, to the newest log of each of two databases. Says which.
fn tear(profile: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(profile.join("Default/IndexedDB")).unwrap().map(|entry| entry.unwrap().path());
    let indexed = folders.filter(|path| path.extension().is_some_and(|found| found == "leveldb"));
    let newest = |folder: PathBuf| {
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|found| found == "log")).max().unwrap()
    };
    let logs: Vec<PathBuf> =
        indexed.chain([profile.join("Default/Local Storage/leveldb")]).map(newest).collect();
    for log in &logs {
        let mut file = File::options().append(true).open(log).unwrap();
        // A checksum, 75 bytes to come, a whole record.
        file.write_all(&[1, 2, 3, 4, 75, 0, 1]).unwrap();
    }
    logs.iter().map(|log| log.strip_prefix(profile).unwrap().to_owned()).collect()
}

/// Two sessions in which nothing is missing: LevelDB drops what is torn in the first one, and trips over it in the second.
fn go_on_twice(profile: &Path, site: &Site, marks: [&str; 3]) {
    for pair in marks.windows(2) {
        let chromium = Chromium::start(profile);
        let mut devtools = chromium.devtools();
        assert_eq!(site.find(&mut devtools), Site::all(pair[0]));
        site.leave(&mut devtools, pair[1]);
        chromium.close();
    }
    let chromium = Chromium::start(profile);
    assert_eq!(site.find(&mut chromium.devtools()), Site::all(marks[2]));
    chromium.close();
}

#[test]
fn nothing_is_lost_in_the_sessions_after_a_log_was_torn() {
    let (fixture, site) = (ProfileFixture::local(), Site::start());
    browse(&fixture, &site, "one");
    let logs = tear(&fixture.profile);
    assert!(logs.len() >= 2, "{logs:?}");
    let before = fixture.keep(ALICE, &[])["record"].as_str().unwrap().to_owned();
    let torn = fixture.host.succeed(["show", ALICE])["health"]["torn_logs"].clone();
    let mut found: Vec<&str> =
        torn.as_array().unwrap().iter().map(|log| log["path"].as_str().unwrap()).collect();
    found.sort_unstable();
    let mut logs: Vec<&str> = logs.iter().map(|log| log.to_str().unwrap()).collect();
    logs.sort_unstable();
    assert_eq!(found, logs);

    let major = fixture.major();
    let place = fixture.path("place");
    let shown = place.to_str().unwrap();
    for check in ["quick", "none"] {
        let host = Host::local(&fixture.path(check), &fixture.path("store"));
        let restore = ["restore", ALICE, shown, "--chrome-major", &major, "--require", "--check", check];
        let loaded = host.succeed(restore);
        assert_eq!(loaded["transforms"], json!([TRANSFORM]), "{loaded:#}");
        go_on_twice(&place, &site, ["one", "two", "three"]);
        fs::remove_dir_all(&place).unwrap();
    }

    let host = Host::local(&fixture.path("mounting"), &fixture.path("store"));
    fs::create_dir(&place).unwrap();
    host.succeed(["mount", ALICE, shown, "--chrome-major", &major, "--require"]);
    go_on_twice(&place, &site, ["one", "two", "three"]);
    host.succeed(["unmount", shown, "--commit"]);
    let record = host.succeed(["show", ALICE]);
    assert_eq!((&record["transforms"], &record["health"]["torn_logs"]), (&json!([TRANSFORM]), &json!(null)));

    // What the capture has noted holds for its snapshot alone: later logs are longer.
    for check in ["quick", "none"] {
        host.succeed(["rollback", &format!("{ALICE}@{before}"), "--confirm", "--reason", "once more"]);
        for (from, to) in [("one", "two"), ("two", "three"), ("three", "four")] {
            run_browser(&host, &place, &["--directory", shown, "--check", check], |devtools| {
                assert_eq!(site.find(devtools), Site::all(from));
                site.leave(devtools, to);
            });
        }
    }
}

#[test]
fn a_session_whose_browser_was_killed_while_it_wrote_loses_nothing_when_it_goes_on() {
    let (fixture, site) = (ProfileFixture::local(), Site::start());
    browse(&fixture, &site, "one");
    fixture.keep(ALICE, &[]);
    let place = fixture.path("place");
    fs::create_dir(&place).unwrap();
    let shown = place.to_str().unwrap();
    let mount = ["mount", ALICE, shown, "--chrome-major", &fixture.major(), "--require"];
    fixture.host.succeed(mount);
    let chromium = Chromium::start(&place);
    site.leave(&mut chromium.devtools(), "two");
    chromium.close();
    tear(&place);
    fixture.host.succeed(["unmount", shown, "--keep"]);
    assert_eq!(fixture.host.succeed(mount)["resumed"], true);
    go_on_twice(&place, &site, ["two", "three", "four"]);
    let committed = fixture.host.succeed(["unmount", shown, "--commit"]);
    assert_eq!(committed["committed"]["databases_damaged"], 0, "{committed:#}");
}
