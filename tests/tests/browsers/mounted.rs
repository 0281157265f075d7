//! These tests run a real Chromium on a mount, from one host to the next.

use tests::{
    chromium::{Chromium, Site},
    mount_fixture::{ALICE, MountFixture},
    server::SeaweedFs,
};

fn browse(fixture: &MountFixture, site: &Site, before: Option<&str>, mark: &str) {
    let chromium = Chromium::start(&fixture.mountpoint);
    let mut devtools = chromium.devtools();
    if let Some(before) = before {
        assert_eq!(site.find(&mut devtools), Site::all(before));
        assert_eq!(devtools.cookie("late").as_deref(), Some(before));
    }
    site.leave(&mut devtools, mark);
    devtools.set_cookie("late", mark);
    chromium.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn five_generations_on_five_hosts_find_what_the_one_before_left() {
    let server = SeaweedFs::shared().await;
    let fixture = MountFixture::s3(&server.config());
    let site = Site::start();
    let (major, place) = (Chromium::major(), fixture.mountpoint.to_str().unwrap());
    let mut before = None;
    for generation in 0..5 {
        let name = format!("host-{generation}");
        let host = fixture.another(&name);
        let mount = ["mount", ALICE, place, "--chrome-major", &major, "--host", &name];
        let mounted = host.succeed(mount);
        assert_eq!(mounted["fallback"], serde_json::Value::Null, "{mounted:#}");
        let mark = format!("generation-{generation}");
        browse(&fixture, &site, before.as_deref(), &mark);
        if generation == 3 {
            // Closed, and not committed.
            fixture.kill(&mounted);
            let again = host.succeed(mount);
            assert_eq!((&again["resumed"], &again["session"]), (&true.into(), &mounted["session"]));
        }
        let committed = host.succeed(["commit", place]);
        assert_eq!((&committed["outcome"], &committed["pointer"]), (&"stored".into(), &"flipped".into()));
        assert_eq!(committed["databases_damaged"], 0, "{committed:#}");
        host.succeed(["unmount", place]);
        before = Some(mark);
    }
    let host = fixture.another("the last");
    host.verify(ALICE, &["--read-data"]);
    host.succeed(["mount", "--read-only", ALICE, place]);
    let read_only = std::fs::write(fixture.mountpoint.join("x"), "");
    assert!(read_only.is_err());
    host.succeed(["unmount", place]);
}

#[test]
fn a_browser_that_runs_is_closed_by_the_commit_and_loses_nothing() {
    let fixture = MountFixture::local();
    let site = Site::start();
    let (major, place) = (Chromium::major(), fixture.mountpoint.to_str().unwrap().to_owned());
    fixture.host.succeed(["mount", ALICE, &place, "--chrome-major", &major]);
    let chromium = Chromium::start(&fixture.mountpoint);
    site.leave(&mut chromium.devtools(), "kept");
    fixture.host.fail(32, ["commit", &place, "--no-stop"]);
    assert!(chromium.runs());
    fixture.host.succeed(["unmount", &place, "--commit"]);
    assert!(!chromium.runs());

    fixture.host.succeed(["mount", ALICE, &place]);
    let chromium = Chromium::start(&fixture.mountpoint);
    assert_eq!(site.find(&mut chromium.devtools()), Site::all("kept"));
    chromium.close();
    fixture.host.succeed(["unmount", &place, "--discard"]);
}

/// A snapshot of the profile as the Chrome before this one would have left it, by what it says itself.
#[test]
fn a_newer_chrome_finds_what_an_older_one_left() {
    let fixture = MountFixture::local();
    let site = Site::start();
    let (newer, source) = (Chromium::major(), fixture.path("source"));
    let older = (newer.parse::<u64>().unwrap() - 1).to_string();
    let chromium = Chromium::start(&source);
    site.leave(&mut chromium.devtools(), "left by the older one");
    chromium.close();
    std::fs::write(source.join("Last Version"), format!("{older}.0.0.0")).unwrap();
    fixture.host.succeed(["snapshot", source.to_str().unwrap(), ALICE]);

    let place = fixture.mountpoint.to_str().unwrap();
    fixture.host.fail(34, ["mount", ALICE, place, "--chrome-major", &newer, "--require"]);
    fixture.host.succeed(["mount", ALICE, place, "--chrome-major", &newer, "--upgrade-from", &older]);
    let chromium = Chromium::start(&fixture.mountpoint);
    assert_eq!(site.find(&mut chromium.devtools()), Site::all("left by the older one"));
    site.leave(&mut chromium.devtools(), "left by the newer one");
    chromium.close();
    fixture.host.succeed(["unmount", place, "--commit"]);

    let out = fixture.path("out");
    let restored = fixture.host.succeed(["restore", ALICE, out.to_str().unwrap(), "--chrome-major", &newer]);
    assert_eq!(restored["outcome"], "success", "{restored:#}");
    assert!(std::fs::read_to_string(out.join("Last Version")).unwrap().starts_with(&newer));
    // The older one's is still as it was.
    let list = fixture.host.succeed(["list", ALICE, "--chrome-major", &older]);
    assert_eq!(list["snapshots"].as_array().unwrap().len(), 1, "{list:#}");
}

#[test]
fn a_directory_is_not_taken_away_from_a_browser_that_runs_on_it() {
    let fixture = MountFixture::local();
    let source = fixture.path("source");
    let chromium = Chromium::start(&source);
    chromium.close();
    fixture.host.succeed(["snapshot", source.to_str().unwrap(), ALICE]);
    let chromium = Chromium::start(&source);
    let restore = ["restore", ALICE, source.to_str().unwrap(), "--force"];
    let refused = fixture.host.fail(32, restore);
    assert!(refused["hint"].as_str().unwrap().contains("close the browser"), "{refused:#}");
    assert!(chromium.runs() && source.join("DevToolsActivePort").exists());
    chromium.close();
    fixture.host.succeed(restore);
}
