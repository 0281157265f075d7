//! These tests damage the profile of a real Chromium, or take its cookies away: its snapshot is held back.

use std::{fs, path::Path};

use serde_json::Value;
use tests::{
    chromium::{Chromium, Site},
    profile_fixture::{ProfileFixture, advised},
};

use super::profile::{ALICE, browse};

/// What can befall a database, by the name of the profile it befalls.
fn damage(profile: &Path, what: &str) {
    let default = profile.join("Default");
    let find = |folder: &str, fits: &dyn Fn(&str) -> bool| {
        let entries = fs::read_dir(default.join(folder)).unwrap().flatten();
        let found = entries.filter(|entry| fits(entry.file_name().to_str().unwrap()));
        found.map(|entry| entry.path()).max_by_key(|path| path.metadata().unwrap().len()).unwrap()
    };
    match what {
        "flipped" => {
            let path = default.join("Cookies");
            let mut bytes = fs::read(&path).unwrap();
            // The kind of the second page.
            let at = usize::from(u16::from_be_bytes([bytes[16], bytes[17]]));
            bytes[at] ^= 0x04;
            fs::write(path, bytes).unwrap();
        }
        "truncated" => {
            let path = default.join("History");
            let bytes = fs::read(&path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        }
        "torn" => {
            let path = find("Local Storage/leveldb", &|name| name.ends_with(".log"));
            let mut bytes = fs::read(&path).unwrap();
            // In the first record, with others behind it.
            bytes[9] ^= 0xff;
            fs::write(path, bytes).unwrap();
        }
        "missing" => {
            let path = find("Local Storage/leveldb", &|name| name.starts_with("MANIFEST"));
            fs::remove_file(path).unwrap();
        }
        _ => unreachable!(),
    }
}

#[test]
fn a_damaged_profile_is_held_back_and_never_loaded() {
    let fixture = ProfileFixture::local();
    let site = Site::start();
    browse(&fixture, &site, "one");
    let chromium = Chromium::start(&fixture.profile);
    for number in 0..30 {
        chromium.devtools().set_cookie(&format!("cookie-{number}"), &"value".repeat(50));
    }
    site.leave(&mut chromium.devtools(), "two");
    chromium.close();
    let (whole, major) = (fixture.path("whole"), fixture.major());
    fs::rename(&fixture.profile, &whole).unwrap();
    let copy = || {
        fs::remove_dir_all(&fixture.profile).ok();
        let status = std::process::Command::new("cp").arg("-a").args([&whole, &fixture.profile]).status();
        assert!(status.unwrap().success());
    };
    let out = fixture.path("out");
    let target = out.to_str().unwrap();
    for what in ["flipped", "truncated", "torn", "missing"] {
        let name = format!("acme/{what}");
        copy();
        let good = fixture.keep(&name, &[]);
        damage(&fixture.profile, what);

        let ended = fixture.snapshot(&name, &[]);
        assert_eq!(
            (ended.code, &ended.document["held_back"]),
            (Some(29), &"damaged".into()),
            "{what} {ended:#?}"
        );
        let current = || fixture.host.succeed(["show", &name])["record"].clone();
        assert_eq!(current(), good["record"], "{what}");
        fixture.host.succeed(advised(&ended));
        assert_eq!(current(), ended.document["record"], "{what}");

        let again = format!("acme/{what}-again");
        fixture.keep(&again, &["--allow-damaged"]);
        for name in [&name, &again] {
            let restore = ["restore", name, target, "--chrome-major", &major];
            let error = fixture.host.fail(33, [&restore[..], &["--require"]].concat());
            assert_eq!(error["kind"], "integrity_failed");
            assert!(!out.exists());
            let loaded = fixture.host.run(restore);
            assert_eq!(loaded.code, Some(0), "{loaded:#?}");
            assert_eq!(loaded.document["outcome"], "integrity_failed", "{what} {loaded:#?}");
            assert!(loaded.stderr.contains("starting with an empty profile"), "{loaded:#?}");
            let left: Vec<_> = fs::read_dir(&out).unwrap().flatten().map(|entry| entry.file_name()).collect();
            assert_eq!(left, [".pstore-load"]);
            if name == &again {
                let before = fixture.host.succeed(["show", name])["record"].clone();
                fs::write(out.join("Last Version"), format!("{major}.0.0.0")).unwrap();
                let snapshot = ["snapshot", target, name, "--chrome-major", &major, "--allow-shrink"];
                let ended = fixture.host.run(snapshot);
                assert_eq!(
                    (ended.code, &ended.document["held_back"]),
                    (Some(29), &"fallback".into()),
                    "{ended:#?}"
                );
                assert_eq!(fixture.host.succeed(["show", name])["record"], before);
                assert!(out.join(".pstore-load").exists());
                let replaced = fixture.host.succeed([&snapshot[..], &["--replace-after-fallback"]].concat());
                assert_eq!(replaced["pointer"], "flipped", "{replaced:#}");
                assert!(!out.join(".pstore-load").exists());
            }
            fs::remove_dir_all(&out).unwrap();
        }
    }
}

#[test]
fn a_profile_that_lost_most_cookies_is_held_back() {
    let fixture = ProfileFixture::local();
    fixture.fill(100);
    let good = fixture.keep(ALICE, &[]);
    assert_eq!(good["cookies"], 100);
    let leave = |count: u32| {
        let database = rusqlite::Connection::open(fixture.profile.join("Default/Cookies")).unwrap();
        let sql = "DELETE FROM cookies WHERE rowid NOT IN (SELECT rowid FROM cookies LIMIT ?1)";
        database.execute(sql, [count]).unwrap();
    };
    leave(50);
    assert_eq!(fixture.keep(ALICE, &[])["cookies"], 50);
    leave(24);
    let ended = fixture.snapshot(ALICE, &[]);
    assert_eq!((ended.code, &ended.document["held_back"]), (Some(29), &"shrunk".into()), "{ended:#?}");
    assert!(ended.stderr.contains("26 of 50 cookies are gone"), "{ended:#?}");
    let flipped = fixture.keep(ALICE, &["--allow-shrink"]);
    assert_eq!((&flipped["cookies"], &flipped["held_back"]), (&24.into(), &Value::Null));
}

#[test]
fn a_mount_whose_cookies_were_deleted_is_held_back() {
    let fixture = ProfileFixture::local();
    fixture.fill(100);
    let (place, major) = (fixture.path("mount"), fixture.major());
    fs::create_dir(&place).unwrap();
    let shown = place.to_str().unwrap();
    for (name, lost) in [("acme/file", "Default/Cookies"), ("acme/folder", "Default")] {
        let good = fixture.keep(name, &[]);
        fixture.host.succeed(["mount", name, shown, "--chrome-major", &major]);
        let path = place.join(lost);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        let ended = fixture.host.run(["commit", shown]);
        fixture.host.run(["unmount", shown, "--discard"]);
        assert_eq!(
            (ended.code, &ended.document["held_back"]),
            (Some(29), &"shrunk".into()),
            "{lost} {ended:#?}"
        );
        assert!(ended.stderr.contains("100 of 100 cookies are gone"), "{lost} {ended:#?}");
        assert_eq!(fixture.host.succeed(["show", name])["record"], good["record"], "{lost}");
    }
}
