//! These tests read a snapshot from beginning to end, though a collection empties the packs it lies in meanwhile.

use std::{fs, path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, Key, MemoryBucket},
    catalog::pins,
    format::{layout, record::Record},
    id::{RecordId, Sha256},
    ops::{
        archive::export::{self, Framing, Times},
        gc::{Collector, Options},
        read::{diff, open::Opened},
    },
    progress::Silent,
};
use tests::{interrupter::Interrupter, store_fixture::StoreFixture, tree::noise};
use tokio::runtime::Handle;

const NOW: Options = Options { min_unused_bytes: 0, ..Options::after(Duration::ZERO) };

/// Two snapshots, each with much that only deleted ones shared.
async fn fixture(memory: &Arc<MemoryBucket>, source: &Path) -> (StoreFixture, [Record; 2]) {
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let mut records = Vec::new();
    for round in 0..4 {
        for file in 0..24 {
            let seed = if file % 3 == 0 { 1000 * (round + 1) + file } else { file };
            fs::write(source.join(format!("{file:02}")), noise(60_000, seed)).unwrap();
        }
        fixture.snapshot(source).await.unwrap();
        records.push(fixture.current().await.unwrap());
    }
    for record in &records[..2] {
        fixture.handle("test").delete(record.record, "").await.unwrap();
    }
    let [.., before, after] = <[Record; 4]>::try_from(records).unwrap();
    (fixture, [before, after])
}

/// What goes on beside a reader.
#[derive(Clone, Copy, Debug)]
enum Beside {
    /// Somebody deletes what is read, and collects.
    Deletion(RecordId),
    /// The pins of the reader have expired, and somebody collects.
    Expiry,
}

async fn happen(beside: Beside, memory: &MemoryBucket, fixture: &StoreFixture) {
    match beside {
        // Whether that is refused is seen by whether it can still be read.
        Beside::Deletion(record) => drop(fixture.handle("other").delete(record, "").await),
        Beside::Expiry => {
            let pins = layout::pins(&fixture.store.tenant);
            for pin in memory.keys().iter().filter(|key| key.starts_with(pins.as_str())) {
                memory.delete(&Key::new(pin).unwrap()).await.unwrap();
            }
        }
    }
    let done = Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
    assert!(done.repacked.records > 0, "{done:#?}");
}

/// Another host on the same store, just before whose first read below `prefix` that happens.
async fn disturbed(
    memory: &Arc<MemoryBucket>,
    prefix: &str,
    beside: Beside,
) -> (StoreFixture, Arc<Interrupter>) {
    let (bucket, meanwhile) = (memory.clone(), StoreFixture::open(memory.clone(), None).await);
    let happening = move || Handle::current().block_on(happen(beside, &bucket, &meanwhile));
    let deed = Box::new(|| Box::pin(async { tokio::task::spawn_blocking(happening).await.unwrap() }) as _);
    let interrupter = Arc::new(Interrupter::before_reading(memory.clone(), prefix, deed));
    (StoreFixture::open(interrupter.clone(), None).await, interrupter)
}

async fn tar(fixture: &StoreFixture, record: &Record) -> store::Result<Sha256> {
    let request = export::Request {
        framing: Framing::Solid { level: 1, threads: 1 },
        times: Times::Exact,
        seal: None,
        max_bytes: u64::MAX,
    };
    let out = (Vec::new(), "memory".into());
    let written = export::write(&fixture.store, record, request, out, Arc::new(Silent)).await;
    written.map(|(archive, _)| archive.tar_sha256)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_keeps_what_it_reads_and_follows_what_was_moved() {
    for expires in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::new());
        let (fixture, [record, _]) = fixture(&memory, dir.path()).await;
        let expected = tar(&fixture, &record).await.unwrap();
        // The oldest pack, of which little is needed; names and places are known by then.
        let opened = Opened::load(&fixture.store, record.clone()).await.unwrap();
        let oldest = opened.locations.iter().map(|location| location.pack).min().unwrap();
        let pack = layout::pack(&fixture.store.tenant, oldest);
        let beside = if expires { Beside::Expiry } else { Beside::Deletion(record.record) };
        let (reader, interrupter) = disturbed(&memory, pack.as_str(), beside).await;
        assert_eq!(tar(&reader, &record).await.unwrap(), expected, "{beside:?}");
        assert!(interrupter.is_done());
        assert!(pins::read(&fixture.store).await.unwrap().is_empty(), "it lets go of what it pinned");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diff_keeps_what_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let (fixture, [before, after]) = fixture(&memory, dir.path()).await;
    let expected = diff::diff(&fixture.store, &before, &after).await.unwrap();
    let packs = layout::packs(&fixture.store.tenant);
    let beside = Beside::Deletion(before.record);
    let (reader, interrupter) = disturbed(&memory, packs.as_str(), beside).await;
    assert_eq!(diff::diff(&reader.store, &before, &after).await.unwrap(), expected);
    assert!(interrupter.is_done());
    assert!(pins::read(&fixture.store).await.unwrap().is_empty(), "it lets go of what it pinned");
}
