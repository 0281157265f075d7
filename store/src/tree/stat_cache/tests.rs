//! These tests write, read, copy and damage stat caches.

use super::*;
use crate::{
    format::tree::{Kind, Time},
    id::ChunkId,
};

const TREE: SnapshotId = SnapshotId::from_bytes([7; 32]);

fn state(inode: u64) -> FileState {
    FileState {
        device: 1,
        inode,
        size: 3,
        mtime: Time { seconds: -4, nanos: 5 },
        ctime: Time { seconds: 6, nanos: 7 },
    }
}

fn extents() -> Vec<Extent> {
    vec![
        Extent::Hole(9),
        Extent::Chunk { id: ChunkId::from_bytes([1; 32]), len: 70_000 },
        Extent::Inline(b"tiny".to_vec()),
    ]
}

fn path(bytes: &[u8]) -> TreePath {
    TreePath::new(bytes).unwrap()
}

fn reader(bytes: &[u8]) -> StatCacheReader<&[u8]> {
    StatCacheReader::new(Some(bytes))
}

fn known(number: u64) -> KnownFile {
    KnownFile { state: state(number), rights: [0; 3], xattrs: Vec::new(), extents: extents() }
}

fn file(number: u64) -> KnownEntry {
    KnownEntry::File(known(number))
}

fn unsure() -> KnownEntry {
    KnownEntry::UnsureFile(known(1))
}

fn push_unsure(writer: &mut StatCacheWriter<Vec<u8>>, path: &[u8]) {
    writer.push_unsure_file(path, &state(1), &Meta::default(), &extents()).unwrap();
}

fn folder(text: &[u8]) -> Entry {
    Entry { path: path(text), meta: Meta { mode: 0o755, ..Meta::default() }, kind: Kind::Directory }
}

fn numbered(number: u64) -> TreePath {
    path(format!("folder/{number:08}").as_bytes())
}

fn many() -> Vec<u8> {
    let mut writer = StatCacheWriter::new(Vec::new(), &TREE).unwrap();
    for number in 0..20_000 {
        let path = numbered(number);
        writer.push_file(path.as_bytes(), &state(number), &Meta::default(), &extents()).unwrap();
    }
    let bytes = writer.finish().unwrap();
    assert!(bytes.len() > 3 * BLOCK_BYTES);
    bytes
}

/// All that is known.
fn all(bytes: &[u8]) -> (Vec<Known>, bool) {
    let (mut cache, mut all) = (reader(bytes), Vec::new());
    cache.rest(&mut |known| all.push(known.clone()));
    (all, cache.is_whole())
}

#[test]
fn what_was_written_is_found_in_order() {
    let xattrs = vec![(b"user.a".to_vec(), b"1".to_vec())];
    let mut writer = StatCacheWriter::new(Vec::new(), &TREE).unwrap();
    writer.push_other(&folder(b"a")).unwrap();
    let meta = Meta { mode: 0o640, uid: 1, gid: 2, xattrs: xattrs.clone(), ..Meta::default() };
    writer.push_file(b"a/\xff", &state(2), &meta, &extents()).unwrap();
    push_unsure(&mut writer, b"a b");
    let bytes = writer.finish().unwrap();
    let mut cache = reader(&bytes);
    let mut passed = Vec::new();
    assert_eq!((cache.tree(), cache.is_whole()), (Some(TREE), false));
    assert_eq!(cache.find(&path(b"A"), &mut |_| panic!()), None);
    let mut encoded = Vec::new();
    put_other(&mut encoded, &folder(b"a"));
    let known = cache.find(&path(b"a"), &mut |_| panic!()).unwrap();
    assert_eq!(known.what, KnownEntry::Other(encoded));
    let known = cache.find(&path(b"a/\xff"), &mut |known| passed.push(known.path.clone())).unwrap();
    let KnownFile { xattrs: kept, extents: held, .. } = known.file(&state(2), &meta).unwrap();
    assert_eq!((&*kept, &*held), (&xattrs, &extents()));
    assert_eq!(known.file(&state(3), &meta), None);
    assert_eq!(known.file(&state(2), &Meta { mode: 0o600, ..meta }), None);
    assert_eq!(cache.find(&path(b"a/\xff\xff"), &mut |known| passed.push(known.path.clone())), None);
    // The one between them is passed; those that were found are not.
    assert_eq!(cache.find(&path(b"b"), &mut |known| passed.push(known.path.clone())), None);
    assert_eq!(passed, [b"a b"]);
    let mut cache = reader(&bytes);
    let known = cache.find(&path(b"a b"), &mut |_| {}).unwrap();
    let meta = Meta::default();
    assert_eq!((known.is_unsure(), known.file(&state(1), &meta).is_some()), (true, false));
    assert!(known.as_captured(&state(1), &meta).is_some() && known.as_captured(&state(2), &meta).is_none());
    cache.rest(&mut |_| {});
    assert!(cache.is_whole());
    // Of a file that is not whole, or of another kind, nothing is known.
    for len in 0..bytes.len() {
        assert!(!all(&bytes[..len]).1);
    }
    assert_eq!(reader(b"pstore/stat/4\n and so on").tree(), None);
}

#[test]
fn what_comes_before_a_damaged_block_is_known() {
    let mut bytes = many();
    let (known, is_whole) = all(&bytes);
    assert!(is_whole);
    assert!(known.iter().zip(0..20_000).all(|(known, number)| known.what == file(number)));
    bytes[2 * BLOCK_BYTES] ^= 1;
    let (some, is_whole) = all(&bytes);
    assert!(!is_whole && some.len() > 1000 && some.len() < 20_000, "{}", some.len());
}

/// A copy with changes equals a cache that is written from scratch.
#[test]
fn a_copy_has_everything_but_what_is_changed() {
    let bytes = many();
    for changed in [vec![], vec![0], vec![7, 8, 9_000], vec![19_999], (0..20_000).collect()] {
        let mut cache = reader(&bytes);
        let mut writer = StatCacheWriter::new(Vec::new(), &TREE).unwrap();
        for number in &changed {
            let path = numbered(*number);
            cache.copy(Some(&path), &mut writer).unwrap();
            // Every third is left out, and every second one is new.
            if number % 3 > 0 {
                push_unsure(&mut writer, path.as_bytes());
            }
            if number % 2 > 0 {
                push_unsure(&mut writer, &[path.as_bytes(), b".new"].concat());
            }
        }
        cache.copy(None, &mut writer).unwrap();
        let copied = writer.finish().unwrap();
        let mut expected = Vec::new();
        for number in 0..20_000 {
            let path = numbered(number).as_bytes().to_vec();
            let is_changed = changed.contains(&number);
            if !is_changed || number % 3 > 0 {
                let what = if is_changed { unsure() } else { file(number) };
                expected.push(Known { path: path.clone(), what });
            }
            if is_changed && number % 2 > 0 {
                let path = [&path[..], b".new"].concat();
                expected.push(Known { path, what: unsure() });
            }
        }
        assert!(all(&copied) == (expected, true), "{} changes", changed.len());
    }
}

#[test]
fn blocks_stay_few_however_often_they_are_copied() {
    let mut bytes = many();
    let len = bytes.len();
    for round in 0..200 {
        let mut cache = reader(&bytes);
        let mut writer = StatCacheWriter::new(Vec::new(), &TREE).unwrap();
        let path = numbered(round * 97);
        cache.copy(Some(&path), &mut writer).unwrap();
        writer.push_file(path.as_bytes(), &state(round * 97), &Meta::default(), &extents()).unwrap();
        cache.copy(None, &mut writer).unwrap();
        bytes = writer.finish().unwrap();
    }
    assert_eq!(all(&bytes), all(&many()));
    assert!(bytes.len() < len + len / 100, "{} {len}", bytes.len());
}

#[test]
fn what_is_damaged_is_not_copied() {
    let mut bytes = many();
    bytes[2 * BLOCK_BYTES] ^= 1;
    let mut writer = StatCacheWriter::new(Vec::new(), &TREE).unwrap();
    reader(&bytes).copy(None, &mut writer).unwrap_err();
}

/// Attributes of a directory may take more than a block.
#[test]
fn an_entry_that_is_longer_than_a_block_is_known() {
    let xattrs = (0..5).map(|number| (format!("user.{number}").into_bytes(), vec![7; 60_000])).collect();
    let large = Entry { meta: Meta { xattrs, ..Meta::default() }, ..folder(b"a") };
    let mut writer = StatCacheWriter::new(Vec::new(), &TREE).unwrap();
    writer.push_other(&large).unwrap();
    push_unsure(&mut writer, b"a/b");
    let (known, is_whole) = all(&writer.finish().unwrap());
    assert_eq!((known.len(), is_whole), (2, true));
}
