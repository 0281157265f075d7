//! These tests read a snapshot while its chunks are moved: a reader goes on where they are, or is told what became
//! of it.

use std::{fs, path::Path, sync::Arc, time::Duration};

use store::{
    ErrorKind,
    bucket::{Access, Bucket, LocalBucket, MemoryBucket, Verb},
    catalog::pins,
    content::{
        chunk_fetcher::{ChunkFetcher, ChunkLookup, Limits},
        relocator::Relocator,
    },
    format::{
        layout,
        record::{Record, State},
    },
    ops::{
        gc::Collector,
        read::{locate::SnapshotLocator, open::Opened},
    },
};
use tests::{interrupter::Interrupter, store_fixture::StoreFixture, tree::assert_same};
use tokio::runtime::Handle;

use crate::repack::{NOW, deleted, fill};

/// What somebody has opened who reads it lazily, as a mount does.
pub async fn opened(fixture: &StoreFixture) -> (Arc<ChunkFetcher>, Opened) {
    let record = fixture.current().await.unwrap();
    let below = SnapshotLocator::new(fixture.store.clone(), Some((fixture.lineage.clone(), record.record)));
    let relocator = Relocator::new(Arc::new(below));
    let fetcher = ChunkFetcher::new(fixture.store.clone(), Handle::current(), Limits::default(), relocator);
    (fetcher, Opened::load(&fixture.store, record).await.unwrap())
}

async fn read_all(fetcher: &Arc<ChunkFetcher>, opened: &Opened, source: &Path) {
    for (entry, pieces) in opened.entries.iter().zip(opened.pieces()) {
        if pieces.is_empty() {
            continue;
        }
        let chunks = match fetcher.now(&pieces) {
            ChunkLookup::Here(chunks) => chunks.unwrap(),
            ChunkLookup::Away(found) => fetcher.fetch_rest(found).await.unwrap(),
        };
        let read: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
        assert!(read == fs::read(source.join(entry.path.to_string())).unwrap(), "{}", entry.path);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_lazily_goes_on_where_the_chunks_are() {
    let dir = tempfile::tempdir().unwrap();
    let disk = LocalBucket::open(&dir.path().join("store"), Access::Create).unwrap();
    let buckets: [Arc<dyn Bucket>; 2] = [Arc::new(MemoryBucket::new()), Arc::new(disk)];
    for (number, bucket) in buckets.into_iter().enumerate() {
        let source = dir.path().join(format!("source{number}"));
        let fixture = deleted(bucket, &source).await;
        let (fetcher, opened) = opened(&fixture).await;
        let before = fixture.current().await.unwrap();
        let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
        assert!(done.repacked.records == 1 && done.deleted.packs > 0, "{done:#?}");
        read_all(&fetcher, &opened, &source).await;
        // And so does whoever has read the record before.
        let out = dir.path().join(format!("out{number}"));
        fixture.restore_record(&before, &out).await.unwrap();
        assert_same(&source, &out);
        assert!(pins::read(&fixture.store).await.unwrap().is_empty(), "a restore lets go of what it pinned");
    }
}

/// Once the snapshot is deleted, whoever reads it is told so, and not that it is damaged.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_is_not_called_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let fixture = deleted(Arc::new(MemoryBucket::new()), &source).await;
    let (fetcher, opened) = opened(&fixture).await;
    fill(&source, 7);
    fixture.snapshot(&source).await.unwrap();
    fixture.handle("test").delete(opened.record.record, "").await.unwrap();
    Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    let pieces: Vec<_> = opened.pieces().flatten().collect();
    let error = fetcher.chunks(&pieces).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

/// A deletion that is given up for a pin has the record in the trash for a moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_waits_while_a_deletion_is_undecided() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let memory = Arc::new(MemoryBucket::new());
    let fixture = deleted(memory.clone(), &source).await;
    let live = fixture.current().await.unwrap();
    let key = layout::record(&fixture.lineage, live.record);
    let trashed = Record { state: State::Trashed, ..live.clone() };
    memory.damage(&key, trashed.encode());
    let (back, undone) = (memory.clone(), live.encode());
    // Who may not keep its pin takes it away, and looks again a while later.
    let deed = move || {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            back.damage(&key, undone);
        });
        Box::pin(async {}) as _
    };
    let pins = layout::pins(&fixture.store.tenant);
    let bucket = Arc::new(Interrupter::before(memory, Verb::Delete, pins.as_str(), Box::new(deed)));
    let reader = StoreFixture::open(bucket.clone(), None).await;
    let out = dir.path().join("out");
    reader.restore_record(&live, &out).await.unwrap();
    assert!(bucket.is_done(), "the reader kept its pin");
    assert_same(&source, &out);
}
