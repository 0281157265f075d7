//! These tests log in to a real server with a session cookie alone, and load the profile on other hosts.

use std::{fs, path::Path};

use serde_json::json;
use tests::{
    binary::Host,
    chromium::{Chromium, Site},
    profile_fixture::ProfileFixture,
};

use super::profile::{ALICE, run_browser};

fn host(fixture: &ProfileFixture, name: &str, session_cookies: &str) -> Host {
    Host::local(&fixture.path(name), &fixture.path("store")).with("PSTORE_SESSION_COOKIES", session_cookies)
}

/// Whether a browser is logged in that runs on the profile, as `host` loads it.
fn is_logged_in(host: &Host, place: &Path, options: &[&str], site: &Site) -> bool {
    let mut is_in = false;
    let options = [&["--directory", place.to_str().unwrap()], options].concat();
    run_browser(host, place, &options, |devtools| is_in = site.is_logged_in(devtools));
    is_in
}

#[test]
fn a_session_cookie_is_there_in_the_next_run_on_another_host_if_that_is_set() {
    let fixture = ProfileFixture::local();
    let (site, place) = (Site::start(), fixture.path("run"));
    let options = ["--directory", place.to_str().unwrap()];
    run_browser(&host(&fixture, "one", "keep"), &place, &options, |devtools| site.log_in(devtools));

    let first = fixture.host.succeed(["show", ALICE])["record"].as_str().unwrap().to_owned();
    let before = format!("{ALICE}@{first}");
    for (name, setting, options, expected) in
        [("two", "drop", &[][..], false), ("three", "keep", &[], true), ("four", "keep", &["--copy"], true)]
    {
        let host = host(&fixture, name, setting);
        assert_eq!(is_logged_in(&host, &place, options, &site), expected, "{name}");
        let transforms = if expected { json!(["keep-session-cookies"]) } else { json!([]) };
        assert_eq!(host.succeed(["show", ALICE])["transforms"], transforms, "{name}");
        // A load leaves the snapshot as it is, so each of them begins with the same one.
        if name != "four" {
            host.succeed(["rollback", &before, "--confirm", "--reason", "once more"]);
        }
    }

    // What was kept once is a cookie like others, for those who do not keep any.
    let out = fixture.path("out");
    host(&fixture, "five", "drop").restore(ALICE, &out);
    let chromium = Chromium::start(&out);
    assert!(site.is_logged_in(&mut chromium.devtools()));
    chromium.close();
    fs::remove_dir_all(&out).unwrap();
}
