//! These tests commit changes of a tree that is read by need, and count what that takes.

use std::{path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, DelayBucket, MemoryBucket, Recorder, RetryBucket, RetryPolicy},
    content::{
        chunk::Piece,
        ingest::{Cutter, Files},
        snapshot_tree::SnapshotTree,
    },
    format::{
        record::{Counts, Record},
        tree::{Entry, Extent, Kind, Meta, TreePath},
    },
    ops::{
        gc,
        read::open::Opened,
        write::{
            commit::{self, Base, PutEntry, Stored, TreeChange, TreeChanges},
            snapshot::Report,
        },
    },
    progress::Silent,
};
use tests::{
    store_fixture::{StoreFixture, commit_request},
    tree::noise,
};

const FOLDERS: usize = 100;
const FILES_IN_EACH: usize = 200;
/// So long that what is asked side by side is on its way at the same time, however busy the machine is.
const ROUND_TRIP: Duration = Duration::from_millis(200);

/// The content of files, in their order.
struct Contents(Vec<Vec<u8>>);

impl Files for Contents {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> store::Result<()> {
        cutter
            .read_from(&mut &self.0[at][..], self.0[at].len() as u64)
            .map(drop)
            .map_err(|fault| fault.at("cannot read", "memory"))
    }
}

fn path(text: &str) -> TreePath {
    TreePath::new(text).unwrap()
}

fn put(path: TreePath, kind: Kind, file: Option<usize>, pieces: Vec<Piece>) -> TreeChange {
    let meta = Meta { mode: 0o755, ..Meta::default() };
    TreeChange::Put(PutEntry { entry: Entry { path, meta, kind }, file, pieces })
}

fn file(bytes: &[u8]) -> Kind {
    Kind::File { size: bytes.len() as u64, extents: vec![Extent::Inline(bytes.to_vec())] }
}

async fn committed(
    fixture: &StoreFixture,
    base: Option<Base>,
    changes: Vec<TreeChange>,
    contents: Vec<Vec<u8>>,
) -> (Report, Option<Stored>) {
    let hold = fixture.handle("test").acquire(Default::default(), Duration::ZERO).await.unwrap();
    let changed = committed_by(fixture, &hold, base, changes, contents).await;
    hold.release().await.unwrap();
    changed
}

async fn committed_by(
    fixture: &StoreFixture,
    hold: &store::catalog::lock::Hold,
    base: Option<Base>,
    changes: Vec<TreeChange>,
    contents: Vec<Vec<u8>>,
) -> (Report, Option<Stored>) {
    let changes = TreeChanges { changes, skipped: Default::default() };
    let request = commit_request(&fixture.lineage, Path::new("/mnt"));
    let (files, intend) = (Arc::new(Contents(contents)), async |_| Ok(()));
    let committed =
        commit::commit(&fixture.store, request, (changes, files), base, Some(hold), intend, Arc::new(Silent));
    let (report, mut stored) = committed.await.unwrap();
    // As a mount does it: nobody waits for this.
    if let Some(event) = stored.as_mut().and_then(|stored| stored.untold.take()) {
        hold.tell_later(event);
    }
    (report, stored)
}

/// A tree of many small files, and one that has chunks.
async fn many_files(fixture: &StoreFixture) -> Record {
    let mut changes = vec![put(TreePath::root(), Kind::Directory, None, Vec::new())];
    for folder in 0..FOLDERS {
        changes.push(put(path(&format!("folder-{folder:03}")), Kind::Directory, None, Vec::new()));
        for number in 0..FILES_IN_EACH {
            let name = format!("folder-{folder:03}/file-{number:03}");
            let kind = file(&noise(40, (folder * FILES_IN_EACH + number) as u64));
            changes.push(put(path(&name), kind, None, Vec::new()));
        }
    }
    changes.push(put(path("large"), file(&[]), Some(0), Vec::new()));
    committed(fixture, None, changes, vec![noise(300_000, 1)]).await.1.unwrap().record
}

/// What a mount knows of a snapshot whose tree it reads by need.
async fn by_need(fixture: &StoreFixture, record: &Record) -> Base {
    let tree = Arc::new(SnapshotTree::by_need(&fixture.store, record).await.unwrap());
    Base { record: record.clone(), tree }
}

fn counts(record: &Record) -> (u64, u64, u64) {
    let Counts { files, directories, chunks, .. } = record.counts;
    (files, directories, chunks)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_one_file_among_many_reads_and_writes_what_lies_around_it() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
    let fixture = StoreFixture::open(Arc::clone(&recorder) as Arc<dyn Bucket>, None).await;
    let record = many_files(&fixture).await;
    let stored_bytes = record.counts.stored_bytes;
    assert!(stored_bytes > 1 << 19, "{stored_bytes} bytes of metadata and files");
    let base = by_need(&fixture, &record).await;
    let segments = base.tree.root().segments.len();
    let changed = path("folder-050/file-100");
    let pieces = Vec::new();
    recorder.take();
    let changes = vec![put(changed.clone(), file(&[]), Some(0), pieces)];
    let (report, stored) = committed(&fixture, Some(base), changes, vec![noise(30_000, 7)]).await;
    let stored = stored.unwrap();
    let calls = recorder.take();
    let downloaded: u64 = calls.iter().filter(|call| call.verb.is_read()).map(|call| call.bytes).sum();
    let uploaded: u64 = calls.iter().filter(|call| !call.verb.is_read()).map(|call| call.bytes).sum();
    eprintln!("{} requests, {downloaded} bytes read, {uploaded} written of {stored_bytes}", calls.len());
    // The root is written anew, at some 120 bytes for each segment.
    assert!(uploaded < 30_000 + 64_000 + 160 * segments as u64, "{uploaded} bytes written: {calls:#?}");
    assert!(downloaded < 64_000, "{downloaded} bytes read: {calls:#?}");
    let ranges = calls.iter().filter(|call| call.key.contains("/packs/") && call.verb.is_read()).count();
    assert!(ranges <= 8, "{ranges} reads of packs: {calls:#?}");
    assert_eq!(report.counts.new_bytes, 30_000);
    let (files, directories, chunks) = counts(&record);
    let now = stored.record.counts.chunks;
    assert!(now > chunks, "{now} chunks after {chunks}");
    assert_eq!(counts(&stored.record), (files, directories, now));
    // It is the tree that reading all of it finds.
    let opened = Opened::load(&fixture.store, stored.record.clone()).await.unwrap();
    assert_eq!(opened.entries.len(), 2 + FOLDERS * (FILES_IN_EACH + 1));
    let found = opened.entries.iter().find(|entry| entry.path == changed).unwrap();
    assert_eq!(found.size(), 30_000);
    assert_eq!(stored.tree.file(&changed).await.unwrap().unwrap().entry, *found);
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_that_are_removed_and_moved_are_counted_and_found() {
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let record = many_files(&fixture).await;
    let base = by_need(&fixture, &record).await;
    let large = base.tree.file(&path("large")).await.unwrap().unwrap();
    let changes = vec![
        TreeChange::Removed(path("folder-010")),
        TreeChange::Removed(path("folder-099/file-199")),
        TreeChange::Removed(path("large")),
        put(path("largest"), large.entry.kind.clone(), None, large.pieces.clone()),
    ];
    let (_, stored) = committed(&fixture, Some(base), changes, Vec::new()).await;
    let stored = stored.unwrap();
    let (files, directories, chunks) = counts(&record);
    let gone = FILES_IN_EACH as u64 + 1;
    assert_eq!(counts(&stored.record), (files - gone, directories - 1, chunks));
    assert_eq!(stored.record.counts.new_chunks, 0, "what was moved is not stored again");
    let opened = Opened::load(&fixture.store, stored.record).await.unwrap();
    assert!(opened.entries.iter().all(|entry| !entry.path.is_within(&path("folder-010"))));
    assert_eq!(stored.tree.file(&path("largest")).await.unwrap().unwrap().pieces, large.pieces);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commits_leave_no_segment_behind_and_few_meta_packs() {
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let mut base = many_files(&fixture).await;
    for number in 0..20 {
        let changed = path(&format!("folder-{:03}/file-007", number * 5));
        let on = by_need(&fixture, &base).await;
        let changes = vec![put(changed, file(&noise(50, 1000 + number)), None, Vec::new())];
        base = committed(&fixture, Some(on), changes, Vec::new()).await.1.unwrap().record;
        let content = base.content.as_ref().unwrap();
        let packs: std::collections::BTreeSet<_> =
            content.meta_ranges.iter().map(|range| range.pack).collect();
        assert!(packs.len() <= 8, "{} meta packs", packs.len());
    }
    let opened = Opened::load(&fixture.store, base).await.unwrap();
    assert_eq!(opened.entries.len(), 2 + FOLDERS * (FILES_IN_EACH + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_commit_far_away_waits_for_few_answers_one_after_another() {
    let delayed = Arc::new(DelayBucket::new(Arc::new(MemoryBucket::new())));
    let bucket = Arc::new(RetryBucket::new(Arc::clone(&delayed) as Arc<dyn Bucket>, RetryPolicy::default()));
    let fixture = StoreFixture::open(Arc::clone(&bucket) as Arc<dyn Bucket>, None).await;
    let record = many_files(&fixture).await;
    let base = by_need(&fixture, &record).await;
    base.tree.entry(&path("folder-050/file-100")).await.unwrap();
    let hold = fixture.handle("test").acquire(Default::default(), Duration::ZERO).await.unwrap();
    delayed.set(ROUND_TRIP);
    let before = bucket.round_trips();
    let changes = vec![put(path("folder-050/file-100"), file(&[]), Some(0), Vec::new())];
    committed_by(&fixture, &hold, Some(base), changes, vec![noise(30_000, 7)]).await;
    let rounds = bucket.round_trips() - before;
    delayed.set(Duration::ZERO);
    hold.release().await.unwrap();
    eprintln!("{rounds} round trips");
    // Lease; what is condemned, beside the data; metadata, beside the base; record, beside the lock; pointer.
    assert!(rounds <= 5, "{rounds} round trips");
}

/// Stores changes as work in progress, where an `earlier` state of them may be stored.
async fn saved(
    fixture: &StoreFixture,
    base: &Base,
    earlier: Option<&Stored>,
    contents: &[Vec<u8>],
) -> (Report, Stored) {
    let names = ["database", "folder-050/file-100"].iter().enumerate();
    let changes = names.map(|(number, name)| put(path(name), file(&[]), Some(number), Vec::new())).collect();
    let changes = TreeChanges { changes, skipped: Default::default() };
    let mut request = commit_request(&fixture.lineage, Path::new("/mnt"));
    let as_base =
        |Stored { record, tree, .. }: &Stored| Base { record: record.clone(), tree: Arc::clone(tree) };
    request.earlier = earlier.map(as_base);
    let (files, intend) = (Arc::new(Contents(contents.to_vec())), async |_| Ok(()));
    let base = Some(base.clone());
    let stored =
        commit::commit(&fixture.store, request, (changes, files), base, None, intend, Arc::new(Silent));
    let (report, stored) = stored.await.unwrap();
    (report, stored.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_stores_what_was_changed_since_the_save_before_it() {
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
    let fixture = StoreFixture::open(Arc::clone(&recorder) as Arc<dyn Bucket>, None).await;
    let record = many_files(&fixture).await;
    let base = by_need(&fixture, &record).await;
    let mut contents = vec![noise(4_000_000, 8), noise(30_000, 7)];
    let taken = || {
        let calls = recorder.take();
        let uploaded: u64 = calls.iter().filter(|call| !call.verb.is_read()).map(|call| call.bytes).sum();
        (calls.len(), uploaded)
    };
    taken();
    let (_, first) = saved(&fixture, &base, None, &contents).await;
    let (requests, bytes) = taken();
    contents[0][2_000_000..2_001_000].copy_from_slice(&noise(1000, 9));
    let (report, second) = saved(&fixture, &base, Some(&first), &contents).await;
    let (requests_again, bytes_again) = taken();
    eprintln!("{requests} requests, {bytes} bytes; then {requests_again} and {bytes_again}");
    assert!(bytes > 4_000_000 && report.counts.new_bytes < 300_000, "{:?}", report.counts);
    // Of metadata, what lies around the changed files, and the root.
    assert!(bytes_again < 450_000, "{bytes_again} bytes");
    // Another look at the save before, and no more.
    assert!(requests_again <= requests + 1, "{requests_again} requests after {requests}");

    // The save before may go as soon as this one is there.
    let collect = async || {
        let options = gc::Options::after(Duration::ZERO);
        gc::Collector::new(fixture.store.clone(), options).run_through().await.unwrap();
        fixture.assert_clean().await;
    };
    let handle = fixture.handle("test");
    handle.delete(first.record.record, "").await.unwrap();
    collect().await;
    let opened = Opened::load(&fixture.store, second.record.clone()).await.unwrap();
    assert_eq!(opened.entries.len(), 3 + FOLDERS * (FILES_IN_EACH + 1));

    // If it has gone before, what it had is stored once more, and read from the files.
    handle.delete(second.record.record, "").await.unwrap();
    collect().await;
    let (report, _) = saved(&fixture, &base, Some(&second), &contents).await;
    assert_eq!(report.counts.new_bytes, 4_030_000);
    collect().await;
}
