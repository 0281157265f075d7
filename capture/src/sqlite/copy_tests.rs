use std::{fs, os::unix::fs::symlink};

use super::*;

#[test]
fn holes_and_content_are_kept() {
    let (source, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = File::create(source.path().join("sparse")).unwrap();
    file.set_len(64 << 20).unwrap();
    file.write_all_at(b"SQLite", 0).unwrap();
    file.write_all_at(&[7; 5000], 9 << 20).unwrap();
    let copy = Copy::make(&Source::open(source.path()).unwrap(), Path::new("sparse"), scratch.path());
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
    copy_by_hand(&File::open(dir.path().join("a")).unwrap(), &to, 0, content.len() as u64).unwrap();
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
    let opened = Source::open(source.path()).unwrap();
    let make = |name: &str| Copy::make(&opened, Path::new(name), scratch.path()).unwrap();
    assert!(make("link").is_none());
    assert!(make("fifo").is_none());
    assert!(make("../etc/passwd").is_none());
    assert_eq!(make("db").unwrap().bytes, 1, "the journal that is a link is none");
}
