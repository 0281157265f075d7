//! These tests copy databases that are sparse, linked, closed to others and too large for the time.

use std::{fs, os::unix::fs::symlink};

use super::*;

#[test]
fn holes_and_content_are_kept() {
    let (source, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = File::create(source.path().join("sparse")).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(b"SQLite", 0).unwrap();
    file.write_all_at(&[7; 5000], 9 << 20).unwrap();
    let copy = Copy::make(
        &ProfileDir::open(source.path()).unwrap(),
        Path::new("sparse"),
        scratch.path(),
        Deadline::NEVER,
    );
    let copy = copy.unwrap().unwrap();
    assert_eq!(copy.bytes, 64 << 20);
    let copied = File::open(copy.path()).unwrap();
    assert!(copied.metadata().unwrap().blocks() * 512 < 2 << 20);
    assert!(fs::read(copy.path()).unwrap() == fs::read(source.path().join("sparse")).unwrap());
    drop(copy);
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn copying_by_hand_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..700_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(dir.path().join("a"), &content).unwrap();
    let to = OpenOptions::new().read(true).write(true).create_new(true).open(dir.path().join("b")).unwrap();
    to.set_len(content.len() as u64).unwrap();
    copy_by_hand(&File::open(dir.path().join("a")).unwrap(), &to, 0, content.len() as u64, Deadline::NEVER)
        .unwrap();
    assert!(fs::read(dir.path().join("b")).unwrap() == content);
}

#[test]
fn links_are_not_followed_and_no_fifo_is_waited_for() {
    let (source, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(source.path().join("real"), "x").unwrap();
    symlink("real", source.path().join("link")).unwrap();
    fs::write(source.path().join("db"), "x").unwrap();
    symlink("real", source.path().join("db-journal")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, source.path().join("fifo"), 0o600.into()).unwrap();
    let opened = ProfileDir::open(source.path()).unwrap();
    let make = |name: &str| Copy::make(&opened, Path::new(name), scratch.path(), Deadline::NEVER).unwrap();
    assert!(make("link").is_none());
    assert!(make("fifo").is_none());
    assert!(make("../etc/passwd").is_none());
    assert_eq!(make("db").unwrap().bytes, 1, "the journal that is a link is none");
}

/// The original's mode does not matter: its directory may have been closed, and the copy's is not.
#[test]
fn a_copy_is_for_its_owner_alone() {
    let (source, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["db", "db-journal", "db-wal"] {
        fs::write(source.path().join(name), "x").unwrap();
        fs::set_permissions(source.path().join(name), Permissions::from_mode(0o666)).unwrap();
    }
    let opened = ProfileDir::open(source.path()).unwrap();
    let copy = Copy::make(&opened, Path::new("db"), scratch.path(), Deadline::NEVER).unwrap().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let folder = copy.path().parent().unwrap().to_owned();
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| mode(&entry.unwrap().path())).collect();
    assert_eq!(files, [0o600; 3]);
}

#[test]
fn a_copy_is_given_up_when_its_time_is_over() {
    let (source, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(source.path().join("db"), [1; 5000]).unwrap();
    let late = Deadline::after(std::time::Duration::ZERO);
    let made = Copy::make(&ProfileDir::open(source.path()).unwrap(), Path::new("db"), scratch.path(), late);
    // Where blocks are shared, no time is needed.
    assert!(made.is_ok() || made.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}
