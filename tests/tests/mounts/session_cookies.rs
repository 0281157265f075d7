//! These tests mount profiles of a tenant whose session cookies are kept.

use std::{fs, path::Path};

use rusqlite::Connection;
use serde_json::json;
use tests::mount_fixture::{ALICE, MountFixture};

const TABLE: &str = "CREATE TABLE cookies (host_key TEXT, name TEXT, value TEXT, encrypted_value BLOB,
    is_persistent INTEGER, has_expires INTEGER, expires_utc INTEGER)";

/// A profile with one session cookie.
fn filled() -> MountFixture {
    let mut fixture = MountFixture::local();
    let source = fixture.path("source");
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Local State"), "{}").unwrap();
    Connection::open(source.join("Default/Cookies")).unwrap().execute_batch(TABLE).unwrap();
    set(&source, "first");
    fixture.host.snapshot(&source, ALICE);
    fixture.host = fixture.host.clone().with("PSTORE_SESSION_COOKIES", "keep");
    fixture
}

fn set(profile: &Path, name: &str) {
    let database = Connection::open(profile.join("Default/Cookies")).unwrap();
    database.execute("INSERT INTO cookies VALUES ('a.test', ?1, '', x'763130', 0, 0, 0)", [name]).unwrap();
}

/// The names of the session cookies.
fn session_cookies(profile: &Path) -> Vec<String> {
    let database = Connection::open(profile.join("Default/Cookies")).unwrap();
    let mut found =
        database.prepare("SELECT name FROM cookies WHERE is_persistent = 0 ORDER BY name").unwrap();
    found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_session_that_was_cut_short_keeps_its_session_cookies_too() {
    let fixture = filled();
    let mounted = fixture.mount();
    assert!(session_cookies(&fixture.mountpoint).is_empty());
    set(&fixture.mountpoint, "second");
    assert_eq!(session_cookies(&fixture.mountpoint), ["second"]);
    fixture.kill(&mounted);
    fixture.mount();
    assert!(session_cookies(&fixture.mountpoint).is_empty());
    fixture.commit();
    assert_eq!(fixture.host.succeed(["show", ALICE])["transforms"], json!(["keep-session-cookies"]));
    fixture.unmount(&[]);

    // There is nothing more to change.
    fixture.mount();
    fixture.unmount(&[]);
}

#[test]
fn a_mount_that_cannot_keep_them_says_so_and_is_there() {
    let fixture = filled();
    let host = fixture.host.clone().with("TMPDIR", "/proc/none");
    let mounted = fixture.mount_as(&host, &[]);
    let warnings = mounted["warnings"].to_string();
    assert!(warnings.contains("session cookies are not kept"), "{warnings}");
    assert_eq!(session_cookies(&fixture.mountpoint), ["first"]);
    fixture.unmount(&["--discard"]);
}
