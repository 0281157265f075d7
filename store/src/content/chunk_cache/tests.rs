//! These tests fill the cache from several processes, within its limits, and damage it.

use std::{os::unix::fs::MetadataExt, path::Path};

use super::*;
use crate::id::StoreId;

const SEGMENT: u32 = 256 << 10;

fn limits() -> Limits {
    Limits {
        max_bytes: 4 * u64::from(SEGMENT),
        max_files: 100,
        min_free_bytes: 0,
        min_free_inodes: 0,
        segment_bytes: SEGMENT,
    }
}

fn cache(root: &Path, tenant: &str, limits: Limits) -> ChunkCache {
    ChunkCache::new(&Cache::new(root, StoreId::from_parts(1, [1; 10]), &tenant.parse().unwrap()), limits)
}

fn key() -> ChunkKey {
    ChunkKey::from_bytes([5; 32])
}

fn frame(seed: u32) -> (NewFrame, u32) {
    let mut raw = vec![0; 30_000];
    raw[..4].copy_from_slice(&seed.to_le_bytes());
    (NewFrame { id: key().id_of(&raw), codec: Codec::Raw, stored: raw.into() }, 30_000)
}

fn insert(cache: &ChunkCache, seed: u32) -> ChunkId {
    let (frame, _) = frame(seed);
    let id = frame.id;
    assert!(cache.expect(frame.stored.len() as u64));
    cache.insert(vec![frame]);
    id
}

fn holds(cache: &ChunkCache, seed: u32) -> bool {
    let (frame, raw_len) = frame(seed);
    let chunk = cache.read(&key(), &frame.id, raw_len);
    assert!(chunk.as_deref().is_none_or(|bytes| bytes == frame.stored));
    chunk.is_some()
}

/// The space of all segments on disk.
fn taken(root: &Path) -> (u64, u64) {
    let mut folders = vec![root.to_owned()];
    let (mut bytes, mut files) = (0, 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "chunks.lock" {
                bytes += meta.len().max(meta.blocks() * 512);
                files += 1;
            }
        }
    }
    (bytes, files)
}

#[test]
fn the_limits_hold_at_every_moment_whoever_inserts() {
    let root = tempfile::tempdir().unwrap();
    let limit = limits().max_bytes;
    // Segments come and go only under the lock, so who holds it sees a state that was.
    let look = || {
        let _lock = eviction::lock(root.path()).unwrap();
        taken(root.path()).0
    };
    std::thread::scope(|scope| {
        let writers: Vec<_> = ["acme", "acme", "other"]
            .into_iter()
            .zip(0u32..)
            .map(|(tenant, writer)| {
                let cache = cache(root.path(), tenant, limits());
                scope.spawn(move || {
                    let mut most = 0;
                    for number in 0..100 {
                        insert(&cache, writer * 1000 + number);
                        most = look().max(most);
                    }
                    // The table of a segment may round a file up by a block or two.
                    assert!(most <= limit + 4 * 8192 && most > limit / 2, "{most} of {limit}");
                    (0..100).filter(|number| holds(&cache, writer * 1000 + number)).count()
                })
            })
            .collect();
        let kept: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        assert!(kept > 0, "nothing was kept at all");
    });
}

#[test]
fn the_least_recently_used_segment_goes_first_and_few_files_are_made() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path(), "acme", limits());
    for seed in 0..20 {
        insert(&cache, seed);
    }
    // A reading makes the oldest segment the newest.
    let old = fs::read_dir(&cache.folder).unwrap().map(|entry| entry.unwrap().path());
    for path in old {
        let hour_ago = SystemTime::now() - Duration::from_secs(3600);
        fs::File::options().write(true).open(path).unwrap().set_modified(hour_ago).unwrap();
    }
    assert!(holds(&cache, 0));
    for seed in 100..110 {
        insert(&cache, seed);
    }
    assert!(holds(&cache, 0) && holds(&cache, 109));
    assert!((1..20).any(|seed| !holds(&cache, seed)));
    assert!(taken(root.path()).1 <= 4);
    let few = Limits { max_files: 2, ..limits() };
    let narrow = super::tests::cache(root.path(), "acme", few);
    for seed in 200..220 {
        insert(&narrow, seed);
    }
    assert!(taken(root.path()).1 <= 3, "{:?}", taken(root.path()));
}

#[test]
fn a_full_disk_is_left_alone_and_makes_the_cache_smaller() {
    let root = tempfile::tempdir().unwrap();
    let generous = cache(root.path(), "acme", limits());
    let id = insert(&generous, 1);
    drop(generous);
    for scarce in [
        Limits { min_free_bytes: u64::MAX, ..limits() },
        Limits { min_free_inodes: u64::MAX, ..limits() },
        Limits { max_bytes: 0, ..limits() },
    ] {
        let cache = cache(root.path(), "acme", scarce);
        insert(&cache, 2);
        assert!(!holds(&cache, 2));
        cache.index().looked = None;
        assert!(!cache.has(&id));
    }
    assert_eq!(taken(root.path()).1, 0);
}

#[test]
fn what_a_killed_process_left_is_used_and_continued() {
    let root = tempfile::tempdir().unwrap();
    let first = cache(root.path(), "acme", limits());
    for seed in 0..3 {
        insert(&first, seed);
    }
    // Killed after the frame and before its slot: the bytes are there, and nothing says so.
    let path = fs::read_dir(&first.folder).unwrap().next().unwrap().unwrap().path();
    drop(first);
    let file = fs::File::options().append(true).open(&path).unwrap();
    io::Write::write_all(&mut &file, &[9; 1000]).unwrap();
    // And a slot whose frame never came.
    let second = cache(root.path(), "acme", limits());
    assert!(!second.has(&frame(7).0.id));
    for seed in 3..6 {
        insert(&second, seed);
    }
    assert!((0..6).all(|seed| holds(&second, seed)));
    assert_eq!(taken(root.path()).1, 1);
    file.set_len(segment::DATA_START + 30_000 + 100).unwrap();
    let third = cache(root.path(), "acme", limits());
    assert!(third.has(&frame(0).0.id) && holds(&third, 0));
    assert!(!holds(&third, 1) && !holds(&third, 5));
}

#[test]
fn a_stranger_in_the_folder_harms_nothing() {
    let root = tempfile::tempdir().unwrap();
    let cache = cache(root.path(), "acme", limits());
    make_private(&cache.folder).unwrap();
    fs::write(cache.folder.join("0123456789abcdef"), vec![0xaa; 60_000]).unwrap();
    fs::write(cache.folder.join("../chunks/readme"), b"x").unwrap();
    std::os::unix::fs::symlink("/dev/zero", cache.folder.join("fedcba9876543210")).unwrap();
    fs::create_dir(cache.folder.join("00000000000000aa")).unwrap();
    insert(&cache, 1);
    assert!(holds(&cache, 1));
}

#[test]
fn what_one_process_inserts_another_finds() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (cache(root.path(), "acme", limits()), cache(root.path(), "acme", limits()));
    let other = cache(root.path(), "other", limits());
    assert!(!two.has(&frame(1).0.id));
    insert(&one, 1);
    two.index().looked = None;
    two.refresh();
    assert!(holds(&two, 1));
    other.refresh();
    assert!(!other.has(&frame(1).0.id));
}
