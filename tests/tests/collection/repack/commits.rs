//! These tests commit on a snapshot whose chunks are moved, damaged or repaired meanwhile.

use std::{fs, path::Path, sync::Arc, time::Duration};

use store::{
    Error,
    bucket::{Bucket, Key, MemoryBucket},
    content::ingest::{Cutter, Files},
    format::tree::Kind,
    ops::{
        gc::Collector,
        read::open::Opened,
        verify,
        write::{
            commit::{Request, whole as commit},
            snapshot::{Outcome, Report},
        },
    },
    progress::Silent,
};
use tests::store_fixture::{REPAIR, StoreFixture, commit_request};

use crate::repack::{NOW, deleted, fill, readers::opened};

struct NoFiles;

impl Files for NoFiles {
    fn len(&self) -> usize {
        0
    }

    fn read(&self, _: usize, _: &mut Cutter<'_>) -> store::Result<()> {
        unreachable!()
    }
}

async fn base(fixture: &StoreFixture) -> commit::Base {
    let Opened { record, metadata, .. } = opened(fixture).await.1;
    commit::Base { record, metadata: Arc::new(metadata) }
}

/// Commits what `base` holds without one of its files. `meanwhile` happens before it is published. As a mount does, it
/// takes for granted that the base is as it was read, and begins anew if it is not.
async fn commit_without(
    fixture: &StoreFixture,
    base: commit::Base,
    source: &Path,
    file: &str,
    meanwhile: impl AsyncFnOnce(),
) -> (Report, commit::Stored) {
    let (mut entries, _) = base.metadata.decode().unwrap();
    entries.retain(|entry| !entry.path.to_string().ends_with(file));
    fs::remove_file(source.join(file)).unwrap();
    let hold = fixture.handle("test").acquire(Default::default(), Duration::ZERO).await.unwrap();
    let mut meanwhile = Some(meanwhile);
    for trusts_base in [true, false] {
        let request = Request { trusts_base, ..commit_request(&fixture.lineage, source) };
        let entries = entries.clone();
        let tree = commit::Tree { entries, changed: Vec::new(), skipped: Default::default(), bytes: 1 };
        let on = commit::Base { record: base.record.clone(), metadata: Arc::clone(&base.metadata) };
        let intend = async |_| {
            if let Some(meanwhile) = meanwhile.take() {
                meanwhile().await;
            }
            Ok(())
        };
        let (files, silent) = (Arc::new(NoFiles), Arc::new(Silent));
        let committed =
            commit::commit(&fixture.store, request, (tree, files), Some(on), Some(&hold), intend, silent);
        match committed.await {
            Err(Error::WriteRevoked { .. }) if trusts_base => {
                assert_eq!(fixture.current().await.unwrap().record, base.record.record);
            }
            committed => {
                let (report, stored) = committed.unwrap();
                hold.release().await.unwrap();
                return (report, stored.unwrap());
            }
        }
    }
    unreachable!("the last attempt ends in any case")
}

/// The current snapshot is whole, and holds what is left in `source`.
async fn assert_holds(fixture: &StoreFixture, source: &Path, files: usize) {
    fixture.assert_clean().await;
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    fixture.restore(&out).await.unwrap();
    for file in fs::read_dir(source).unwrap() {
        let name = file.unwrap().file_name();
        assert!(fs::read(source.join(&name)).unwrap() == fs::read(out.join(&name)).unwrap(), "{name:?}");
    }
    assert_eq!(fs::read_dir(&out).unwrap().count(), files);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_on_what_was_moved_refers_to_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = deleted(Arc::new(MemoryBucket::new()), dir.path()).await;
    let base = base(&fixture).await;
    let collector = Collector::new(fixture.store.clone(), NOW);
    assert!(collector.run_through().await.unwrap().repacked.records == 1);
    let (report, _) = commit_without(&fixture, base, dir.path(), "05", async || {}).await;
    assert_eq!(report.counts.new_chunks, 0);
    collector.run_through().await.unwrap();
    assert_holds(&fixture, dir.path(), 23).await;
}

/// As after a commit whose record was changed when it was published already.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_goes_on_from_metadata_that_is_older_than_the_record() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = deleted(Arc::new(MemoryBucket::new()), dir.path()).await;
    let before = base(&fixture).await;
    Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    let base = commit::Base { record: fixture.current().await.unwrap(), ..before };
    let (report, _) = commit_without(&fixture, base, dir.path(), "05", async || {}).await;
    assert_eq!(report.counts.new_chunks, 0);
    assert_holds(&fixture, dir.path(), 23).await;
}

/// What a commit was built on is emptied before it is published: it refers to packs that are
/// condemned by then. Until they are pardoned, commits on it store their content again.
#[tokio::test(flavor = "multi_thread")]
async fn commits_go_on_after_one_that_a_collection_ran_beside() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = deleted(Arc::new(MemoryBucket::new()), dir.path()).await;
    let collector = Collector::new(fixture.store.clone(), NOW);
    let meanwhile = async || {
        let done = collector.run().await.unwrap();
        assert!(done.repacked.records == 1 && !done.condemned.is_empty(), "{done:#?}");
    };
    let (report, stored) = commit_without(&fixture, base(&fixture).await, dir.path(), "05", meanwhile).await;
    assert_eq!(report.counts.new_chunks, 0);
    let next = commit::Base { record: stored.record, metadata: stored.metadata };
    let (report, stored) = commit_without(&fixture, next, dir.path(), "07", async || {}).await;
    assert!(report.counts.new_chunks > 0, "{report:?}");
    assert_holds(&fixture, dir.path(), 22).await;
    let next = commit::Base { record: stored.record, metadata: stored.metadata };
    let (report, _) = commit_without(&fixture, next, dir.path(), "08", async || {}).await;
    assert_eq!(report.counts.new_chunks, 0);
    collector.run_through().await.unwrap();
    assert_holds(&fixture, dir.path(), 21).await;
}

/// Damages the first frame of the first pack there is.
async fn spoil(memory: &MemoryBucket) -> Key {
    let first = memory.keys().into_iter().find(|key| key.contains("/packs/")).unwrap();
    let first = Key::new(first).unwrap();
    let mut bytes = memory.get(&first, u64::MAX).await.unwrap().bytes.to_vec();
    bytes[1000] ^= 1;
    memory.damage(&first, bytes);
    first
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_on_a_damaged_snapshot_goes_on_and_carries_the_mark() {
    for is_missing in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::new());
        let fixture = StoreFixture::open(memory.clone(), None).await;
        fill(dir.path(), 0);
        fixture.snapshot(dir.path()).await.unwrap();
        let pack = spoil(&memory).await;
        if is_missing {
            memory.delete(&pack).await.unwrap();
        }
        let report =
            verify::verify(&fixture.store, &fixture.lineage, REPAIR, Arc::new(Silent)).await.unwrap();
        let lost = report.damage.iter().flat_map(|damage| &damage.files).next().unwrap().clone();
        let whole = if lost == "05" { "06" } else { "05" };
        let (_, stored) =
            commit_without(&fixture, base(&fixture).await, dir.path(), whole, async || {}).await;
        let files = stored.record.damage.as_ref().map(|mark| mark.files);
        assert_eq!(files, Some(if is_missing { 23 } else { 1 }));
        let (_, stored) =
            commit_without(&fixture, base(&fixture).await, dir.path(), &lost, async || {}).await;
        assert_eq!(stored.record.damage.is_some(), is_missing);
        let out = tempfile::tempdir().unwrap();
        let restored = fixture.restore(&out.path().join("out")).await;
        assert_eq!(restored.is_err(), is_missing);
    }
}

/// Files of a mount, written again with these bytes.
struct Rewritten(Vec<Vec<u8>>);

impl Files for Rewritten {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> store::Result<()> {
        cutter
            .read_from(&mut &*self.0[at], u64::MAX)
            .map(drop)
            .map_err(|fault| fault.at("cannot read", "memory"))
    }
}

/// Commits what `base` holds, with all files written again as they were.
async fn commit_rewritten(fixture: &StoreFixture, base: commit::Base, source: &Path) -> Report {
    let (entries, _) = base.metadata.decode().unwrap();
    let is_file = |at: &usize| matches!(entries[*at].kind, Kind::File { .. });
    let changed: Vec<usize> = (0..entries.len()).filter(is_file).collect();
    let read = |at: &usize| fs::read(source.join(entries[*at].path.to_string())).unwrap();
    let files = Arc::new(Rewritten(changed.iter().map(read).collect()));
    let tree = commit::Tree { entries, changed, skipped: Default::default(), bytes: 1 };
    let hold = fixture.handle("test").acquire(Default::default(), Duration::ZERO).await.unwrap();
    let request = Request { trusts_base: false, ..commit_request(&fixture.lineage, source) };
    let intend = async |_| Ok(());
    let committed = commit::commit(
        &fixture.store,
        request,
        (tree, files),
        Some(base),
        Some(&hold),
        intend,
        Arc::new(Silent),
    );
    let (report, _) = committed.await.unwrap();
    hold.release().await.unwrap();
    report
}

/// Somebody puts a damaged file back as it was, with its time. The tree is the same, so there would be nothing
/// to commit; but the mount alone has what the store has lost, whether it knew that from the start or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_what_the_base_has_lost_stores_it_though_the_tree_is_the_same() {
    for is_known in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::new());
        let fixture = StoreFixture::open(memory.clone(), None).await;
        fill(dir.path(), 0);
        let before = fixture.snapshot(dir.path()).await.unwrap();
        let opened = base(&fixture).await;
        let report = commit_rewritten(&fixture, base(&fixture).await, dir.path()).await;
        assert_eq!(report.outcome, Outcome::Unchanged);
        spoil(&memory).await;
        let report =
            verify::verify(&fixture.store, &fixture.lineage, REPAIR, Arc::new(Silent)).await.unwrap();
        assert_eq!(report.marked.len(), 1);
        let base = if is_known { base(&fixture).await } else { opened };
        let report = commit_rewritten(&fixture, base, dir.path()).await;
        assert_eq!((report.outcome, report.snapshot_id), (Outcome::Stored, before.snapshot_id), "{is_known}");
        let current = fixture.current().await.unwrap();
        assert_eq!((current.record, &current.damage), (report.record, &None), "{is_known}");
        let out = tempfile::tempdir().unwrap();
        let out = out.path().join("out");
        fixture.restore(&out).await.unwrap();
        tests::tree::assert_same(dir.path(), &out);
    }
}

/// The mount knows its base as it was; the good copy that a repair has found is what counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_commit_on_a_snapshot_that_was_repaired_meanwhile_refers_to_the_good_copy() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    fill(dir.path(), 0);
    fixture.snapshot(dir.path()).await.unwrap();
    let pack = spoil(&memory).await;
    let base = base(&fixture).await;
    // Somebody else stores the same, and the damage is made good by that.
    let bob = StoreFixture { lineage: tests::store_fixture::lineage("acme/bob"), ..fixture.clone() };
    let apart = store::ops::write::snapshot::Request {
        index_budget: 0,
        ..tests::store_fixture::request(&bob.lineage, dir.path())
    };
    bob.capture(&apart).await.unwrap();
    let report = verify::verify(&fixture.store, &fixture.lineage, REPAIR, Arc::new(Silent)).await.unwrap();
    assert!(report.damage.is_empty() && !report.repaired.is_empty(), "{report:#?}");
    memory.get(&pack, u64::MAX).await.unwrap();
    let (_, stored) = commit_without(&fixture, base, dir.path(), "05", async || {}).await;
    assert_eq!(stored.record.damage, None);
    assert_holds(&fixture, dir.path(), 23).await;
}
