//! These tests edit random trees at random: after each generation the restored tree is the original.

use std::{
    fs,
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
};

use proptest::prelude::*;
use store::bucket::{Access, Bucket, LocalBucket, MemoryBucket};
use tests::{
    store_fixture::StoreFixture,
    tree::{assert_same, noise, set_mtime},
};

/// One change to a tree. Numbers are taken modulo what exists, so that every edit hits.
#[derive(Clone, Debug)]
enum Edit {
    Write { file: u8, len: u32, seed: u8 },
    Overwrite { file: u8, at: u32, len: u16, seed: u8 },
    Append { file: u8, len: u16, seed: u8 },
    Truncate { file: u8, len: u32 },
    Punch { file: u8, len: u32 },
    Remove { file: u8 },
    Rename { file: u8, to: u8 },
    Link { file: u8, to: u8 },
    Symlink { name: u8, target: u8 },
    Directory { name: u8 },
    Mode { file: u8, mode: u16 },
    Touch { file: u8, seconds: u32, nanos: u32 },
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        4 => (any::<u8>(), 0..400_000_u32, any::<u8>()).prop_map(|(file, len, seed)| Edit::Write { file, len, seed }),
        4 => (any::<u8>(), any::<u32>(), 1..5000_u16, any::<u8>())
            .prop_map(|(file, at, len, seed)| Edit::Overwrite { file, at, len, seed }),
        2 => (any::<u8>(), any::<u16>(), any::<u8>()).prop_map(|(file, len, seed)| Edit::Append { file, len, seed }),
        1 => (any::<u8>(), 0..500_000_u32).prop_map(|(file, len)| Edit::Truncate { file, len }),
        1 => (any::<u8>(), 1..5_000_000_u32).prop_map(|(file, len)| Edit::Punch { file, len }),
        1 => any::<u8>().prop_map(|file| Edit::Remove { file }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(file, to)| Edit::Rename { file, to }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(file, to)| Edit::Link { file, to }),
        1 => (any::<u8>(), any::<u8>()).prop_map(|(name, target)| Edit::Symlink { name, target }),
        1 => any::<u8>().prop_map(|name| Edit::Directory { name }),
        1 => (any::<u8>(), 0..0o10000_u16).prop_map(|(file, mode)| Edit::Mode { file, mode }),
        1 => (any::<u8>(), any::<u32>(), 0..1_000_000_000_u32)
            .prop_map(|(file, seconds, nanos)| Edit::Touch { file, seconds, nanos }),
    ]
}

fn name(root: &Path, number: u8) -> PathBuf {
    let folders = ["", "a", "a/b", "Default", "Default/Cache"];
    let folder = root.join(folders[usize::from(number) % folders.len()]);
    fs::create_dir_all(&folder).unwrap();
    folder.join(format!("entry {number}"))
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn apply(root: &Path, edit: &Edit) {
    let existing = files(root);
    let pick = |number: u8| existing.get(usize::from(number) % existing.len().max(1)).cloned();
    let free = |number: u8| Some(name(root, number)).filter(|path| fs::symlink_metadata(path).is_err());
    match edit {
        Edit::Write { file, len, seed } => {
            let path = name(root, *file);
            if fs::symlink_metadata(&path).map_or(true, |meta| meta.is_file()) {
                fs::write(path, noise(*len as usize, u64::from(*seed))).unwrap();
            }
        }
        Edit::Overwrite { file, at, len, seed } => {
            if let Some(path) = pick(*file) {
                let open = fs::File::options().write(true).open(path).unwrap();
                let size = open.metadata().unwrap().len();
                open.write_all_at(&noise(usize::from(*len), u64::from(*seed)), u64::from(*at) % (size + 1))
                    .unwrap();
            }
        }
        Edit::Append { file, len, seed } => {
            if let Some(path) = pick(*file) {
                let open = fs::File::options().write(true).open(path).unwrap();
                let size = open.metadata().unwrap().len();
                open.write_all_at(&noise(usize::from(*len), u64::from(*seed)), size).unwrap();
            }
        }
        Edit::Truncate { file, len } => {
            if let Some(path) = pick(*file) {
                fs::File::options().write(true).open(path).unwrap().set_len(u64::from(*len)).unwrap();
            }
        }
        Edit::Punch { file, len } => {
            if let Some(path) = pick(*file) {
                let open = fs::File::options().write(true).open(path).unwrap();
                let size = open.metadata().unwrap().len();
                open.set_len(size + u64::from(*len)).unwrap();
                open.write_all_at(b"after the hole", size + u64::from(*len)).unwrap();
            }
        }
        Edit::Remove { file } => {
            if let Some(path) = pick(*file) {
                fs::remove_file(path).unwrap();
            }
        }
        Edit::Rename { file, to } => {
            if let (Some(path), Some(to)) = (pick(*file), free(*to)) {
                fs::rename(path, to).unwrap();
            }
        }
        Edit::Link { file, to } => {
            if let (Some(path), Some(to)) = (pick(*file), free(*to)) {
                fs::hard_link(path, to).unwrap();
            }
        }
        Edit::Symlink { name, target } => {
            if let Some(path) = free(*name) {
                symlink(format!("entry {target}"), path).unwrap();
            }
        }
        Edit::Directory { name } => {
            if let Some(path) = free(*name) {
                fs::create_dir(path).unwrap();
            }
        }
        Edit::Mode { file, mode } => {
            if let Some(path) = pick(*file) {
                fs::set_permissions(path, fs::Permissions::from_mode(u32::from(*mode))).unwrap();
            }
        }
        Edit::Touch { file, seconds, nanos } => {
            if let Some(path) = pick(*file) {
                set_mtime(&path, i64::from(*seconds), i64::from(*nanos));
            }
        }
    }
}

fn check(bucket: Arc<dyn Bucket>, generations: &[Vec<Edit>]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::create_dir(&source).unwrap();
        let fixture = StoreFixture::open(bucket, Some(dir.path().join("cache"))).await;
        let mut ids = Vec::new();
        for (at, edits) in generations.iter().enumerate() {
            edits.iter().for_each(|edit| apply(&source, edit));
            let report = fixture.snapshot(&source).await.unwrap();
            // A second look by somebody who knows nothing finds the same tree.
            let stranger = StoreFixture::open(Arc::clone(&fixture.root), None).await;
            assert_eq!(stranger.snapshot(&source).await.unwrap().snapshot_id, report.snapshot_id);
            let out = dir.path().join(format!("out{at}"));
            fixture.restore(&out).await.unwrap();
            assert_same(&source, &out);
            ids.push((fixture.current().await.unwrap(), out));
        }
        // Older generations are still what they were.
        for (record, kept) in &ids {
            let again = dir.path().join("again");
            fixture.restore_record(record, &again).await.unwrap();
            assert_same(kept, &again);
            fs::remove_dir_all(&again).unwrap();
        }
        fixture.assert_clean().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn restore_equals_the_original_in_memory(generations in prop::collection::vec(prop::collection::vec(edit(), 1..12), 1..5)) {
        check(Arc::new(MemoryBucket::with_page_size(3)), &generations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn restore_equals_the_original_in_a_directory(generations in prop::collection::vec(prop::collection::vec(edit(), 1..12), 1..5)) {
        let root = tempfile::tempdir().unwrap();
        check(Arc::new(LocalBucket::open(root.path(), Access::ReadWrite).unwrap()), &generations);
    }
}
