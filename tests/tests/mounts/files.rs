//! These tests do on a mount what programs do with files, by the real kernel.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{ErrorKind, Read, Seek, Write},
    os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
    thread,
    time::Duration,
};

use rustix::{
    fs::{CWD, FallocateFlags, RenameFlags, SeekFrom, copy_file_range, fallocate, renameat_with, seek},
    io::Errno,
};
use tests::{
    mount_fixture::{ALICE, MountFixture},
    tree::noise,
};

const BASE: usize = 3 << 20;

/// A mount of a snapshot with one large file, `base`.
fn fixture() -> MountFixture {
    let fixture = MountFixture::local();
    fixture.mount();
    fs::write(fixture.mountpoint.join("base"), noise(BASE, 1)).unwrap();
    fixture.unmount(&["--commit"]);
    fixture.mount();
    fixture
}

/// Commits, and gives the content of `name` as somebody else gets it.
#[track_caller]
fn committed(fixture: &MountFixture, name: &str) -> Vec<u8> {
    fixture.commit();
    let target = fixture.path(&tests::unique_name());
    fixture.host.restore(ALICE, &target);
    fs::read(target.join(name)).unwrap()
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn shared_mappings_and_writes_see_each_other() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("base");
    let script = r#"
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
size = os.fstat(fd).st_size
shared = mmap.mmap(fd, size)
private = mmap.mmap(fd, size, access=mmap.ACCESS_COPY)
old = bytes(shared[0:4])
private[0:4] = b'mine'
os.pwrite(fd, b'by pwrite', 5000)
assert shared[5000:5009] == b'by pwrite', shared[5000:5009]
shared[100000:100009] = b'by memory'
assert os.pread(fd, 9, 100000) == b'by memory', os.pread(fd, 9, 100000)
other = os.open(sys.argv[1], os.O_RDONLY)
assert os.pread(other, 9, 100000) == b'by memory'
shared[size - 3:size] = b'end'
assert os.pread(fd, 4, 0) == old
shared.flush()
os.ftruncate(fd, size + 10)
assert os.pread(fd, 20, size - 3) == b'end' + bytes(10)
shared[0:6] = b'lazily'
"#;
    let ended = Command::new("python3").args(["-c", script]).arg(&path).output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let mut expected = noise(BASE, 1);
    expected.resize(BASE + 10, 0);
    for (at, text) in [(0, &b"lazily"[..]), (5000, b"by pwrite"), (100_000, b"by memory"), (BASE - 3, b"end")]
    {
        expected[at..at + text.len()].copy_from_slice(text);
    }
    assert!(fs::read(&path).unwrap() == expected);
    assert!(committed(&fixture, "base") == expected);
    fixture.unmount(&[]);
}

#[test]
fn appends_of_many_writers_are_all_there() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("log");
    thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
                for line in 0..200 {
                    file.write_all(format!("{writer}-{line:03}\n").as_bytes()).unwrap();
                }
            });
        }
    });
    let text = String::from_utf8(committed(&fixture, "log")).unwrap();
    let lines: BTreeSet<&str> = text.lines().collect();
    assert_eq!((text.len(), lines.len()), (4 * 200 * 6, 4 * 200));
    fixture.unmount(&[]);
}

#[test]
fn names_are_exchanged_and_not_replaced_when_asked_so() {
    let fixture = fixture();
    let (base, other) = (fixture.mountpoint.join("base"), fixture.mountpoint.join("folder"));
    fs::create_dir(&other).unwrap();
    fs::write(other.join("inside"), "1").unwrap();
    let rename = |flags| renameat_with(CWD, &base, CWD, &other, flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert!(base.is_dir() && fs::read(base.join("inside")).unwrap() == b"1");
    assert_eq!(fs::metadata(&other).unwrap().len(), BASE as u64);
    let free = fixture.mountpoint.join("free");
    assert_eq!(renameat_with(CWD, &base, CWD, &free, RenameFlags::EXCHANGE), Err(Errno::NOENT));
    renameat_with(CWD, &base, CWD, &free, RenameFlags::NOREPLACE).unwrap();
    assert!(committed(&fixture, "folder") == noise(BASE, 1));
    assert_eq!(fs::read(free.join("inside")).unwrap(), b"1");
    fixture.unmount(&[]);
}

#[test]
fn a_file_without_a_name_is_used_until_it_is_closed() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("base");
    let mut file = open(&path);
    fs::remove_file(&path).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    file.write_all_at(b"still", 10).unwrap();
    file.set_len(1000).unwrap();
    let mut read = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut read).unwrap();
    assert!(read[..10] == noise(BASE, 1)[..10] && &read[10..15] == b"still" && read.len() == 1000);
    fs::write(&path, "another").unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1000);
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(committed(&fixture, "base"), b"another");
    fixture.unmount(&[]);
}

#[test]
fn what_is_done_to_a_file_without_a_name_does_not_stand_in_the_way_of_a_resume() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("base");
    let file = File::open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    // From here on nothing that is kept knows of the file.
    fixture.commit();
    file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(fixture.mountpoint.join("after"), "1").unwrap();
    let mounted = fixture.host.succeed(["mounts"])["mounts"][0].clone();
    fixture.kill(&mounted);
    drop(file);
    fixture.mount();
    assert_eq!(fs::read(fixture.mountpoint.join("after")).unwrap(), b"1");
    assert!(!path.exists());
    fixture.unmount(&["--commit"]);
}

#[test]
fn holes_are_made_found_and_kept() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("base");
    let file = open(&path);
    let (start, len) = (1 << 20, 1 << 20);
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, start, len).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(0)).unwrap(), start);
    assert_eq!(seek(&file, SeekFrom::Data(start)).unwrap(), start + len);
    assert_eq!(seek(&file, SeekFrom::Hole(start + len)).unwrap(), BASE as u64);
    assert_eq!(seek(&file, SeekFrom::Data(BASE as u64)), Err(Errno::NXIO));
    assert!(file.metadata().unwrap().blocks() * 512 <= (BASE as u64 - len) + 4096);
    // One that grows without a write has a hole at its end.
    file.set_len(8 << 20).unwrap();
    assert_eq!(seek(&file, SeekFrom::Data(BASE as u64)), Err(Errno::NXIO));
    fallocate(&file, FallocateFlags::empty(), 0, 9 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 9 << 20);
    fallocate(&file, FallocateFlags::ZERO_RANGE, 10, 20).unwrap();
    drop(file);
    let mut expected = noise(BASE, 1);
    expected[start as usize..(start + len) as usize].fill(0);
    expected[10..30].fill(0);
    expected.resize(9 << 20, 0);
    assert!(fs::read(&path).unwrap() == expected);
    assert!(committed(&fixture, "base") == expected);
    let file = File::open(&path).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(1000)).unwrap(), start);
    drop(file);
    fixture.unmount(&[]);
}

#[test]
fn ranges_are_copied_from_file_to_file() {
    let fixture = fixture();
    let from = File::open(fixture.mountpoint.join("base")).unwrap();
    let to = File::create(fixture.mountpoint.join("copy")).unwrap();
    let (mut at, mut into) = (1000, 5);
    while at < 2_001_000 {
        let len = 2_001_000 - at as usize;
        let copied = copy_file_range(&from, Some(&mut at), &to, Some(&mut into), len).unwrap();
        assert!(copied > 0);
    }
    drop((from, to));
    let copy = committed(&fixture, "copy");
    assert!(copy[..5] == [0; 5] && copy[5..] == noise(BASE, 1)[1000..2_001_000]);
    fixture.unmount(&[]);
}

#[test]
fn a_directory_is_read_whole_while_its_entries_go() {
    let fixture = fixture();
    let folder = fixture.mountpoint.join("many");
    fs::create_dir(&folder).unwrap();
    for number in 0..5000 {
        fs::write(folder.join(format!("file-{number}")), "").unwrap();
    }
    let mut seen = BTreeSet::<OsString>::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let entry = entry.unwrap();
        assert!(seen.insert(entry.file_name()), "{entry:?} came twice");
        if seen.len().is_multiple_of(2) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    assert_eq!((seen.len(), fs::read_dir(&folder).unwrap().count()), (5000, 2500));
    let ended = Command::new("rm").arg("-rf").arg(&folder).status().unwrap();
    assert!(ended.success() && !folder.exists());
    assert_eq!(
        (fixture.commit()["read_files"].clone(), fixture.is_mounted(&fixture.mountpoint)),
        (0.into(), true)
    );
    fixture.unmount(&[]);
}

#[test]
fn permissions_are_checked_by_the_kernel() {
    let fixture = MountFixture::local();
    // Other users get as far as the mountpoint.
    let open_to_all = fs::Permissions::from_mode(0o755);
    fs::set_permissions(fixture.path(""), open_to_all.clone()).unwrap();
    fixture.mount_as(&fixture.host, &["--allow-other"]);
    fs::set_permissions(&fixture.mountpoint, open_to_all).unwrap();
    fs::write(fixture.mountpoint.join("public"), "yes").unwrap();
    fs::write(fixture.mountpoint.join("secret"), "no").unwrap();
    fs::set_permissions(
        fixture.mountpoint.join("secret"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let as_nobody = |words: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).args(words);
        command.current_dir(&fixture.mountpoint).output().unwrap()
    };
    assert_eq!(as_nobody(&["cat", "public"]).stdout, b"yes");
    for words in [&["cat", "secret"][..], &["touch", "new"], &["rm", "-f", "public"]] {
        assert!(!as_nobody(words).status.success(), "{words:?}");
    }
    fixture.unmount(&["--commit"]);
}

/// A file system of so many bytes.
pub(super) fn small_disk(fixture: &MountFixture, name: &str, megabytes: u64) -> std::path::PathBuf {
    let (image, place) = (fixture.path(&format!("{name}.img")), fixture.place(name));
    File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
    let run = |program: &str, words: &[&str], paths: &[&Path]| {
        let ended = Command::new(program).args(words).args(paths).output().unwrap();
        assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
    };
    run("mkfs.ext4", &["-q", "-m", "0"], &[&image]);
    run("mount", &["-o", "loop"], &[&image, &place]);
    place
}

#[test]
fn a_full_disk_is_told_to_the_writer_and_harms_nothing_else() {
    let fixture = fixture();
    fixture.unmount(&[]);
    let disk = small_disk(&fixture, "disk", 24);
    let host = fixture.host.clone().with("PSTORE_SESSION_DIR", disk.to_str().unwrap());
    fixture.mount_as(&host, &[]);
    let (full, kept) = (fixture.mountpoint.join("full"), fixture.mountpoint.join("kept"));
    fs::write(&kept, noise(100_000, 5)).unwrap();
    let mut file = File::create(&full).unwrap();
    let mut written = 0;
    let error = loop {
        match file.write(&noise(1 << 20, written)) {
            Ok(len) => written += len as u64,
            Err(error) => break error,
        }
        assert!(written < 24 << 20, "there is no room for that");
    };
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    drop(file);
    assert!(fs::read(fixture.mountpoint.join("base")).unwrap() == noise(BASE, 1));
    assert!(fs::read(&kept).unwrap() == noise(100_000, 5));
    assert_eq!(fs::metadata(&full).unwrap().len(), written);
    // A few bytes that there is no room for change nothing either.
    let refused = (0..64).any(|number| {
        let path = fixture.mountpoint.join(format!("more-{number}"));
        fs::write(&path, noise(8192, number)).is_err_and(|error| error.kind() == ErrorKind::StorageFull)
    });
    assert!(refused, "the disk is not full");

    fs::remove_file(&full).unwrap();
    let began = std::time::Instant::now();
    while fs::write(fixture.mountpoint.join("after"), noise(4 << 20, 6)).is_err() {
        assert!(began.elapsed() < Duration::from_secs(20), "the room of what was removed does not come back");
        thread::sleep(Duration::from_millis(100));
    }
    let place = fixture.mountpoint.to_str().unwrap();
    host.succeed(["unmount", place, "--commit"]);
    let target = fixture.path("restored");
    fixture.host.restore(ALICE, &target);
    assert!(fs::read(target.join("after")).unwrap() == noise(4 << 20, 6));
    assert!(fs::read(target.join("kept")).unwrap() == noise(100_000, 5));
    assert!(!target.join("full").exists());
    fixture.host.verify(ALICE, &["--read-data"]);
}

#[test]
fn an_open_file_that_was_removed_outlives_the_snapshot_it_is_of() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("base");
    open(&path).write_all_at(b"changed", 1 << 20).unwrap();
    let file = File::open(&path).unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(fixture.mountpoint.join("other"), "other").unwrap();
    fixture.commit();
    for snapshot in fixture.host.succeed(["list", ALICE])["snapshots"].as_array().unwrap() {
        if snapshot["latest"] == false {
            fixture.host.succeed(["delete", ALICE, "--sha", snapshot["record"].as_str().unwrap()]);
        }
    }
    fixture.host.succeed(["gc", "acme", "--grace", "0", "--wait"]);
    let mut expected = noise(BASE, 1);
    expected[1 << 20..][..7].copy_from_slice(b"changed");
    let mut read = vec![0; BASE];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == expected);
    assert_eq!(file.metadata().unwrap().modified().unwrap(), modified);
    drop(file);
    fixture.unmount(&[]);
}

/// It is there until the daemon ends, as on any other file system; what is left of a browser
/// that is gone is not continued.
#[test]
fn a_file_whose_name_is_never_stored_outlives_the_snapshot_it_is_of() {
    let fixture = fixture();
    let path = fixture.mountpoint.join("DevToolsActivePort");
    fs::rename(fixture.mountpoint.join("base"), &path).unwrap();
    fs::write(fixture.mountpoint.join("other"), "stored").unwrap();
    fixture.commit();
    let mounted = fixture.host.succeed(["mounts"])["mounts"][0].clone();
    assert_eq!(mounted["dirty"], false, "{mounted:#}");
    assert!(fs::read(&path).unwrap() == noise(BASE, 1));
    fs::write(fixture.mountpoint.join("other"), "not stored").unwrap();
    fixture.kill(&mounted);
    assert_eq!(fixture.mount()["resumed"], true);
    assert_eq!(fs::read(fixture.mountpoint.join("other")).unwrap(), b"not stored");
    fixture.unmount(&["--commit"]);
    assert_eq!(fixture.session_directories(), 0);
}
