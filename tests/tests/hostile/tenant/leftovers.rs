//! These tests have pstore write into a directory that it has filled: never through a link that came with the
//! snapshot.

use std::{fs, path::PathBuf};

use serde_json::Value;
use tests::{
    forge::{
        Forge,
        tree::{directory, file, symlink},
    },
    mount_fixture::{ALICE, MountFixture},
    tree::look_at,
};

const MARKER: &str = ".pstore-load";
const CRASHED: &str = r#"{"profile":{"exit_type":"Crashed"}}"#;

/// A snapshot whose browser had crashed, with a marker that leads out of it; and what it leads to.
fn forged(marker: &str) -> (MountFixture, PathBuf) {
    let fixture = MountFixture::local();
    let (source, outside) = (fixture.path("source"), fixture.path("outside"));
    for folder in [&source, &outside] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(source.join("Last Version"), "131.0.6778.85").unwrap();
    for name in ["file", "Preferences", "SingletonLock"] {
        fs::write(outside.join(name), CRASHED).unwrap();
    }
    fixture.host.snapshot(&source, ALICE);
    let lead = |name: &str| outside.join(name).to_str().unwrap().to_owned();
    let mut entries = vec![directory("")];
    match marker {
        "link" => entries.push(symlink(MARKER, &lead("file"))),
        "folder" => entries.extend([directory(MARKER), symlink(&format!("{MARKER}/x"), &lead("file"))]),
        content => entries.push(file(MARKER, content.as_bytes())),
    }
    entries.extend([
        directory("Default"),
        file("Default/Preferences", CRASHED.as_bytes()),
        file("Last Version", b"131.0.6778.85"),
        symlink("Profile 1", outside.to_str().unwrap()),
        directory("Profile 2"),
        symlink("Profile 2/Preferences", &lead("Preferences")),
        symlink("SingletonLock", &lead("SingletonLock")),
    ]);
    Forge::of(&fixture.path("store"), "acme/alice/131").write(&entries);
    (fixture, outside)
}

const MARKERS: [&str; 3] = ["link", "folder", r#"{"fallback":"sha_mismatch"}"#];

#[test]
fn a_load_writes_through_no_link_of_the_snapshot() {
    for marker in MARKERS {
        let (fixture, outside) = forged(marker);
        let before = look_at(&outside);
        let out = fixture.path("out");
        let load = [
            "restore",
            ALICE,
            out.to_str().unwrap(),
            "--chrome-major",
            "131",
            "--normalise-exit",
            "--require",
        ];
        let document = fixture.host.succeed(load);
        assert_eq!(look_at(&outside), before, "something outside was written");
        assert_eq!(document["transforms"], serde_json::json!(["normalise-exit"]));
        let warnings = document["warnings"].to_string();
        assert!(warnings.contains(".pstore-load came with the snapshot"), "{warnings}");
        let written = fs::symlink_metadata(out.join(MARKER)).unwrap();
        assert!(written.is_file(), "the marker is {written:?}");
        let marker: Value = serde_json::from_slice(&fs::read(out.join(MARKER)).unwrap()).unwrap();
        assert_eq!(marker, serde_json::json!({ "transforms": ["normalise-exit"] }));
        assert!(fs::symlink_metadata(out.join("SingletonLock")).is_err());
        // What is loaded as it is has none.
        let plain = fixture.path("plain");
        fixture.host.restore(ALICE, &plain);
        assert!(fs::symlink_metadata(plain.join(MARKER)).is_err());
        assert_eq!(look_at(&outside), before, "something outside was written");
    }
}

#[test]
fn a_mount_writes_through_no_link_of_the_snapshot() {
    for marker in MARKERS {
        let (fixture, outside) = forged(marker);
        let before = look_at(&outside);
        fixture.mount_as(&fixture.host, &["--normalise-exit", "--require"]);
        assert_eq!(look_at(&outside), before, "something outside was written");
        let written = fs::symlink_metadata(fixture.mountpoint.join(MARKER)).unwrap();
        assert!(written.is_file(), "the marker is {written:?}");
        fixture.commit();
        assert_eq!(look_at(&outside), before, "something outside was written");
        fixture.unmount(&["--discard"]);
        let stored = Forge::of(&fixture.path("store"), "acme/alice/131");
        let is_marker = |path: &[u8]| path.starts_with(MARKER.as_bytes());
        assert!(!stored.entries.iter().any(|entry| is_marker(entry.path.as_bytes())), "it was captured");
    }
}
