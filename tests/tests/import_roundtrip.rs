//! Trees of all kinds, made into archives by GNU tar, come back as they were.

#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
};

use proptest::prelude::*;
use tests::{
    desk::Desk,
    tree::{assert_same, make_odd, noise, set_mtime},
};

/// One entry, at the path that its numbers make.
#[derive(Clone, Debug)]
enum Entry {
    File { len: usize, seed: u64, mode: u32 },
    Directory { mode: u32 },
    Symlink { target: String },
    HardLink { to: usize },
}

fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, Entry)>> {
    let file = (prop_oneof![0..2000_usize, 100_000..300_000_usize], any::<u64>(), 0..0o10000_u32)
        .prop_map(|(len, seed, mode)| Entry::File { len, seed, mode: mode | 0o400 });
    let directory = (0..0o10000_u32).prop_map(|mode| Entry::Directory { mode: mode | 0o700 });
    let link = "[a-z./]{1,150}".prop_map(|target| Entry::Symlink { target });
    let hard = any::<usize>().prop_map(|to| Entry::HardLink { to });
    let entry = prop_oneof![4 => file, 2 => directory, 1 => link, 1 => hard];
    prop::collection::vec((prop::collection::vec(0..4_u8, 1..6), entry), 0..40)
}

/// A name that is short, long, odd, or a hidden one.
fn name(number: u8) -> String {
    match number {
        0 => "a".to_owned(),
        1 => "n".repeat(120),
        2 => "odd \n\t'\u{fc}".to_owned(),
        _ => ".hidden".to_owned(),
    }
}

fn make(root: &Path, entries: &[(Vec<u8>, Entry)]) {
    let mut files = Vec::new();
    for (at, (numbers, entry)) in entries.iter().enumerate() {
        let mut folder = root.to_owned();
        for number in &numbers[1..] {
            let next = folder.join(name(*number));
            if fs::symlink_metadata(&next).is_ok_and(|meta| !meta.is_dir()) {
                break;
            }
            folder = next;
        }
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{}{at}", name(numbers[0])));
        match entry {
            Entry::File { len, seed, mode } => {
                fs::write(&path, noise(*len, *seed)).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                set_mtime(&path, (*seed % 2_000_000_000) as i64, (*seed % 1_000_000_000) as i64);
                files.push(path);
            }
            Entry::Directory { mode } => {
                fs::create_dir(&path).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
            Entry::Symlink { target } => symlink(target, &path).unwrap(),
            Entry::HardLink { to } if !files.is_empty() => {
                fs::hard_link(&files[to % files.len()], &path).unwrap();
            }
            Entry::HardLink { .. } => {}
        }
    }
}

/// Through GNU tar in one of its formats, an import and a restore.
fn round_trip(desk: &Desk, source: &Path, options: &str) {
    let (archive, out) = (desk.path("archive.tar.zst"), desk.path("out"));
    let line = format!("tar {options} -C \"$0\" -c . | zstd -q > \"$1\"");
    let made = Command::new("sh").args(["-c", &line]).args([source, &archive]).status().unwrap();
    assert!(made.success());
    desk.host.succeed(["import", archive.to_str().unwrap(), "acme/alice", "--chrome-major", "131"]);
    if out.exists() {
        fs::remove_dir_all(&out).unwrap();
    }
    desk.host.restore("acme/alice", &out);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_gnu_tar_writes_comes_back(entries in entries(), sorted in any::<bool>()) {
        let desk = Desk::local();
        let source = desk.path("source");
        fs::create_dir(&source).unwrap();
        make(&source, &entries);
        let order = if sorted { "--sort=name" } else { "--sort=none" };
        round_trip(&desk, &source, &format!("--format=posix --xattrs {order}"));
        assert_same(&source, &desk.path("out"));
    }
}

#[test]
fn everything_a_file_system_can_hold_comes_back_in_every_format() {
    let desk = Desk::local();
    let source = desk.path("source");
    fs::create_dir(&source).unwrap();
    make_odd(&source);
    // Archives have no common word for holes.
    fs::remove_file(source.join("sparse")).unwrap();
    fs::remove_file(source.join("only a hole")).unwrap();
    set_mtime(&source, 981_173_108, 9);
    round_trip(&desk, &source, "--format=posix --xattrs");
    assert_same(&source, &desk.path("out"));
    // And the tree is the one that a capture finds.
    let captured = desk.host.snapshot(&source, "acme/alice");
    assert_eq!(captured["outcome"], "unchanged", "{captured}");
    // GNU tar's own format has no attributes and no parts of seconds.
    round_trip(&desk, &source, "--format=gnu");
    let (before, after) = (source.join("a/large"), desk.path("out/a/large"));
    assert_eq!(fs::read(before).unwrap(), fs::read(after).unwrap());
    let deep = (0..30).fold(desk.path("out/deep"), |path, _| path.join("d".repeat(100)));
    assert_eq!(fs::read(deep.join("bottom")).unwrap(), b"found");
}

#[test]
fn what_was_exported_is_the_same_snapshot_again() {
    let desk = Desk::local();
    let source = desk.path("source");
    fs::create_dir(&source).unwrap();
    make_odd(&source);
    let captured = desk.host.snapshot(&source, "acme/alice");
    let archives = desk.path("archives");
    for more in [&[][..], &["--splice"]] {
        let line = ["export", "acme/alice", "-o", archives.to_str().unwrap(), "--chrome-major", "131"];
        let exported = desk.host.succeed([&line[..], more].concat());
        let name = format!("profile-{}.tar.zst", &exported["archive_sha256"].as_str().unwrap()[..12]);
        // The manifest lies beside it, and says which Chrome it is.
        let imported = desk.host.succeed(["import", archives.join(name).to_str().unwrap(), "acme/bob"]);
        assert_eq!(imported["snapshot_id"], captured["snapshot_id"], "{more:?}");
        assert_eq!(imported["archive_sha256"], exported["archive_sha256"]);
        assert_eq!(imported["new_chunks"], 0, "{imported}");
    }
}
