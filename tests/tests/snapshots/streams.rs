//! These tests read whole trees as streams, and compare what comes with the trees as they are read at once.

use std::sync::Arc;

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
    format::tree::{Entry, Kind, TreePath},
    ops::read::open::Opened,
};
use tests::forge::{
    Forge,
    tree::{directory, file},
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
    Entry { kind: Kind::HardLink { target }, ..directory(path) }
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
