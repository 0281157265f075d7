//! These tests count the requests of readers beside each other, on a bucket that fails, hangs and damages.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::{runtime::Handle, time::Instant};

use super::*;
use crate::{
    bucket::{Access, Bucket, Fault, FaultBucket, LocalBucket, MemoryBucket, Recorder, Rule, Verb, Write},
    content::{cache::Cache, compress::Compressor, packer::Packer},
    format::{
        config::{Chunking, Features, HASH, TENANT_SCHEMA, TenantConfig},
        layout,
        pack::EntryKind,
        startup::Startup,
        tree::{Entry, Extent, Kind, Meta, TreePath},
    },
    id::{ChunkKey, PackId, PackSeq, RecordId, StoreId},
    observer::Unobserved,
};

/// A tenant's store whose buckets see every request, and the pieces of some packs in it.
pub(in crate::content) struct Desk {
    pub memory: Arc<MemoryBucket>,
    pub faults: Arc<FaultBucket>,
    pub recorder: Arc<Recorder>,
    pub store: TenantStore,
}

const CHUNK: usize = 20_000;

impl Desk {
    pub fn new(cache_root: Option<&Path>) -> Self {
        let memory = Arc::new(MemoryBucket::new());
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        let recorder = Arc::new(Recorder::new(faults.clone()));
        let store = tenant(recorder.clone(), cache_root);
        Self { memory, faults, recorder, store }
    }

    fn fetcher(&self) -> Arc<ChunkFetcher> {
        ChunkFetcher::new(self.store.clone(), Handle::current(), Limits::default(), Default::default())
    }

    /// Ranged reads made since the last look.
    fn requests(&self) -> usize {
        self.recorder.take().iter().filter(|call| call.verb == Verb::GetRange).count()
    }
}

pub(in crate::content) fn tenant(bucket: Arc<dyn Bucket>, cache_root: Option<&Path>) -> TenantStore {
    let tenant = "acme".parse().unwrap();
    let store_id = StoreId::from_parts(1, [1; 10]);
    let config = TenantConfig {
        deletion: None,
        version: 1,
        minor: 0,
        schema: TENANT_SCHEMA.to_owned(),
        writer: String::new(),
        tenant_id: "acme".parse().unwrap(),
        store_id,
        created_at_ms: 0,
        chunk_key: ChunkKey::from_bytes([3; 32]),
        hash: HASH.to_owned(),
        features: Features::default(),
        chunking: Chunking::default(),
        probe: serde_json::Value::Null,
        unknown: Default::default(),
    };
    let cache = cache_root.map(|root| Arc::new(Cache::new(root, store_id, &tenant)));
    TenantStore {
        bucket,
        tenant,
        config: Arc::new(config),
        clock: Arc::default(),
        cache,
        observer: Arc::new(Unobserved),
        known_records: Arc::default(),
    }
}

/// Stores a pack of `count` chunks, every second of which compresses.
async fn pack(store: &TenantStore, seq: u32, count: u32) -> Vec<Piece> {
    let id = PackId { write: RecordId::from_parts(7, [7; 10]), seq: PackSeq::Data(seq) };
    let mut packer = Packer::with_capacity(0);
    let mut compressor = Compressor::new(3).unwrap();
    for number in 0..count {
        let raw = raw(seq, number);
        let chunk = store.key().id_of(&raw);
        packer.push(chunk, EntryKind::Data, raw.len() as u32, compressor.frame(&raw).unwrap());
    }
    let sealed = packer.seal(id, *store.key());
    let key = layout::pack(&store.tenant, id);
    store.bucket.put(&key, sealed.bytes.clone().into(), Write::Create).await.unwrap();
    let pieces = sealed.locations();
    pieces.map(|(id, location)| Piece { id, raw_len: CHUNK as u32, location }).collect()
}

fn raw(seq: u32, number: u32) -> Vec<u8> {
    let seed = [seq.to_le_bytes(), number.to_le_bytes()].concat();
    let mut raw = vec![0; CHUNK];
    if number.is_multiple_of(2) {
        blake3::Hasher::new().update(&seed).finalize_xof().fill(&mut raw);
    } else {
        raw[..8].copy_from_slice(&seed);
    }
    raw
}

fn assert_content(chunks: &[Chunk], seq: u32, numbers: impl IntoIterator<Item = u32>) {
    let wanted: Vec<Vec<u8>> = numbers.into_iter().map(|number| raw(seq, number)).collect();
    assert!(chunks.iter().map(|chunk| &**chunk).eq(wanted.iter().map(Vec::as_slice)));
}

/// Waits for an event in the background.
async fn until(what: impl Fn() -> bool) {
    for _ in 0..2000 {
        if what() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it never happened");
}

/// Nor is it fetched if it is forgotten meanwhile.
#[tokio::test]
async fn what_a_read_has_found_in_memory_is_not_looked_for_again() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 12).await;
    let others = pack(&desk.store, 1, 60).await;
    let limits = Limits { memory_bytes: 8 * 2 * 2 * CHUNK, ..Limits::default() };
    let fetcher = ChunkFetcher::new(desk.store.clone(), Handle::current(), limits, Default::default());
    fetcher.chunks(&pieces[..1]).await.unwrap();
    let ChunkLookup::Away(found) = fetcher.now(&[pieces[0], pieces[11]]) else { panic!("all is here") };
    fetcher.chunks(&others).await.unwrap();
    assert!(fetcher.now(&pieces[..1]).here().is_none(), "it is not forgotten");
    desk.recorder.take();
    assert_content(&fetcher.fetch_rest(found).await.unwrap(), 0, [0, 11]);
    let read: u64 = desk.recorder.take().iter().map(|call| call.bytes).sum();
    assert_eq!(read, u64::from(pieces[11].location.stored_len));
    assert!(fetcher.now(&pieces[..1]).here().is_none(), "it was fetched again");
}

#[tokio::test]
async fn neighbouring_misses_are_one_request_and_what_was_read_is_none() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 12).await;
    let fetcher = desk.fetcher();
    desk.recorder.take();
    assert!(fetcher.now(&pieces[2..5]).here().is_none());
    assert_content(&fetcher.chunks(&pieces[2..5]).await.unwrap(), 0, 2..5);
    assert_eq!(desk.requests(), 1);
    // What is there already is not asked for again, though it lies between.
    assert_content(&fetcher.chunks(&pieces[1..6]).await.unwrap(), 0, 1..6);
    assert_eq!(desk.requests(), 1);
    assert_content(&fetcher.now(&pieces[1..6]).here().unwrap().unwrap(), 0, 1..6);
    assert_eq!(desk.requests(), 0);
    let stats = fetcher.stats();
    assert_eq!((stats.requests, stats.misses, stats.memory_hits), (2, 5, 8));
    assert!(stats.wasted_bytes > 0 && stats.wasted_bytes < stats.fetched_bytes, "{stats:?}");
}

#[tokio::test]
async fn many_who_want_the_same_chunk_share_one_request() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 4).await;
    let fetcher = desk.fetcher();
    desk.recorder.take();
    let readers = (0..20).map(|_| fetcher.chunks(&pieces));
    for chunks in futures::future::join_all(readers).await {
        assert_content(&chunks.unwrap(), 0, 0..4);
    }
    assert_eq!(desk.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_gives_up_takes_nothing_from_the_others() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 2).await;
    let fetcher = desk.fetcher();
    desk.faults.inject(Rule::new(Fault::Silence).on(Verb::GetRange));
    let impatient = tokio::time::timeout(Duration::from_secs(1), fetcher.chunks(&pieces)).await;
    assert!(impatient.is_err());
    assert_content(&fetcher.chunks(&pieces).await.unwrap(), 0, 0..2);
    assert_eq!(desk.faults.strikes(), 1);
}

/// A reader waits in the kernel, where no signal reaches it.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_keeps_a_reader_no_longer_than_requests_are_repeated() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 2).await;
    desk.faults.inject(Rule::new(Fault::Silence).on(Verb::GetRange).always());
    for (retrying, most) in [(20, 20), (3, 3), (0, 15)] {
        let limits = Limits::within(Duration::from_secs(retrying));
        let fetcher = ChunkFetcher::new(desk.store.clone(), Handle::current(), limits, Default::default());
        desk.recorder.take();
        let started = Instant::now();
        let error = fetcher.chunks(&pieces).await.unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unavailable);
        assert!(started.elapsed() <= Duration::from_secs(most), "{retrying}: {:?}", started.elapsed());
        assert!(retrying == 0 || fetcher.stats().retries >= 2, "{retrying}: {:?}", fetcher.stats());
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_fetch_is_sent_again_and_a_failure_is_not_remembered() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 2).await;
    let fetcher = desk.fetcher();
    desk.faults.inject(Rule::new(Fault::Before).on(Verb::GetRange));
    assert_content(&fetcher.chunks(&pieces[..1]).await.unwrap(), 0, 0..1);
    assert_eq!((desk.faults.strikes(), fetcher.stats().retries), (1, 1));

    desk.faults.kill();
    let started = Instant::now();
    let (one, two) = futures::future::join(fetcher.chunks(&pieces[1..]), fetcher.chunks(&pieces[1..])).await;
    for answer in [one, two] {
        assert_eq!(answer.unwrap_err().kind(), crate::ErrorKind::Unavailable);
    }
    assert!(started.elapsed() <= Limits::default().deadline, "{:?}", started.elapsed());
    desk.faults.heal();
    assert_content(&fetcher.chunks(&pieces[1..]).await.unwrap(), 0, 1..2);
}

#[tokio::test]
async fn bytes_damaged_on_the_way_are_fetched_again_and_damage_in_the_bucket_is_told() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 3).await;
    let fetcher = desk.fetcher();
    desk.faults.inject(Rule::new(Fault::Flipped).on(Verb::GetRange));
    assert_content(&fetcher.chunks(&pieces).await.unwrap(), 0, 0..3);
    assert_eq!(desk.faults.strikes(), 1);

    let fetcher = desk.fetcher();
    desk.faults.inject(Rule::new(Fault::Flipped).on(Verb::GetRange).always());
    let error = fetcher.chunks(&pieces[..1]).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert!(error.to_string().contains(&pieces[0].id.to_string()), "{error}");
}

#[tokio::test]
async fn a_pack_that_is_gone_is_missing_and_not_merely_damaged() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 1).await;
    let key = layout::pack(&desk.store.tenant, pieces[0].location.pack);
    desk.memory.delete(&key).await.unwrap();
    let error = desk.fetcher().chunks(&pieces).await.unwrap_err();
    assert!(matches!(error, Error::Missing { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn demand_overtakes_prefetching() {
    let desk = Desk::new(None);
    let slow = pack(&desk.store, 0, 1).await;
    let mut ahead: Vec<Piece> = Vec::new();
    for seq in 1..8 {
        ahead.extend(pack(&desk.store, seq, 1).await);
    }
    let queued = pack(&desk.store, 8, 2).await;
    ahead.extend(&queued);
    let fetcher = desk.fetcher();
    desk.faults.inject(Rule::new(Fault::Silence).on(Verb::GetRange).always());
    fetcher.prefetch(slow);
    fetcher.prefetch(ahead);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let before = desk.faults.calls();
    desk.faults.heal();
    // Every slot for prefetching waits for an answer that does not come.
    let started = Instant::now();
    assert_content(&fetcher.chunks(&queued).await.unwrap(), 8, 0..2);
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(desk.faults.calls(), before + 1);
}

#[tokio::test]
async fn what_was_prefetched_is_waste_until_it_is_read() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 4).await;
    let fetcher = desk.fetcher();
    fetcher.prefetch(pieces.clone());
    until(|| fetcher.now(&pieces[..1]).here().is_some()).await;
    until(|| fetcher.stats().wasted_bytes > 0 && fetcher.now(&pieces[3..]).here().is_some()).await;
    fetcher.now(&pieces).here().unwrap().unwrap();
    let stats = fetcher.stats();
    assert_eq!((stats.wasted_bytes, stats.demanded_bytes, stats.requests), (0, 0, 1));
    assert_eq!(stats.prefetched_bytes, stats.fetched_bytes);
    // Beyond what may wait, nothing is fetched at all.
    let limits = Limits { prefetch_bytes: 10, ..Limits::default() };
    let fetcher = ChunkFetcher::new(desk.store.clone(), Handle::current(), limits, Default::default());
    fetcher.prefetch(pieces);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(fetcher.stats().requests, 0);
}

#[tokio::test]
async fn chunks_are_shared_through_the_disk_and_bad_ones_are_fetched_again() {
    let root = tempfile::tempdir().unwrap();
    let desk = Desk::new(Some(root.path()));
    let pieces = pack(&desk.store, 0, 6).await;
    let first = desk.fetcher();
    first.chunks(&pieces).await.unwrap();
    until(|| pieces.iter().all(|piece| first.disk.as_ref().unwrap().has(&piece.id))).await;
    desk.recorder.take();

    let second = desk.fetcher();
    assert_content(&second.now(&pieces).here().unwrap().unwrap(), 0, 0..6);
    assert_eq!((second.stats().disk_hits, desk.requests()), (6, 0));

    let folder = desk.store.cache.as_ref().unwrap().folder("chunks");
    let segments: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(segments.len(), 1);
    let mut bytes = std::fs::read(&segments[0]).unwrap();
    let start = 53_248 + 10;
    bytes[start..start + 8].copy_from_slice(b"damaged!");
    std::fs::write(&segments[0], &bytes).unwrap();
    let third = desk.fetcher();
    assert!(third.now(&pieces).here().is_none());
    assert_content(&third.chunks(&pieces).await.unwrap(), 0, 0..6);
    assert_eq!(desk.requests(), 1);
    // The bad one was dropped for everybody, and the good one has taken its place.
    until(|| third.disk.as_ref().unwrap().has(&pieces[0].id)).await;
    let fourth = desk.fetcher();
    assert_content(&fourth.now(&pieces).here().unwrap().unwrap(), 0, 0..6);
}

#[tokio::test]
async fn a_store_in_a_directory_is_read_where_it_lies() {
    let folder = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let bucket = Arc::new(LocalBucket::open(folder.path(), Access::Create).unwrap());
    let store = tenant(bucket.clone(), Some(cache.path()));
    let key = layout::tenant_config(&store.tenant);
    bucket.put(&key, store.config.encode().into(), Write::Create).await.unwrap();
    let (one, two) = (pack(&store, 0, 8).await, pack(&store, 1, 8).await);
    let fetcher = ChunkFetcher::new(store.clone(), Handle::current(), Limits::default(), Default::default());
    assert!(fetcher.is_local());
    fetcher.prefetch(one.clone());
    let mixed = [one[3], two[1], one[2], one[3]];
    let chunks = fetcher.now(&mixed).here().unwrap().unwrap();
    assert_content(&chunks[..1], 0, [3]);
    assert_content(&chunks[1..2], 1, [1]);
    assert_content(&chunks[2..], 0, [2, 3]);
    assert_content(&fetcher.chunks(&two).await.unwrap(), 1, 0..8);
    assert_eq!((fetcher.stats().requests, fetcher.stats().fetched_bytes), (0, 0));
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);

    let path = folder.path().join("objects").join(layout::pack(&store.tenant, two[0].location.pack).as_str());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[two[4].location.offset as usize + 40] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let fetcher = ChunkFetcher::new(store.clone(), Handle::current(), Limits::default(), Default::default());
    assert!(matches!(fetcher.now(&two[4..6]), ChunkLookup::Here(Err(Error::Damaged { .. }))));
    std::fs::write(&path, &bytes[..100]).unwrap();
    assert!(matches!(fetcher.now(&two[4..5]), ChunkLookup::Here(Err(Error::Damaged { .. }))));
    std::fs::remove_file(&path).unwrap();
    let fetcher = ChunkFetcher::new(store, Handle::current(), Limits::default(), Default::default());
    assert!(matches!(fetcher.now(&two[..1]), ChunkLookup::Here(Err(Error::Missing { .. }))));
}

#[tokio::test]
async fn a_plan_is_fetched_in_few_requests_ahead_of_the_reader() {
    let desk = Desk::new(None);
    let pieces = pack(&desk.store, 0, 60).await;
    // Every fifth chunk: the gaps between them are larger than neighbours may be apart.
    let extents = pieces.iter().map(|piece| Extent::Chunk { id: piece.id, len: piece.raw_len }).collect();
    let size = pieces.iter().map(|piece| u64::from(piece.raw_len)).sum();
    let kind = Kind::File { size, extents };
    let entries = [Entry { path: TreePath::new("file").unwrap(), meta: Meta::default(), kind }];
    let locations: Vec<_> = pieces.iter().map(|piece| piece.location).collect();
    let wanted: Vec<Piece> = pieces.iter().step_by(5).copied().collect();

    let first = desk.fetcher();
    for piece in &wanted {
        first.chunks(&[*piece]).await.unwrap();
    }
    let startup = startup::StartupRanges::of(&first.first_reads(), &entries).plan(&entries);
    assert_eq!(startup.runs().len(), 12);
    desk.recorder.take();

    let second = desk.fetcher();
    second.follow(&startup, None, &entries, &locations);
    until(|| second.now(&wanted).here().is_some()).await;
    let asked = desk.requests();
    assert!((1..=8).contains(&asked), "{asked} requests");
    assert_eq!(second.stats().demanded_bytes, 0);

    // A hint that fits nothing, or nothing at all, harms nothing.
    let third = desk.fetcher();
    third.follow(&Startup::new([59, 60, 1_000_000]), None, &entries, &locations);
    until(|| third.now(&pieces[59..]).here().is_some()).await;
    third.follow(&Startup::default(), None, &entries, &locations);
    third.follow(&startup, None, &entries, &[]);
    assert_eq!(third.stats().requests, 1);
}
