//! These tests count requests and bytes, not seconds: cost follows what changed.

use std::{fs, path::Path, sync::Arc, time::Duration};

use store::{
    bucket::{Bucket, Call, DelayBucket, MemoryBucket, Recorder, Verb, Write},
    catalog::records,
    format::{
        layout,
        pin::Pin,
        record::{Record, State},
    },
    id::{PackId, PackSeq, RecordId},
    ops::{
        gc::{Collector, Options},
        retention::{self, Applied, Keep, Limits, Policy},
    },
};
use tests::{
    store_fixture::{StoreFixture, actor},
    tree::{assert_same, noise},
};

const FILES: usize = 12_800;
const FILE_BYTES: usize = 120_000;

/// 1.5 GB in as many files as a large profile has; it compresses well, so that the test is quick.
fn large_profile(root: &Path) {
    for at in 0..FILES {
        let folder = root.join(format!("Default/Cache/{:02}", at % 64));
        fs::create_dir_all(&folder).unwrap();
        let mut bytes = vec![0; FILE_BYTES];
        for (page, bytes) in bytes.chunks_mut(4096).enumerate() {
            bytes[..16].copy_from_slice(&((at * 1000 + page) as u128).to_le_bytes());
        }
        fs::write(folder.join(format!("f_{at:06x}")), bytes).unwrap();
    }
}

fn change_one_megabyte(root: &Path, seed: u64) {
    for part in 0..8 {
        let at = (part * 1597 + 5) % FILES;
        let path = root.join(format!("Default/Cache/{:02}/f_{at:06x}", at % 64));
        fs::write(path, noise(131_072, seed + part as u64)).unwrap();
    }
}

fn uploads(calls: &[Call]) -> (usize, u64) {
    let puts: Vec<&Call> =
        calls.iter().filter(|call| matches!(call.verb, Verb::Create | Verb::Replace)).collect();
    (puts.len(), puts.iter().map(|call| call.bytes).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_changed_in_a_large_profile_is_two_megabytes_in_ten_requests() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    large_profile(&source);
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::with_page_size(1000))));
    let bucket: Arc<dyn Bucket> = recorder.clone();
    let fixture = StoreFixture::open(Arc::clone(&bucket), Some(dir.path().join("cache"))).await;
    fixture.snapshot(&source).await.unwrap();
    let mut total_meta_packs = 1;
    for generation in 1..=12_u64 {
        change_one_megabyte(&source, generation * 100);
        recorder.take();
        // Every other time on a host that has never seen this store.
        let host = if generation % 2 == 0 {
            StoreFixture::open(Arc::clone(&bucket), None).await
        } else {
            fixture.clone()
        };
        recorder.take();
        let report = host.snapshot(&source).await.unwrap();
        let calls = recorder.take();
        let (requests, bytes) = uploads(&calls);
        assert!(bytes <= 2_000_000, "generation {generation}: {bytes} bytes uploaded");
        assert!(requests <= 10, "generation {generation}: {requests} uploads");
        // A host that knows nothing also fetches the indexes of the writes so far.
        let most = if generation % 2 == 0 { 27 + generation as usize } else { 25 };
        assert!(calls.len() <= most, "generation {generation}: {} requests in all: {calls:#?}", calls.len());
        assert!(report.counts.new_bytes <= 1_100_000, "{report:?}");
        let record = fixture.current().await.unwrap();
        let content = record.content.unwrap();
        let meta: std::collections::BTreeSet<_> =
            content.meta_ranges.iter().map(|range| range.pack).collect();
        assert!(meta.len() <= 8, "metadata lies in {} packs", meta.len());
        total_meta_packs += 1;
    }
    assert_eq!(total_meta_packs, 13);
    let out = dir.path().join("out");
    StoreFixture::open(bucket, None).await.restore(&out).await.unwrap();
    assert_same(&source, &out);
}

const HOUR: Duration = Duration::from_secs(3600);

/// What a snapshot does after itself where the newest five are kept.
async fn keep_five(fixture: &StoreFixture) {
    let policy = Policy { keep: Some(Keep::Newest(5)), ..Policy::default() };
    let survey = retention::lineage(&fixture.store, &fixture.lineage).await.unwrap();
    let decisions = retention::plan(survey, |_| policy.clone(), Limits::default());
    for (_, applied) in retention::apply(&fixture.store, &actor("retention"), &decisions).await.unwrap() {
        assert!(matches!(applied, Applied::Removed), "{applied:?}");
    }
}

/// One profile of which a file changes every hour, with retention after each snapshot and a
/// collection every other hour, for twelve days.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_deleted_long_ago_costs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("large"), noise(200_000, 1)).unwrap();
    let memory = Arc::new(MemoryBucket::with_page_size(1000));
    let recorder = Arc::new(Recorder::new(memory.clone()));
    let fixture = StoreFixture::open(recorder.clone(), Some(dir.path().join("cache"))).await;
    let (mut day_two, mut last, mut fresh) = (0, 0, (0, 0));
    for hour in 0..288_u64 {
        memory.advance(HOUR);
        fs::write(source.join("changed"), noise(30_000, 100 + hour)).unwrap();
        // Once in a while on a host that has never seen this store.
        let host = match hour % 24 {
            23 => StoreFixture::open(recorder.clone(), None).await,
            _ => fixture.clone(),
        };
        recorder.take();
        host.snapshot(&source).await.unwrap();
        keep_five(&host).await;
        let calls = recorder.take();
        match hour {
            47 => fresh.0 = calls.len(),
            287 => fresh.1 = calls.len(),
            24..47 => day_two = day_two.max(calls.len()),
            264.. => last = last.max(calls.len()),
            _ => {}
        }
        if hour % 2 == 1 {
            Collector::new(fixture.store.clone(), Options::default()).run().await.unwrap();
        }
    }
    eprintln!("{day_two} requests at most on day two, {last} on the last; a fresh host {fresh:?}");
    assert!(last <= day_two + 2, "{day_two} requests on day two, {last} on day twelve");
    assert!(fresh.1 <= fresh.0 + 4, "{fresh:?} requests of a host that knows nothing");
    let events = memory.keys().iter().filter(|key| key.contains("/events/")).count();
    let objects = memory.keys().len() - events;
    eprintln!("{objects} objects, {events} events");
    assert!(objects <= 120, "{:#?}", memory.keys());
    fixture.assert_clean().await;
}

/// How many answers are waited for, one after another, on a clock that stands still otherwise.
async fn round_trips(delayed: &DelayBucket, work: impl Future<Output = ()>) -> u64 {
    let began = tokio::time::Instant::now();
    delayed.set(Duration::from_secs(1));
    work.await;
    delayed.set(Duration::ZERO);
    began.elapsed().as_secs()
}

/// The round trips of two collections and of retention, beside so many readers and so many writers.
async fn trips_beside(others: u8) -> [u64; 3] {
    let memory = Arc::new(MemoryBucket::new());
    let delayed = Arc::new(DelayBucket::new(memory.clone()));
    let fixture = StoreFixture::open(delayed.clone(), None).await;
    let records = fixture.snapshots(2).await;
    let (record, _) = records::get(&fixture.store, &fixture.lineage, records[1]).await.unwrap();
    // Garbage, so that there is something to wait for.
    let orphan = PackId { write: RecordId::from_bytes([99; 16]), seq: PackSeq::Data(0) };
    let key = layout::pack(&fixture.store.tenant, orphan);
    memory.put(&key, b"garbage".to_vec().into(), Write::Create).await.unwrap();
    for number in 0..others {
        let id = RecordId::from_bytes([number + 1; 16]);
        let pin = Pin::new(records[1], 0, Duration::from_secs(900));
        let writing = Record { record: id, state: State::Writing, content: None, ..record.clone() };
        let objects = [
            (layout::pin(&fixture.store.tenant, id), pin.encode()),
            (layout::record(&fixture.lineage, id), writing.encode()),
        ];
        for (key, bytes) in objects {
            memory.put(&key, bytes.into(), Write::Create).await.unwrap();
        }
    }
    let collector = Collector::new(fixture.store.clone(), Options::after(Duration::ZERO));
    let run = async || {
        let plan = collector.run().await.unwrap();
        assert_eq!(plan.pending.len(), 1, "{plan:#?}");
    };
    let condemning = round_trips(&delayed, run()).await;
    let waiting = round_trips(&delayed, run()).await;
    let retention = round_trips(&delayed, async {
        retention::lineage(&fixture.store, &fixture.lineage).await.unwrap();
    });
    [condemning, waiting, retention.await]
}

#[tokio::test(start_paused = true)]
async fn pins_and_writers_are_looked_at_side_by_side() {
    let (few, many) = (trips_beside(1).await, trips_beside(12).await);
    // Only so many requests run at a time. One after another, there would be eleven more of each.
    for (few, many) in few.iter().zip(&many) {
        assert!(*many < few + 11, "{few} beside one, {many} beside twelve");
    }
    assert!(few[2] <= 2, "retention lists, and then reads: {few:?}");
}
