//! What is expected of a profile, in the files of a real Chromium.

use std::fs;

use tests::{
    chromium::{Chromium, Site},
    desk::Desk,
};

const ALICE: &str = "acme/alice";

#[test]
fn a_login_that_chromium_lost_is_noticed_in_cookies_and_in_local_storage() {
    let desk = Desk::local();
    let site = Site::start();
    let chromium = Chromium::start(&desk.profile);
    site.leave(&mut chromium.devtools(), "logged-in");
    chromium.close();
    desk.keep(ALICE, &[]);
    let origin = site.url();
    desk.host.succeed(["expect", ALICE, "--cookie", "127.0.0.1:mark", "--origin", &origin]);
    // Local Storage alone has it, too.
    fs::remove_dir_all(desk.profile.join("Default/IndexedDB")).unwrap();
    let stored = desk.keep(ALICE, &[]);
    assert_eq!(stored["pointer"], "flipped", "{stored:#}");

    let chromium = Chromium::start(&desk.profile);
    chromium.devtools().open(&origin).evaluate("localStorage.clear(); document.cookie = 'mark=; max-age=0'");
    chromium.close();
    let ended = desk.snapshot(ALICE, &["--allow-shrink"]);
    assert_eq!((ended.code, &ended.document["held_back"]), (Some(29), &"logged out".into()), "{ended:#?}");
    let origin = origin.trim_end_matches('/');
    for missing in ["cookie 127.0.0.1:mark: it is not there", &format!("origin {origin}: it keeps nothing")] {
        assert!(ended.stderr.contains(missing), "{ended:#?}");
    }
}
