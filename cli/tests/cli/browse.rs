//! These tests read single files of a snapshot, without a mount and without a restore.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::test_host::{TestHost, files, noise};

/// Two snapshots: the second has another `note`, and no `Default/History` any more.
fn stored() -> TestHost {
    let host = TestHost::new();
    let udd = |name: &str| host.path("udd").join(name);
    fs::write(udd("note"), "first\n").unwrap();
    fs::write(udd("Default/binary"), noise(200_000)).unwrap();
    fs::hard_link(udd("Default/binary"), udd("Default/twin")).unwrap();
    fs::hard_link(udd("Default/binary"), udd("third")).unwrap();
    fs::set_permissions(udd("note"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("note", udd("link")).unwrap();
    fs::write(host.path("udd").join(OsStr::from_bytes(b"odd\n\x1b[31m\xff")), "odd").unwrap();
    let hole = fs::File::create(udd("holes")).unwrap();
    hole.set_len(3 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&hole, &noise(50_000), 1 << 20).unwrap();
    // A file that is open for writing keeps its directory from being captured.
    drop(hole);
    host.ok("snapshot udd acme/alice");
    fs::write(udd("note"), "second\n").unwrap();
    fs::remove_file(udd("Default/History")).unwrap();
    host.ok("snapshot udd acme/alice");
    host
}

fn packs(host: &TestHost) -> Vec<PathBuf> {
    let packs = host.path(".local/share/pstore/store/objects/content/acme/packs");
    fs::read_dir(packs).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn bytes(host: &TestHost, line: &str) -> Vec<u8> {
    let output = host.command(line).output().unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn the_names_of_any_snapshot_are_listed() {
    let host = stored();
    let names = host.ok("ls acme/alice");
    let expected = ["Default/", "Last Version", "holes", "link", "note", r#""odd\n\u{1b}[31m\xff""#, "third"];
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
    assert_eq!(host.ok("ls acme/alice Default"), "Preferences\nbinary\ntwin\n");
    assert_eq!(host.ok("ls acme/alice@latest~1 ./Default/"), "History\nPreferences\nbinary\ntwin\n");
    assert_eq!(host.ok("ls acme/alice Default/twin"), "twin\n");
    assert!(host.ok("ls acme/alice -R").lines().any(|line| line == "Default/binary"));
    let long = host.ok("ls acme/alice -l");
    let line = |name: &str| {
        let mut lines = long.lines().filter(|line| line.contains(&format!("  {name}")));
        lines.next().unwrap_or_else(|| panic!("{long}"))
    };
    assert!(line("note").starts_with("-rw-r-----") && line("note").contains("7 B"), "{long}");
    assert!(line("link ->").starts_with("lrwxrwxrwx") && line("link ->").ends_with("link -> note"), "{long}");
    assert!(line("third").starts_with("-rw-r--r--") && line("third").contains("195.3 KiB"), "{long}");
    host.run("ls acme/alice Default/History")
        .refused(3, &["Default/History in snapshot", "does not exist", "`pstore ls acme/alice@", "-R`"]);
    host.run("ls acme/alice ../etc").refused(2, &["no path in a snapshot", "Default/Cookies"]);
}

#[test]
fn documents_about_names_lose_nothing() {
    let host = stored();
    let listed = host.json("ls acme/alice");
    let entries = listed["entries"].as_array().unwrap();
    let entry = |path: &str| entries.iter().find(|entry| entry["path"] == path).unwrap().clone();
    assert_eq!(entry("odd\n\u{1b}[31m\u{fffd}")["path_hex"], "6f64640a1b5b33316dff");
    assert_eq!((&entry("link")["kind"], &entry("link")["target"]), (&json!("symlink"), &json!("note")));
    assert_eq!((&entry("note")["size_bytes"], &entry("note")["mode"]), (&json!(7), &json!(0o640)));
    assert_eq!(entry("third")["target"], "Default/binary");
    assert_eq!(entry("Default")["size_bytes"], Value::Null);
}

#[test]
fn one_file_comes_out_byte_by_byte() {
    let host = stored();
    assert_eq!(host.ok("cat acme/alice note"), "second\n");
    assert_eq!(host.ok("cat acme/alice@latest~1 note"), "first\n");
    for name in ["Default/binary", "Default/twin", "third", "holes"] {
        let expected = fs::read(host.path("udd").join(name)).unwrap();
        assert!(bytes(&host, &format!("cat acme/alice {name}")) == expected, "{name}");
    }
    assert_eq!(bytes(&host, "cat acme/alice@latest~1 Default/History"), noise(300_000));
    host.run("cat acme/alice Default").refused(2, &["is a directory", "`pstore ls acme/alice@"]);
    host.run("cat acme/alice link").refused(2, &["is a symbolic link to note"]);
    host.run("cat acme/alice nothing").refused(3, &["nothing in snapshot", "`pstore ls acme/alice@"]);
    host.run("cat acme/alice note --json").refused(2, &["no room for --json"]);
    // Whoever reads may stop at any time.
    let mut head = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_pstore");
    head.args(["-c", &format!("{program} cat acme/alice holes | head -c 10 | wc -c")]);
    let first = head.env_clear().env("HOME", host.path("")).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&first.stdout).trim(), "10", "{first:?}");
    assert_eq!(String::from_utf8_lossy(&first.stderr), "");
}

#[test]
fn only_what_is_asked_for_is_read() {
    let host = stored();
    // All content is gone; what is in the tree itself is not.
    packs(&host)
        .iter()
        .filter(|pack| !pack.to_string_lossy().ends_with("-meta"))
        .for_each(|pack| fs::remove_file(pack).unwrap());
    assert_eq!(host.ok("cat acme/alice note --no-cache"), "second\n");
    host.ok("ls acme/alice -R -l --no-cache");
    host.ok("find acme/alice * --all --no-cache");
    host.ok("restore acme/alice out --path note --no-cache");
    host.run("cat acme/alice Default/binary --no-cache").refused(10, &["is damaged"]);
    assert_eq!(fs::read_to_string(host.path("out/note")).unwrap(), "second\n");
}

#[test]
fn damage_is_never_written_out() {
    let host = stored();
    let pack = packs(&host).into_iter().filter(|pack| !pack.to_string_lossy().ends_with("-meta"));
    for pack in pack {
        let mut bytes = fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[..middle].iter_mut().for_each(|byte| *byte ^= 1);
        fs::remove_file(&pack).unwrap();
        fs::write(&pack, bytes).unwrap();
    }
    let ran = host.command("cat acme/alice Default/binary --no-cache").output().unwrap();
    assert_eq!(ran.status.code(), Some(10), "{ran:?}");
    assert!(noise(200_000).starts_with(&ran.stdout));
}

#[test]
fn some_paths_are_restored_in_their_place() {
    let host = stored();
    let report = host.json("restore acme/alice@latest~1 --path Default/History --path ./note out");
    assert_eq!((&report["outcome"], &report["files"]), (&json!("restored"), &json!(2)));
    let found: Vec<PathBuf> = files(&host.path("out")).into_iter().map(|(path, _)| path).collect();
    assert_eq!(found, [Path::new("Default/History"), Path::new("note")]);
    assert_eq!(fs::read(host.path("out/note")).unwrap(), b"first\n");
    host.ok("restore acme/alice --path Default whole");
    assert_eq!(files(&host.path("whole/Default")), files(&host.path("udd/Default")));
    assert_eq!(fs::read_dir(host.path("whole")).unwrap().count(), 1);
    // A hard link whose file is elsewhere becomes the file.
    host.ok("restore acme/alice --path third --path Default/twin links");
    assert_eq!(fs::read(host.path("links/third")).unwrap(), noise(200_000));
    assert_eq!(fs::read(host.path("links/Default/twin")).unwrap(), noise(200_000));
    assert!(!host.path("links/Default/binary").exists());
    host.run("restore acme/alice --path note --path History never")
        .refused(3, &["History in snapshot", "does not exist", "`pstore ls acme/alice@"]);
    assert!(!host.path("never").exists());
    host.run("restore acme/alice --path note --require never").refused(2, &["whole profiles"]);
}

#[test]
fn files_are_found_by_name_in_one_snapshot_or_in_all() {
    let host = stored();
    assert_eq!(host.ok("find acme/alice H*"), "");
    assert_eq!(host.ok("find acme/alice@latest~1 H*"), "Default/History\n");
    assert_eq!(host.ok("find acme/alice Default/**"), "Default/Preferences\nDefault/binary\nDefault/twin\n");
    assert_eq!(host.ok("find acme/alice odd*"), "\"odd\\n\\u{1b}[31m\\xff\"\n");
    let all = host.json("find acme/alice [Hn][io][st]* --all");
    assert_eq!(all["snapshots"], 2);
    let matches: Vec<(&str, u64)> = all["matches"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| (found["path"].as_str().unwrap(), found["size_bytes"].as_u64().unwrap()))
        .collect();
    assert_eq!(matches, [("Default/History", 300_000), ("note", 6), ("note", 7)]);
    let table = host.ok("find acme/alice note --all");
    assert_eq!(table.lines().count(), 3, "{table}");
    host.run("find acme/alice nobody").refused(0, &["nothing in snapshot", "is like nobody"]);
    host.run("find acme/alice@latest note --all").refused(2, &["--all looks at all snapshots"]);
}

/// Reading leaves nothing behind that keeps a collection from its work.
#[test]
fn nothing_stays_pinned() {
    let host = stored();
    for line in [
        "ls acme/alice",
        "cat acme/alice Default/binary",
        "find acme/alice * --all",
        "restore acme/alice --path note out",
    ] {
        bytes(&host, line);
    }
    let pins = host.path(".local/share/pstore/store/objects/content/acme/pins");
    let left = fs::read_dir(pins).map_or(0, |entries| entries.count());
    assert_eq!(left, 0);
}
