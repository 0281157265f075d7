//! These tests store set-id bits and attributes that lend rights: whoever restores, imports or mounts a snapshot
//! lends nobody theirs.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use rustix::{
    fs::{lgetxattr, llistxattr},
    io::Errno,
};
use store::archive::header::{Header, MemberKind};
use tests::{
    forge::Forge,
    mount_fixture::{ALICE, MountFixture},
    tarball::Tarball,
};

const CAPABILITY: &str = "security.capability";
/// `cap_setuid=ep`, as the kernel keeps it.
const SETUID: [u8; 20] = [1, 0, 0, 2, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const NOBODY: u32 = 65534;

/// A tenant's snapshot: a program that is set-user-id and one with a capability, in a directory that
/// is set-group-id.
fn forged() -> MountFixture {
    let fixture = MountFixture::local();
    let source = fixture.path("source");
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Last Version"), "131.0.6778.85").unwrap();
    fs::copy("/usr/bin/id", source.join("id")).unwrap();
    fs::copy("/usr/bin/setpriv", source.join("setpriv")).unwrap();
    for program in ["id", "setpriv"] {
        fs::set_permissions(source.join(program), Permissions::from_mode(0o755)).unwrap();
    }
    fixture.host.snapshot(&source, ALICE);
    let mut forge = Forge::of(&fixture.path("store"), "acme/alice/131");
    let mut entries = forge.entries.clone();
    for entry in &mut entries {
        match entry.path.as_bytes() {
            b"id" => entry.meta.mode = 0o6755,
            b"setpriv" => {
                let value = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
                entry.meta.xattrs = vec![
                    value(CAPABILITY, &SETUID),
                    value("trusted.overlay.opaque", b"y"),
                    value("user.kept", b"1"),
                ];
            }
            b"Default" => entry.meta.mode = 0o3777,
            _ => entry.meta.mode = 0o755,
        }
    }
    forge.write(&entries);
    // Another user can look into it.
    for place in [fixture.path("."), fixture.path("store").parent().unwrap().to_owned()] {
        fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
    }
    fixture
}

/// Runs a program as a user that has nothing, and returns what it printed.
fn as_nobody(program: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups"]);
    let ran = command.arg(program).args(arguments).output().unwrap();
    String::from_utf8(ran.stdout).unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let mut list = [0; 4096];
    let len = llistxattr(path, &mut list[..]).unwrap();
    let names = list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8(name.to_vec()).unwrap()).collect()
}

#[track_caller]
fn assert_plain(root: &Path) {
    for name in ["", "Default", "id", "setpriv"] {
        let mode = fs::metadata(root.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode & 0o6000, 0, "{name:?} has mode {mode:o}");
    }
    assert_eq!(names(&root.join("setpriv")), ["user.kept"]);
    assert!(names(&root.join("id")).is_empty());
}

/// Nobody becomes anybody else by what is there.
#[track_caller]
fn assert_lends_nothing(root: &Path) {
    assert_eq!(as_nobody(&root.join("id"), &["-u"]).trim(), NOBODY.to_string(), "set-user-id is in force");
    assert_eq!(as_nobody(&root.join("id"), &["-g"]).trim(), NOBODY.to_string(), "set-group-id is in force");
    let raised = as_nobody(&root.join("setpriv"), &["--reuid=0", "/usr/bin/id", "-u"]);
    assert_eq!(raised.trim(), "", "a capability is in force");
}

#[test]
fn what_root_restores_lends_nobody_its_rights() {
    let fixture = forged();
    let out = fixture.path("out");
    let document = fixture.host.restore(ALICE, &out);
    assert_plain(&out);
    assert_lends_nothing(&out);
    let warnings = document["warnings"].to_string();
    assert!(
        warnings.contains("3 files or directories") && warnings.contains("--preserve-special"),
        "{warnings}"
    );
    // Nor loaded for a Chrome, with the owners it says it had.
    let loaded = fixture.path("loaded");
    let loaded_at = loaded.to_str().unwrap();
    let load = ["restore", ALICE, loaded_at, "--chrome-major", "131", "--same-owner"];
    let document = fixture.host.succeed(load);
    assert!(document["warnings"].to_string().contains("--preserve-special"), "{document:#}");
    assert_plain(&loaded);
    assert_lends_nothing(&loaded);
}

#[test]
fn what_is_exported_and_imported_lends_nobody_rights() {
    let fixture = forged();
    let (archives, out) = (fixture.path("archives"), fixture.path("out"));
    let exported = fixture.host.succeed(["export", ALICE, "-o", archives.to_str().unwrap()]);
    let archive = exported["archive"].as_str().unwrap();
    // Nor does it when root unpacks it with another program that keeps whatever it finds.
    let unpacked = fixture.place("unpacked");
    let tar = "tar --zstd --xattrs --xattrs-include='*' -p --same-owner -xf \"$0\" -C \"$1\"";
    let ran = Command::new("sh").args(["-c", tar, archive, unpacked.to_str().unwrap()]).status().unwrap();
    assert!(ran.success());
    assert_plain(&unpacked);
    assert_lends_nothing(&unpacked);
    // It is what a restore writes, to the last bit of a mode.
    let restored = fixture.path("restored");
    fixture.host.restore(ALICE, &restored);
    for name in ["Default", "id", "setpriv"] {
        let mode = |root: &Path| fs::metadata(root.join(name)).unwrap().mode() & 0o7777;
        assert_eq!(mode(&unpacked), mode(&restored), "{name}");
    }
    fixture.host.succeed(["import", archive, "acme/again", "--chrome-major", "131"]);
    // Not even what is stored of it does.
    let stored = Forge::of(&fixture.path("store"), "acme/again/131");
    assert!(stored.entries.iter().all(|entry| !entry.meta.is_special()), "{:#?}", stored.entries);
    fixture.host.restore("acme/again", &out);
    assert_plain(&out);
    assert_lends_nothing(&out);
}

#[test]
fn an_archive_of_somebody_elses_lends_nobody_rights() {
    let fixture = MountFixture::local();
    let content = fs::read("/usr/bin/id").unwrap();
    let header = Header { mode: 0o6755, size: content.len() as u64, ..Header::new("./id", MemberKind::File) };
    let archive = Tarball::new()
        .directory("./")
        .pax(&[("SCHILY.xattr.security.capability", &SETUID), ("SCHILY.xattr.user.kept", b"1")])
        .member(&header, &content);
    fs::write(fixture.path("a.tar.zst"), archive.end().zstd()).unwrap();
    let archive = fixture.path("a.tar.zst");
    fixture.host.succeed(["import", archive.to_str().unwrap(), ALICE, "--chrome-major", "131"]);
    let stored = Forge::of(&fixture.path("store"), "acme/alice/131");
    assert!(stored.entries.iter().all(|entry| !entry.meta.is_special()), "{:#?}", stored.entries);
    let out = fixture.path("out");
    fixture.host.restore(ALICE, &out);
    assert_eq!(fs::metadata(out.join("id")).unwrap().mode() & 0o7777, 0o755);
    assert_eq!(names(&out.join("id")), ["user.kept"]);
}

#[test]
fn what_is_mounted_lends_nobody_rights() {
    let fixture = forged();
    for more in [&["--read-only", "--allow-other"][..], &["--allow-other"]] {
        fixture.mount_as(&fixture.host, more);
        assert_plain(&fixture.mountpoint);
        let path = fixture.mountpoint.join("setpriv");
        assert_eq!(lgetxattr(&path, CAPABILITY, &mut [0; 64][..]), Err(Errno::NODATA));
        assert_lends_nothing(&fixture.mountpoint);
        // Nor does a copy that root makes of it.
        let copy = fixture.path(&format!("copy-{}", more.len()));
        let copied = Command::new("cp").arg("-a").arg(&fixture.mountpoint).arg(&copy).status().unwrap();
        assert!(copied.success());
        assert_plain(&copy);
        assert_lends_nothing(&copy);
        fixture.unmount(&["--discard"]);
    }
}

#[test]
fn what_lends_rights_is_kept_for_whoever_asks_and_had_it() {
    let fixture = forged();
    let (out, owned) = (fixture.path("out"), fixture.path("owned"));
    let at = |path: &Path| path.to_str().unwrap().to_owned();
    fixture.host.succeed(["restore", ALICE, &at(&out), "--preserve-special"]);
    assert_eq!(fs::metadata(out.join("id")).unwrap().mode() & 0o7777, 0o6755);
    assert_eq!(fs::metadata(out.join("Default")).unwrap().mode() & 0o7777, 0o3777);
    let mut kept = names(&out.join("setpriv"));
    kept.retain(|name| name != "trusted.overlay.opaque");
    kept.sort();
    assert_eq!(kept, [CAPABILITY, "user.kept"]);
    // It was somebody else's: it must not lend the rights of whoever restores it.
    let mut forge = Forge::of(&fixture.path("store"), "acme/alice/131");
    let mut entries = forge.entries.clone();
    entries.iter_mut().for_each(|entry| (entry.meta.uid, entry.meta.gid) = (1234, 1234));
    forge.write(&entries);
    let error = fixture.host.fail(2, ["restore", ALICE, &at(&owned), "--preserve-special"]);
    assert!(error["message"].as_str().unwrap().contains("1234:1234"), "{error:#}");
    assert!(!owned.exists());
    fixture.host.succeed(["restore", ALICE, &at(&owned), "--preserve-special", "--same-owner"]);
    let found = fs::metadata(owned.join("id")).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (1234, 0o6755));
}
