//! These tests start a newer Chrome from an older one's snapshot if that is asked for, never the other way, and the
//! older one's stay.

use std::fs;

use serde_json::Value;
use tests::{binary::Ended, mount_fixture::ALICE};

use super::RunDesk;

fn run(fixture: &RunDesk, major: &str, options: &[&str], script: &str) -> Ended {
    let command = ["--", "sh", "-c", script, "{profile}"];
    fixture.host.run([&["run", ALICE, "--chrome-major", major], options, &command].concat())
}

#[track_caller]
fn kept(ended: Ended) -> Value {
    assert_eq!((ended.code, &ended.document["snapshot_failed"]), (Some(0), &false.into()), "{ended:#?}");
    assert_eq!(ended.document["load"], "success", "{ended:#?}");
    ended.document
}

/// The record of the current snapshot of this Chrome.
fn shown(fixture: &RunDesk, major: &str) -> Value {
    fixture.host.succeed(["show", ALICE, "--chrome-major", major])
}

#[test]
fn a_newer_chrome_starts_from_an_older_ones_snapshot_which_stays() {
    for how in [&[][..], &["--copy"]] {
        let fixture = RunDesk::new();
        fixture.succeed("echo of 131 > $0/file");
        let older = shown(&fixture, "131");
        let options = [&["--upgrade-from", "131"], how].concat();
        // Also if nothing is changed in it.
        let first = kept(run(&fixture, "132", &options, "grep -q 131 $0/file"));
        let told = first["warnings"].as_array().unwrap().iter();
        assert!(told.clone().any(|said| said.as_str().unwrap().contains("of Chrome 131")), "{first:#}");
        let newer = shown(&fixture, "132");
        let expected = format!("upgraded-from-131/{}", older["record"].as_str().unwrap());
        assert_eq!(newer["transforms"], serde_json::json!([expected]), "{newer:#}");
        // From now on it has snapshots of its own.
        kept(run(&fixture, "132", &options, "echo of 132 > $0/file"));
        kept(run(&fixture, "132", how, "grep -q 132 $0/file"));
        assert_eq!(shown(&fixture, "132")["transforms"], serde_json::json!([]));
        assert_eq!(shown(&fixture, "131")["record"], older["record"]);
        kept(run(&fixture, "131", how, "grep -q 131 $0/file"));
    }
}

#[test]
fn an_upgrade_that_was_cut_short_goes_on_and_leaves_no_session_of_the_older_chrome_behind() {
    let fixture = RunDesk::new();
    fixture.succeed("echo of 131 > $0/file");
    let place = fixture.fixture.mountpoint.to_str().unwrap();
    let mount = ["mount", ALICE, place, "--chrome-major", "132", "--upgrade-from", "131"];
    let mounted = fixture.host.succeed(mount);
    fs::write(fixture.fixture.mountpoint.join("file"), "of 132").unwrap();
    fixture.fixture.kill(&mounted);
    assert_eq!(fixture.host.succeed(mount)["resumed"], true);
    fixture.host.succeed(["unmount", place, "--commit"]);
    assert_eq!(shown(&fixture, "132")["transforms"].as_array().unwrap().len(), 1);

    let mounted = fixture.host.succeed(["mount", ALICE, place, "--chrome-major", "131"]);
    fs::write(fixture.fixture.mountpoint.join("file"), "not committed").unwrap();
    fixture.fixture.kill(&mounted);
    let next = ["mount", ALICE, place, "--chrome-major", "133", "--upgrade-from", "131"];
    let refused = fixture.host.fail(37, next);
    assert!(refused["hint"].as_str().unwrap().contains("pstore sessions rescue"), "{refused:#}");
}

#[test]
fn no_chrome_starts_from_a_newer_ones_snapshot_or_from_one_that_is_not_there() {
    let fixture = RunDesk::new();
    fixture.succeed("echo of 131 > $0/file");
    let out = fixture.fixture.path("out");
    let restore = |major: &str, from: &str| {
        let target = out.to_str().unwrap();
        fixture.host.run(["restore", ALICE, target, "--chrome-major", major, "--upgrade-from", from])
    };
    for (major, from, code) in [("130", "131", 2), ("131", "131", 2), ("133", "132", 3)] {
        for how in [&[][..], &["--copy"]] {
            let options = [&["--upgrade-from", from], how].concat();
            let refused = run(&fixture, major, &options, "true");
            assert_eq!(refused.code, Some(code), "{major} from {from}: {refused:#?}");
        }
        assert_eq!(restore(major, from).code, Some(code));
        assert!(!out.exists());
    }
    // Without a word about it nothing is loaded, and the way forward is named.
    let refused = run(&fixture, "132", &["--require"], "true");
    assert_eq!(refused.code, Some(34), "{refused:#?}");
    assert!(refused.stderr.contains("--upgrade-from 131"), "{refused:#?}");
    assert_eq!(restore("132", "131").document["outcome"], "success");
    assert_eq!(fs::read_to_string(out.join("file")).unwrap(), "of 131\n");
}

#[test]
fn a_tenant_may_have_every_newer_chrome_start_from_the_newest_older_one() {
    let fixture = RunDesk::new();
    fixture.succeed("echo of 131 > $0/file");
    kept(run(&fixture, "132", &["--upgrade-from", "131"], "echo of 132 > $0/file"));
    let rules = fixture.fixture.path("pstore.toml");
    fs::write(&rules, "[tenants.acme]\nupgrade = \"forward\"\n").unwrap();
    let host = fixture.host.clone().with("PSTORE_CONFIG", rules.to_str().unwrap());
    let forward = |major: &str, script: &str| {
        let ended = host.run(["run", ALICE, "--chrome-major", major, "--", "sh", "-c", script, "{profile}"]);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.document["load"].as_str().unwrap().to_owned()
    };
    assert_eq!(forward("140", "grep -q 132 $0/file"), "success");
    // Never the other way.
    assert_eq!(forward("130", "[ ! -e $0/file ]"), "version_mismatch");
}
