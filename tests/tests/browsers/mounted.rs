//! A real Chromium on a mount, from one host to the next.

use tests::{
    chromium::{Chromium, Site},
    mount::{ALICE, MountDesk},
    server::SeaweedFs,
};

fn browse(desk: &MountDesk, site: &Site, before: Option<&str>, mark: &str) {
    let chromium = Chromium::start(&desk.mountpoint);
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
    let desk = MountDesk::s3(&server.config());
    let site = Site::start();
    let (major, place) = (Chromium::major(), desk.mountpoint.to_str().unwrap());
    let mut before = None;
    for generation in 0..5 {
        let name = format!("host-{generation}");
        let host = desk.another(&name);
        let mount = ["mount", ALICE, place, "--chrome-major", &major, "--host", &name];
        let mounted = host.succeed(mount);
        assert_eq!(mounted["fallback"], serde_json::Value::Null, "{mounted:#}");
        let mark = format!("generation-{generation}");
        browse(&desk, &site, before.as_deref(), &mark);
        if generation == 3 {
            // Closed, and not committed.
            desk.kill(&mounted);
            let again = host.succeed(mount);
            assert_eq!((&again["resumed"], &again["session"]), (&true.into(), &mounted["session"]));
        }
        let committed = host.succeed(["commit", place]);
        assert_eq!((&committed["outcome"], &committed["pointer"]), (&"stored".into(), &"flipped".into()));
        assert_eq!(committed["databases_damaged"], 0, "{committed:#}");
        host.succeed(["unmount", place]);
        before = Some(mark);
    }
    let host = desk.another("the last");
    host.verify(ALICE, &["--read-data"]);
    host.succeed(["mount", "--read-only", ALICE, place]);
    let read_only = std::fs::write(desk.mountpoint.join("x"), "");
    assert!(read_only.is_err());
    host.succeed(["unmount", place]);
}

#[test]
fn a_browser_that_runs_is_closed_by_the_commit_and_loses_nothing() {
    let desk = MountDesk::local();
    let site = Site::start();
    let (major, place) = (Chromium::major(), desk.mountpoint.to_str().unwrap().to_owned());
    desk.host.succeed(["mount", ALICE, &place, "--chrome-major", &major]);
    let chromium = Chromium::start(&desk.mountpoint);
    site.leave(&mut chromium.devtools(), "kept");
    desk.host.fail(32, ["commit", &place, "--no-stop"]);
    assert!(chromium.runs());
    desk.host.succeed(["unmount", &place, "--commit"]);
    assert!(!chromium.runs());

    desk.host.succeed(["mount", ALICE, &place]);
    let chromium = Chromium::start(&desk.mountpoint);
    assert_eq!(site.find(&mut chromium.devtools()), Site::all("kept"));
    chromium.close();
    desk.host.succeed(["unmount", &place, "--discard"]);
}
