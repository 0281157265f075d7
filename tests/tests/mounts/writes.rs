//! These tests write to a mount as the kernel does it: what a write takes away beside the bytes, and what becomes of
//! bytes there is no room for.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

use tests::mount_fixture::MountFixture;

use super::files::small_disk;

/// What any user does to a file that lends its owner's rights, and what is left of its mode.
fn left_of(path: &Path, words: &[&str]) -> u32 {
    fs::write(path, "text").unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o6777)).unwrap();
    assert_eq!(fs::metadata(path).unwrap().mode() & 0o7777, 0o6777);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(words).arg(path);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn a_changed_file_lends_no_rights(how: &[&str]) {
    let fixture = MountFixture::local();
    fs::set_permissions(fixture.path(""), Permissions::from_mode(0o755)).unwrap();
    fixture.mount_as(&fixture.host, &[&["--allow-other"], how].concat());
    fs::set_permissions(&fixture.mountpoint, Permissions::from_mode(0o755)).unwrap();
    let path = fixture.mountpoint.join("file");
    let append = ["sh", "-c", "echo more >> $0"];
    for words in [&append[..], &["truncate", "-s1"], &["fallocate", "-l10"], &["fallocate", "-pl1"]] {
        assert_eq!(left_of(&path, words), 0o777, "{words:?}");
    }
    assert_eq!(left_of(&path, &["cat"]), 0o6777, "whoever reads changes nothing");

    // Whoever is root may give rights, but not what was given to another owner.
    fs::set_permissions(&path, Permissions::from_mode(0o6777)).unwrap();
    fs::write(&path, "by root").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6777);
    std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777);
    let folder = fixture.mountpoint.join("folder");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o2775)).unwrap();
    std::os::unix::fs::chown(&folder, Some(65534), None).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o7777, 0o2775, "a directory lends no rights");
    fixture.unmount(&["--discard"]);
}

#[test]
fn a_file_that_is_changed_by_others_lends_no_rights() {
    a_changed_file_lends_no_rights(&[]);
}

#[test]
fn a_file_that_is_changed_by_others_lends_no_rights_where_the_kernel_keeps_writes() {
    a_changed_file_lends_no_rights(&["--writeback"]);
}

/// The kernel does not check permissions where root is alone, and asks what root may do.
#[test]
fn root_alone_may_do_what_root_may_do_elsewhere() {
    let fixture = MountFixture::local();
    fixture.mount();
    let script = r#"
import os, sys
place = sys.argv[1]
os.chdir(place)
open('text', 'w').write('#!/bin/sh\n')
seen = []
for mode in (0, 0o600, 0o100, 0o001):
    os.chmod('text', mode)
    seen.append([os.access('text', what) for what in (os.F_OK, os.R_OK, os.W_OK, os.X_OK)])
    try:
        os.spawnv(os.P_WAIT, './text', ['text']) == 127 or seen[-1].append('runs')
    except OSError:
        pass
os.mkdir('folder', 0)
seen.append([os.access('folder', what) for what in (os.F_OK, os.R_OK, os.W_OK, os.X_OK)])
open('folder/file', 'w').close()
os.chmod('folder', 0o555)
os.remove('folder/file')
os.setegid(65534)
os.seteuid(65534)
try:
    os.listdir(place)
except PermissionError:
    seen.append('others do not get in')
print(seen)
"#;
    let said = |place: &Path| {
        let ended = Command::new("python3").args(["-c", script]).arg(place).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    fs::set_permissions(fixture.path(""), Permissions::from_mode(0o755)).unwrap();
    let (mounted, on_disk) = (said(&fixture.mountpoint), said(&fixture.place("on-disk")));
    let alike = on_disk.trim_end().trim_end_matches(']');
    assert_eq!(mounted.trim_end(), format!("{alike}], 'others do not get in']"));
    fixture.unmount(&["--discard"]);
}

/// So much of a mapping that there is no room for all of it.
const MAPPED: &str = "
import errno, mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 32 << 20)
shared = mmap.mmap(fd, 32 << 20)
for at in range(0, 32 << 20, 4096):
    shared[at:at + 4] = b'page'
try:
    os.fsync(fd)
except OSError as error:
    sys.exit(0 if error.errno in (errno.ENOSPC, errno.EIO) else 2)
sys.exit(1)
";

#[test]
fn whoever_syncs_a_mapping_is_told_that_the_disk_is_full() {
    let fixture = MountFixture::local();
    let disk = small_disk(&fixture, "disk", 24);
    let host = fixture.host.clone().with("PSTORE_SESSION_DIR", disk.to_str().unwrap());
    fixture.mount_as(&host, &[]);
    let script = Command::new("python3").args(["-c", MAPPED]).arg(fixture.mountpoint.join("file")).status();
    assert_eq!(script.unwrap().code(), Some(0), "pages were dropped, and nobody was told");
    host.succeed(["unmount", fixture.mountpoint.to_str().unwrap(), "--discard"]);
}

/// Databases cut their journals off after each transaction.
#[test]
fn what_was_cut_off_takes_no_room_after_the_next_commit() {
    let fixture = MountFixture::local();
    fixture.mount();
    let path = fixture.mountpoint.join("journal");
    let write_often = || {
        for round in 0..100 {
            fs::write(&path, format!("transaction {round}")).unwrap();
        }
    };
    let session = fs::read_dir(fixture.path("one/sessions")).unwrap().next().unwrap().unwrap().path();
    let data_files = || fs::read_dir(session.join("data")).unwrap().count();
    for _ in 0..2 {
        write_often();
        assert!(data_files() >= 100, "nothing was cut off");
        fixture.commit();
        // What a commit read goes with the next thing that is made durable.
        fs::File::open(&path).unwrap().sync_all().unwrap();
        assert!(data_files() <= 2, "{} data files are left", data_files());
        assert_eq!(fs::read_to_string(&path).unwrap(), "transaction 99");
    }
    fixture.unmount(&["--discard"]);
}
