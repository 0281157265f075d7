//! These tests look for what is expected of a profile in the files of a real Chromium.

use std::fs;

use tests::{
    chromium::{Chromium, Site},
    profile_fixture::ProfileFixture,
};

const ALICE: &str = "acme/alice";

#[test]
fn a_login_that_chromium_lost_is_noticed_in_cookies_and_in_local_storage() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    let chromium = Chromium::start(&fixture.profile);
    site.leave(&mut chromium.devtools(), "logged-in");
    chromium.close();
    fixture.keep(ALICE, &[]);
    let origin = site.url();
    fixture.host.succeed(["expect", ALICE, "--cookie", "127.0.0.1:mark", "--origin", &origin]);
    // Local Storage alone has it, too.
    fs::remove_dir_all(fixture.profile.join("Default/IndexedDB")).unwrap();
    let stored = fixture.keep(ALICE, &[]);
    assert_eq!(stored["pointer"], "flipped", "{stored:#}");

    let chromium = Chromium::start(&fixture.profile);
    chromium.devtools().open(&origin).evaluate("localStorage.clear(); document.cookie = 'mark=; max-age=0'");
    chromium.close();
    let ended = fixture.snapshot(ALICE, &["--allow-shrink"]);
    assert_eq!((ended.code, &ended.document["held_back"]), (Some(29), &"logged out".into()), "{ended:#?}");
    let origin = origin.trim_end_matches('/');
    for missing in ["cookie 127.0.0.1:mark: it is not there", &format!("origin {origin}: it keeps nothing")] {
        assert!(ended.stderr.contains(missing), "{ended:#?}");
    }
}
