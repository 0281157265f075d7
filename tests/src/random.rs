//! `random` makes random trees.

use std::{
    ffi::OsString,
    fs,
    os::unix::{
        ffi::OsStringExt,
        fs::{FileExt, PermissionsExt, symlink},
    },
    path::Path,
};

use proptest::prelude::*;
use rustix::fs::{XattrFlags, lsetxattr};
use store::format::tree::PLAIN_MODE_BITS;

use crate::tree::{noise, set_mtime};

/// One entry, at the path that its numbers make.
#[derive(Clone, Debug)]
pub enum Entry {
    File {
        len: usize,
        seed: u64,
        mode: u32,
    },
    /// Of data and holes in turns.
    Sparse {
        runs: Vec<(u16, u16)>,
        seed: u64,
    },
    Directory {
        mode: u32,
    },
    Symlink {
        target: String,
    },
    HardLink {
        to: usize,
    },
}

/// Entries and the numbers of their paths, for [`make`].
pub fn entries() -> impl Strategy<Value = Vec<(Vec<u8>, Entry)>> {
    let file = (prop_oneof![0..2000_usize, 100_000..300_000_usize], any::<u64>(), 0..0o10000_u32)
        .prop_map(|(len, seed, mode)| Entry::File { len, seed, mode: (mode | 0o400) & PLAIN_MODE_BITS });
    let sparse = (prop::collection::vec((0..40_000_u16, 1..50_u16), 1..12), any::<u64>())
        .prop_map(|(runs, seed)| Entry::Sparse { runs, seed });
    let directory =
        (0..0o10000_u32).prop_map(|mode| Entry::Directory { mode: (mode | 0o700) & PLAIN_MODE_BITS });
    let link = "[a-z./]{1,150}".prop_map(|target| Entry::Symlink { target });
    let hard = any::<usize>().prop_map(|to| Entry::HardLink { to });
    let entry = prop_oneof![8 => file, 2 => sparse, 4 => directory, 2 => link, 2 => hard];
    prop::collection::vec((prop::collection::vec(0..5_u8, 1..6), entry), 0..40)
}

/// A name that is short, long, odd, no text, or a hidden one.
fn name(number: u8) -> OsString {
    match number {
        0 => "a".into(),
        1 => "n".repeat(120).into(),
        2 => "odd \n\t'\u{fc}".into(),
        3 => OsString::from_vec(b"no \xff text".to_vec()),
        _ => ".hidden".into(),
    }
}

pub fn make(root: &Path, entries: &[(Vec<u8>, Entry)]) {
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
        let mut name = name(numbers[0]);
        name.push(at.to_string());
        let path = folder.join(name);
        match entry {
            Entry::File { len, seed, mode } => {
                fs::write(&path, noise(*len, *seed)).unwrap();
                if seed % 3 == 0 {
                    lsetxattr(&path, "user.random", &noise(40, *seed), XattrFlags::empty()).unwrap();
                }
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                set_mtime(&path, (*seed % 2_000_000_000) as i64, (*seed % 1_000_000_000) as i64);
                files.push(path);
            }
            Entry::Sparse { runs, seed } => {
                let (file, mut end) = (fs::File::create(&path).unwrap(), 0);
                for (data, hole) in runs {
                    file.write_all_at(&noise(usize::from(*data), *seed), end).unwrap();
                    end += u64::from(*data) + 4096 * u64::from(*hole);
                }
                file.set_len(end).unwrap();
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
