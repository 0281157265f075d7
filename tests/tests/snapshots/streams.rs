//! These tests read whole trees as streams, and compare what comes with the trees as they are read at once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
    sync::Arc,
};

use store::{
    Result,
    bucket::{Bucket, Recorder, Verb},
    content::{
        chunk::Piece,
        snapshot_tree::{
            SnapshotTree,
            stream::{LocatedEntry, TreeStream},
        },
    },
    format::tree::{Entry, Kind, Meta, TreePath},
    id::ChunkId,
    ops::read::{
        diff::{self, Change},
        open::Opened,
    },
};
use tests::{
    forge::{
        Forge,
        tree::{directory, file},
    },
    store_fixture::StoreFixture,
    tree::noise,
};

use super::by_need::{fill, stored};

async fn streamed(tree: SnapshotTree) -> Result<Vec<LocatedEntry>> {
    let mut stream = TreeStream::new(Arc::new(tree)).await?;
    let mut all = Vec::new();
    while let Some(entries) = stream.next().await? {
        all.extend(entries);
    }
    Ok(all)
}

fn assert_same(streamed: &[LocatedEntry], opened: &Opened) {
    assert!(streamed.iter().map(|found| &found.entry).eq(&opened.entries), "other entries");
    for (found, pieces) in streamed.iter().zip(opened.pieces()) {
        assert_eq!(found.pieces().collect::<Vec<Piece>>(), pieces, "of {}", found.entry.path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_has_every_entry_with_its_places() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    fill(&profile);
    let (fixture, opened) = stored(&store, &profile).await;
    let tree = SnapshotTree::open(&fixture.store, &opened.record).await.unwrap();
    assert_same(&streamed(tree).await.unwrap(), &opened);
    let recorder = Arc::new(Recorder::new(Arc::clone(&fixture.store.bucket)));
    let counted = fixture.on(Arc::clone(&recorder) as Arc<dyn Bucket>);
    let tree = SnapshotTree::by_need(&counted.store, &opened.record).await.unwrap();
    assert_same(&streamed(tree).await.unwrap(), &opened);
    assert_eq!(recorder.count(Verb::GetRange), 3, "the root, the segment with a hard link, and all of them");
    let mut forge = Forge::of(&store, "acme/alice/131");
    let entries = forge.entries.clone();
    forge.write(&entries);
    let tree = SnapshotTree::by_need(&fixture.store, &forge.record).await.unwrap();
    assert_same(&streamed(tree).await.unwrap(), &opened);
}

fn link(path: &str, target: &str) -> Entry {
    let target = TreePath::new(target).unwrap();
    Entry { meta: Meta::default(), kind: Kind::HardLink { target }, ..directory(path) }
}

/// Forged trees, each with the words that refuse it.
fn forgeries() -> Vec<(Vec<Entry>, &'static str)> {
    let many = || (0..3000).map(|at| file(&format!("m{at:05}"), b"content of a file"));
    let with = |more: Vec<Entry>| [directory("")].into_iter().chain(many()).chain(more).collect::<Vec<_>>();
    vec![
        (with(vec![file("n/file", b"")]), "n/file has no directory to be in"),
        (with(vec![directory("n"), file("o", b""), file("o/file", b"")]), "o/file has no directory to be in"),
        (with(vec![link("n", "m")]), "n links to m, which is no file"),
        (with(vec![directory("n"), link("o", "n")]), "o links to n, which is no file"),
        (with(vec![link("n", "m00000"), link("o", "n")]), "o links to n, which is no file"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_tree_is_refused_by_a_stream_too() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    std::fs::create_dir(&profile).unwrap();
    let (fixture, _) = stored(&store, &profile).await;
    let mut forge = Forge::of(&store, "acme/alice/131");
    for (entries, why) in forgeries() {
        forge.write_spanned(&entries);
        let whole = Opened::load(&fixture.store, forge.record.clone()).await.unwrap_err().to_string();
        assert!(whole.contains(why), "{whole}");
        let tree = SnapshotTree::by_need(&fixture.store, &forge.record).await.unwrap();
        assert!(tree.root().is_spanned() && tree.root().segments.len() > 3);
        assert_eq!(streamed(tree).await.unwrap_err().to_string(), whole);
    }
    let sound = [directory(""), directory("a"), file("a/file", b"x"), link("b", "a/file")];
    forge.write_spanned(&sound);
    let tree = SnapshotTree::by_need(&fixture.store, &forge.record).await.unwrap();
    assert!(streamed(tree).await.unwrap().iter().map(|found| &found.entry).eq(&sound));
}

/// What happened at each path, and how many bytes of each side are in chunks that the other tree has nowhere.
type Naive = BTreeMap<String, (Change, u64, u64)>;

/// The same, path by path, from the whole trees. Metadata is left out.
fn naive(before: &Opened, after: &Opened) -> Naive {
    let chunks = |opened: &Opened| -> HashMap<ChunkId, u32> {
        opened.entries.iter().flat_map(Entry::chunks).collect()
    };
    let (old, new) = (chunks(before), chunks(after));
    let unshared = |entry: Option<&Entry>, other: &HashMap<ChunkId, u32>| {
        let chunks = entry.into_iter().flat_map(Entry::chunks);
        chunks.filter(|(id, _)| !other.contains_key(id)).map(|(_, len)| u64::from(len)).sum::<u64>()
    };
    let find = |opened: &'_ Opened, path: &TreePath| -> Option<Entry> {
        opened.entries.iter().find(|entry| entry.path == *path).cloned()
    };
    let file = |opened: &Opened, entry: &Entry| match &entry.kind {
        Kind::HardLink { target } => find(opened, target).unwrap().kind,
        kind => kind.clone(),
    };
    let both = before.entries.iter().chain(&after.entries);
    let paths: BTreeSet<TreePath> = both.map(|entry| entry.path.clone()).collect();
    let mut found = Naive::new();
    for path in paths {
        let (a, b) = (find(before, &path), find(after, &path));
        let change = match (&a, &b) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            (Some(a), Some(b)) if file(before, a) != file(after, b) => Change::Content,
            _ => continue,
        };
        let sides = (unshared(a.as_ref(), &new), unshared(b.as_ref(), &old));
        found.insert(path.to_string(), (change, sides.0, sides.1));
    }
    found
}

/// Files whose content is in chunks, in several segments.
fn fill_with_chunks(profile: &Path) {
    for at in 0..2000_u64 {
        let folder = profile.join(format!("folder {}", at / 100));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("file {at}")), noise(6000, at)).unwrap();
    }
}

async fn opened(fixture: &StoreFixture) -> Opened {
    Opened::load(&fixture.store, fixture.current().await.unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_two_trees_have_alike_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let (profile, store) = (dir.path().join("profile"), dir.path().join("store"));
    fill_with_chunks(&profile);
    let (fixture, first) = stored(&store, &profile).await;
    let recorder = Arc::new(Recorder::new(Arc::clone(&fixture.store.bucket)));
    let counted = fixture.on(Arc::clone(&recorder) as Arc<dyn Bucket>);
    // What is fetched at most, as a part of all: a chunk that is gone may be anywhere in its pack.
    let edits: [(&str, u64, &dyn Fn()); 4] = [
        ("a new file", 6, &|| fs::write(profile.join("folder 3/new"), noise(7000, 90_000)).unwrap()),
        ("a file that moved", 4, &|| {
            fs::rename(profile.join("folder 1/file 100"), profile.join("folder 18/moved")).unwrap();
        }),
        ("a copy, and another file is gone", 1, &|| {
            fs::write(profile.join("folder 5/copy"), noise(6000, 1999)).unwrap();
            fs::remove_file(profile.join("folder 2/file 250")).unwrap();
        }),
        ("a link to a file that changes", 1, &|| {
            fs::hard_link(profile.join("folder 0/file 0"), profile.join("folder 9/link")).unwrap();
            fs::write(profile.join("folder 0/file 0"), noise(6500, 90_001)).unwrap();
        }),
    ];
    let mut before = first;
    for (what, part, edit) in edits {
        edit();
        fixture.snapshot(&profile).await.unwrap();
        let after = opened(&fixture).await;
        let trees = [&before, &after].map(|opened| SnapshotTree::by_need(&counted.store, &opened.record));
        let trees = futures::future::try_join_all(trees).await.unwrap();
        let trees: Vec<Arc<SnapshotTree>> = trees.into_iter().map(Arc::new).collect();
        assert!(trees[0].root().segments.len() > 10, "{what}");
        recorder.take();
        let found = diff::between(&trees[0], &trees[1]).await.unwrap();
        let read: u64 = recorder.take().iter().map(|call| call.bytes).sum();
        let all = trees.iter().map(|tree| tree.root().metadata_bytes()).sum::<u64>();
        println!("{what}: {read} of {all} bytes");
        assert!(read < all / part, "{what}: {read} of {all} bytes");
        let bytes = |side: Option<diff::Side>| side.map_or(0, |side| side.unshared_bytes);
        let lines = found.lines.iter().filter(|line| line.change != Change::Metadata);
        let lines: Naive = lines
            .map(|line| (line.path.to_string(), (line.change, bytes(line.before), bytes(line.after))))
            .collect();
        assert_eq!(lines, naive(&before, &after), "{what}");
        assert_eq!(found, diff::diff(&fixture.store, &before.record, &after.record).await.unwrap(), "{what}");
        let totals = found.totals;
        let same = totals.unchanged + totals.added + totals.changed + totals.metadata_changed;
        assert_eq!(same, after.entries.len() as u64, "{what}");
        before = after;
    }
}
