//! These tests compare a walk with one that does everything itself, one after the other.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::MetadataExt, fs::symlink},
    path::{Path, PathBuf},
};

use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// The entry at a path: its kind, its size or target, and its mode.
type Seen = (TreePath, String, u64, u32);

fn seen(found: &WalkedEntry) -> Seen {
    let Entry { path, meta, kind } = &found.entry;
    let what = match kind {
        Kind::File { .. } => "file".to_owned(),
        Kind::Directory => "directory".to_owned(),
        Kind::Symlink { target } => format!("to {}", target.escape_ascii()),
        Kind::HardLink { target } => format!("as {target}"),
        other => format!("{other:?}"),
    };
    assert_eq!(found.file.is_some(), matches!(kind, Kind::File { .. }), "{path}");
    (path.clone(), what, found.file.map_or(0, |file| file.state.size), meta.mode)
}

fn walked(root: &Path, threads: usize, bound: usize) -> (Vec<Seen>, Skipped) {
    let root = RootDir::open(root).unwrap();
    let mut all = Vec::new();
    let exclude = |path: &TreePath| path.as_bytes() == b"left out";
    let skipped = walk_within(&root, &exclude, threads, bound, &mut |found| {
        all.push(seen(&found));
        Ok(())
    });
    (all, skipped.unwrap())
}

/// The same by the standard library, sorted in the end.
fn expected(root: &Path) -> Vec<Seen> {
    let mut found: Vec<(TreePath, PathBuf)> = vec![(TreePath::root(), root.to_owned())];
    let mut folders = vec![(TreePath::root(), root.to_owned())];
    while let Some((path, folder)) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = path.join(entry.file_name().as_bytes()).unwrap();
            if path.as_bytes() == b"left out" {
                continue;
            }
            found.push((path.clone(), entry.path()));
            if entry.file_type().unwrap().is_dir() {
                folders.push((path, entry.path()));
            }
        }
    }
    found.sort();
    let mut names: BTreeMap<u64, TreePath> = BTreeMap::new();
    let each = found.into_iter().filter_map(|(path, place)| {
        let meta = fs::symlink_metadata(&place).unwrap();
        let mode = meta.mode() & MODE_BITS;
        if meta.is_dir() {
            return Some((path, "directory".to_owned(), 0, mode));
        }
        if meta.is_symlink() {
            let target = fs::read_link(&place).unwrap();
            return Some((path, format!("to {}", target.as_os_str().as_bytes().escape_ascii()), 0, mode));
        }
        if !meta.is_file() {
            return None;
        }
        if let Some(first) = names.get(&meta.ino()) {
            return Some((path, format!("as {first}"), 0, 0));
        }
        names.insert(meta.ino(), path.clone());
        Some((path, "file".to_owned(), meta.len(), mode))
    });
    each.collect()
}

/// Makes an entry of the kind that `what` says, in the folder with this number.
fn add(
    root: &Path,
    folders: &mut Vec<PathBuf>,
    files: &mut Vec<PathBuf>,
    (folder, name, what): (usize, u8, u8),
) {
    let name: &[u8] = &[b"ab /!.-\xff\n0"[usize::from(name) % 10], name];
    let name: Vec<u8> = name.iter().map(|byte| if matches!(byte, b'/' | 0) { b'_' } else { *byte }).collect();
    let path = folders[folder % folders.len()].join(OsStr::from_bytes(&name));
    if fs::symlink_metadata(&path).is_ok() {
        return;
    }
    match what % 8 {
        0 | 1 => {
            fs::create_dir(&path).unwrap();
            folders.push(path);
        }
        2 => symlink("some where", &path).unwrap(),
        3 if !files.is_empty() => fs::hard_link(&files[folder % files.len()], &path).unwrap(),
        4 => mknodat(CWD, &path, FileType::Fifo, Mode::from(0o600), 0).unwrap(),
        5 => fs::write(root.join("left out"), "").unwrap(),
        _ => {
            fs::write(&path, vec![0; folder % 100]).unwrap();
            files.push(path);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_walk_finds_everything_in_order(
        steps in prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 0..120),
        threads in 1..4_usize,
        bound in 0..20_usize,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (mut folders, mut files) = (vec![dir.path().to_owned()], Vec::new());
        steps.into_iter().for_each(|step| add(dir.path(), &mut folders, &mut files, step));
        prop_assert_eq!(walked(dir.path(), threads, bound).0, expected(dir.path()));
    }
}

#[test]
fn large_folders_are_looked_at_in_parts_and_what_cannot_be_stored_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    for name in 0..700 {
        let path = dir.path().join(format!("{name}"));
        match name % 7 {
            0 => {
                fs::create_dir(&path).unwrap();
                (0..150).for_each(|file| fs::write(path.join(format!("{file}")), "x").unwrap());
            }
            1 => mknodat(CWD, &path, FileType::Fifo, Mode::from(0o600), 0).unwrap(),
            _ => fs::write(&path, "y").unwrap(),
        }
    }
    for (threads, bound) in [(1, 0), (1, AHEAD), (3, 1), (3, 200), (2, AHEAD)] {
        let (found, skipped) = walked(dir.path(), threads, bound);
        assert_eq!(found, expected(dir.path()));
        assert_eq!(skipped, Skipped { fifos: 100, ..Skipped::default() });
    }
}

#[test]
fn whoever_has_enough_ends_the_walk() {
    let dir = tempfile::tempdir().unwrap();
    (0..50).for_each(|name| fs::create_dir_all(dir.path().join(format!("{name}/a/b"))).unwrap());
    let root = RootDir::open(dir.path()).unwrap();
    let mut taken = 0;
    let ended = walk(&root, &|_| false, 2, &mut |_| {
        taken += 1;
        if taken == 10 { Err(crate::Error::Interrupted) } else { Ok(()) }
    });
    assert!(matches!(ended, Err(crate::Error::Interrupted)), "{ended:?}");
    assert_eq!(taken, 10);
}
