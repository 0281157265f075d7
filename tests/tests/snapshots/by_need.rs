//! These tests read a snapshot's tree by need, and compare what they find with the tree as it is read whole.

use std::{
    ffi::OsStr,
    fs::{self, File},
    os::unix::{ffi::OsStrExt, fs::FileExt},
    path::Path,
    sync::Arc,
};

use store::{
    bucket::{Access, Bucket, LocalBucket, Recorder, Verb},
    content::{chunk::Piece, snapshot_tree::SnapshotTree},
    format::tree::{Entry, Kind, TreePath},
    ops::read::{
        browse::{self, Listing, WholeTree},
        open::Opened,
    },
};
use tests::{forge::Forge, store_fixture::StoreFixture, tree::noise};

/// Of a sparse file, so many that they fill segments.
const RUNS: u64 = 5000;

/// Several segments: many small files, directories in directories, names at the edges of the order, hard links,
/// and a file whose extents alone fill segments.
pub(super) fn fill(directory: &Path) {
    let long = "l".repeat(255);
    let folders = [
        "a",
        "a/deep/er",
        "a/deep\u{1}",
        "a!",
        "b c",
        "empty",
        &long,
        &format!("{long}/in"),
        "many",
        "\u{1}",
    ];
    for folder in folders {
        fs::create_dir_all(directory.join(folder)).unwrap();
    }
    for at in 0..600 {
        let folder = folders[at % 5];
        fs::write(directory.join(folder).join(format!("file-{at:04}")), format!("content {at}")).unwrap();
        fs::write(directory.join("many").join(format!("{at}")), noise(5000, at as u64)).unwrap();
    }
    fs::write(directory.join(OsStr::from_bytes(b"many/\xff\n")), b"no text").unwrap();
    let big = File::create(directory.join("big")).unwrap();
    for run in 0..RUNS {
        big.write_all_at(&noise(100, run), run * (64 << 10)).unwrap();
    }
    fs::write(directory.join(&long).join("last"), b"last").unwrap();
    fs::hard_link(directory.join("big"), directory.join("many/linked")).unwrap();
    std::os::unix::fs::symlink("big", directory.join("many/symlink")).unwrap();
}

pub(super) async fn stored(store: &Path, directory: &Path) -> (StoreFixture, Opened) {
    fs::create_dir(store).unwrap();
    let bucket = LocalBucket::open(store, Access::ReadWrite).unwrap();
    let fixture = StoreFixture::open(Arc::new(bucket), None).await;
    fixture.snapshot(directory).await.unwrap();
    let opened = Opened::load(&fixture.store, fixture.current().await.unwrap()).await.unwrap();
    (fixture, opened)
}

async fn assert_same(tree: &SnapshotTree, opened: &Opened) {
    let pieces: Vec<Vec<Piece>> = opened.pieces().collect();
    for (entry, pieces) in opened.entries.iter().zip(pieces) {
        let found = tree.entry(&entry.path).await.unwrap().expect("an entry");
        assert_eq!((&found.path, &found.meta), (&entry.path, &entry.meta));
        let file = tree.file(&entry.path).await.unwrap();
        assert_eq!(file.is_some(), matches!(entry.kind, Kind::File { .. }), "{}", entry.path);
        if let Some(file) = file {
            assert!(file.entry == *entry && file.pieces == pieces, "{}", entry.path);
        }
        let in_it = |other: &&Entry| other.path.parent() == Some(entry.path.as_bytes());
        let expected: Vec<&TreePath> = opened.entries.iter().filter(in_it).map(|entry| &entry.path).collect();
        if entry.kind == Kind::Directory {
            let children = tree.children(&entry.path).await.unwrap();
            assert!(children.iter().map(|child| &child.path).eq(expected), "in {}", entry.path);
            let mut below = Vec::new();
            tree.below(&entry.path, |entry| below.push(entry.path.clone())).await.unwrap();
            let within = |other: &&Entry| other.path != entry.path && other.path.is_within(&entry.path);
            let expected = opened.entries.iter().filter(within).map(|entry| &entry.path);
            assert!(below.iter().eq(expected), "below {}", entry.path);
        }
    }
    for missing in ["0", "a/deep/er/", "a/x", "many/600", "zzz"] {
        let path = TreePath::new(missing.trim_end_matches('/')).unwrap();
        let is_there = opened.entries.iter().any(|entry| entry.path == path);
        assert_eq!(tree.entry(&path).await.unwrap().is_some(), is_there, "{missing}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_is_the_same_by_need_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    fill(&profile);
    let (fixture, opened) = stored(&store, &profile).await;
    let segments = opened.metadata.root.segments.len();
    assert!(segments > 8, "{segments} segments");
    let spans = || opened.metadata.root.segments.iter().filter_map(|segment| segment.span.as_ref());
    assert!(spans().any(|span| span.entries == 0), "no segment has a part of a file alone");
    assert_same(&SnapshotTree::by_need(&fixture.store, &opened.record).await.unwrap(), &opened).await;
    assert_same(&SnapshotTree::open(&fixture.store, &opened.record).await.unwrap(), &opened).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_path_takes_two_requests_however_many_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    fill(&profile);
    let (fixture, opened) = stored(&store, &profile).await;
    let recorder = Arc::new(Recorder::new(Arc::clone(&fixture.store.bucket)));
    let counted = fixture.on(Arc::clone(&recorder) as Arc<dyn Bucket>);
    let tree = SnapshotTree::by_need(&counted.store, &opened.record).await.unwrap();
    assert_eq!(recorder.count(Verb::GetRange), 1, "the root");
    let path = TreePath::new("many/300").unwrap();
    assert!(tree.file(&path).await.unwrap().is_some());
    assert_eq!(recorder.count(Verb::GetRange), 2, "and one segment with its table, and some that follow");
    tree.entry(&path).await.unwrap().unwrap();
    assert_eq!(recorder.count(Verb::GetRange), 2, "which is held");
}

/// Stores that were written before roots had spans are read as before.
#[tokio::test(flavor = "multi_thread")]
async fn a_root_without_spans_is_read_too() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    fill(&profile);
    let (fixture, opened) = stored(&store, &profile).await;
    let mut forge = Forge::of(&store, &format!("{}/{}", fixture.lineage.name, fixture.lineage.chrome_major));
    let entries = forge.entries.clone();
    forge.write(&entries);
    let opened = Opened { record: forge.record.clone(), ..opened };
    let tree = SnapshotTree::by_need(&fixture.store, &forge.record).await.unwrap();
    assert_same(&tree, &opened).await;
    let path = TreePath::new("many/linked").unwrap();
    let mut listing = Listing::open(&fixture.store, &forge.record, &path, false).await.unwrap().unwrap();
    let listed = listing.next().await.unwrap().unwrap();
    assert_eq!(listed[0].file().unwrap().size(), (RUNS - 1) * (64 << 10) + 100);
    assert!(listing.next().await.unwrap().is_none());
    listing.close().await;
    // What is written on top of it has spans.
    fs::write(profile.join("new"), b"new").unwrap();
    fixture.snapshot(&profile).await.unwrap();
    let now = Opened::load(&fixture.store, fixture.current().await.unwrap()).await.unwrap();
    assert!(now.metadata.root.is_spanned());
    fixture.assert_clean().await;
}

/// The same as `browse::part`, from all entries.
fn naive_part(entries: &[Entry], top: Option<&TreePath>) -> Vec<Entry> {
    let is_in = |path: &TreePath| {
        top.is_none_or(|top| path.is_within(top) || (!path.is_root() && top.is_within(path)))
    };
    let file = |entry: &Entry| match &entry.kind {
        Kind::HardLink { target } => {
            let file = entries.iter().find(|file| file.path == *target).unwrap().clone();
            Entry { path: entry.path.clone(), ..file }
        }
        _ => entry.clone(),
    };
    entries.iter().filter(|entry| is_in(&entry.path)).map(file).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_tree_is_read_without_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    fill(&profile);
    fs::create_dir(profile.join("z")).unwrap();
    for at in 0..45_000 {
        fs::write(profile.join("z").join(format!("{at:05}")), noise(100, at)).unwrap();
    }
    let (fixture, opened) = stored(&store, &profile).await;
    let recorder = Arc::new(Recorder::new(Arc::clone(&fixture.store.bucket)));
    let counted = fixture.on(Arc::clone(&recorder) as Arc<dyn Bucket>);
    let all = opened.metadata.root.metadata_bytes();
    assert!(all > 5 << 20, "{all} bytes are read at once");
    let tops =
        ["", "a", "a/deep/er", "a!", "big", "many", "many/linked", "many/300", "a/deep/gone", "gone/far"];
    for top in tops.map(|top| TreePath::new(top).unwrap()) {
        recorder.take();
        let part = browse::part(&counted.store, &opened.record, &top).await.unwrap();
        assert!(part == naive_part(&opened.entries, Some(&top)), "at {top}");
        let read: u64 = recorder.take().iter().map(|call| call.bytes).sum();
        assert!(top.is_root() || read < all / 4, "{read} of {all} bytes at {top}");
    }
    let mut whole = WholeTree::open(&counted.store, &opened.record).await.unwrap();
    let (mut all, mut most) = (Vec::new(), 0);
    while let Some(entries) = whole.next().await.unwrap() {
        most = most.max(entries.len());
        all.extend(entries);
    }
    whole.close().await;
    assert!(all == naive_part(&opened.entries, None), "of all");
    assert!(most < all.len() / 4, "{most} of {} entries are held at once", all.len());
}
