//! These tests repair: damage is made good from every other copy there is; what is lost is marked, and neither hidden
//! nor spread.

mod captures;
mod tenants;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store::{
    ErrorKind,
    bucket::{Bucket, Depth, Fault, FaultBucket, Key, MemoryBucket, Rule},
    content::chunk_cache::{ChunkCache, Limits, NewFrame},
    format::{layout, record::Record},
    id::{PackId, PackSeq},
    ops::{
        gc::{Collector, Options},
        verify::{self, Report, Sample},
    },
    progress::Silent,
};
use tempfile::TempDir;
use tests::{
    interrupter::{Interrupter, deed},
    store_fixture::{REPAIR, StoreFixture, copy, request},
    tree::{assert_same, noise},
};

const NOW: Options = Options { min_unused_bytes: 0, ..Options::after(Duration::ZERO) };

fn fill(source: &Path) {
    fs::create_dir_all(source).unwrap();
    for file in 0..12 {
        fs::write(source.join(format!("{file:02}")), noise(60_000, file)).unwrap();
    }
    // The same chunks once more, in another file.
    fs::write(source.join("twin"), noise(60_000, 3)).unwrap();
}

/// A profile that is not stored yet, and a store in memory.
struct RepairScenario {
    dir: TempDir,
    source: PathBuf,
    memory: Arc<MemoryBucket>,
    fixture: StoreFixture,
}

impl RepairScenario {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fill(&source);
        let memory = Arc::new(MemoryBucket::new());
        let fixture = StoreFixture::open(memory.clone(), None).await;
        Self { dir, source, memory, fixture }
    }
}

async fn repair(fixture: &StoreFixture) -> Report {
    verify::verify(&fixture.store, &fixture.lineage, REPAIR, Arc::new(Silent)).await.unwrap()
}

/// A snapshot that shares nothing with what is there.
async fn apart(fixture: &StoreFixture, source: &Path) {
    let request =
        store::ops::write::snapshot::Request { index_budget: 0, ..request(&fixture.lineage, source) };
    fixture.capture(&request).await.unwrap();
}

fn used(record: &Record, seq: impl Fn(PackSeq) -> bool) -> Vec<PackId> {
    let packs = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack);
    packs.filter(|pack| seq(pack.seq)).collect()
}

async fn data_pack(fixture: &StoreFixture) -> Key {
    let record = fixture.current().await.unwrap();
    layout::pack(&fixture.store.tenant, used(&record, |seq| seq != PackSeq::Meta)[0])
}

async fn meta_pack(fixture: &StoreFixture) -> Key {
    let record = fixture.current().await.unwrap();
    layout::pack(&fixture.store.tenant, used(&record, |seq| seq == PackSeq::Meta)[0])
}

async fn change(memory: &MemoryBucket, key: &Key, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = memory.get(key, u64::MAX).await.unwrap().bytes.to_vec();
    change(&mut bytes);
    memory.damage(key, bytes);
}

/// Spoils the first frame of a pack.
async fn spoil(memory: &MemoryBucket, key: &Key) {
    change(memory, key, |bytes| bytes[1000] ^= 1).await;
}

async fn assert_restores(fixture: &StoreFixture, record: &Record, source: &Path) {
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("out");
    fixture.restore_record(record, &out).await.unwrap();
    assert_same(source, &out);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_and_missing_content_comes_from_another_pack() {
    let RepairScenario { dir: _dir, source, memory: stage, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    let carol = fixture.of("acme/carol");
    assert_eq!(carol.snapshot(&source).await.unwrap().counts.new_chunks, 0, "carol shares alice's chunks");
    apart(&fixture.of("acme/bob"), &source).await;
    let pack = data_pack(&fixture).await;
    for blow in 0..4 {
        let memory = copy(&stage).await;
        let fixture = fixture.on(memory.clone());
        match blow {
            0 => spoil(&memory, &pack).await,
            1 => change(&memory, &pack, |bytes| bytes.truncate(100_000)).await,
            2 => change(&memory, &pack, |bytes| bytes.clear()).await,
            _ => memory.delete(&pack).await.unwrap(),
        }
        assert!(!fixture.verify().await.unwrap().damage.is_empty());
        let report = repair(&fixture).await;
        assert!(report.damage.is_empty() && !report.repaired.is_empty(), "{blow}: {report:#?}");
        assert_eq!(
            report.chunks,
            fixture.verify().await.unwrap().chunks,
            "places that are left count no more"
        );
        let record = fixture.current().await.unwrap();
        assert_eq!((record.generation, record.damage.is_none()), (1, true));
        assert_restores(&fixture, &record, &source).await;
        // Whoever shares it was helped too, and nobody refers to what is damaged.
        let carol = carol.on(memory.clone());
        carol.assert_clean().await;
        let dave = fixture.of("acme/dave");
        assert_eq!(dave.snapshot(&source).await.unwrap().counts.new_chunks, 0, "{blow}");
        dave.assert_clean().await;
        Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
        for fixture in [&fixture, &carol, &dave] {
            fixture.assert_clean().await;
        }
        if blow > 0 {
            memory.get(&pack, u64::MAX).await.unwrap_err();
        }
        let quiet = repair(&fixture).await;
        assert!(quiet.damage.is_empty() && quiet.repaired.is_empty(), "{quiet:#?}");
    }
}

/// As much as that: one pack, and the next when that is done.
#[tokio::test(flavor = "multi_thread")]
async fn with_little_memory_what_is_lost_is_made_good_pack_by_pack() {
    let RepairScenario { dir: _dir, source, memory: stage, fixture } = RepairScenario::new().await;
    let mut snapshots = vec![fixture.snapshot(&source).await.unwrap().record];
    for more in 0..3 {
        fs::write(source.join(format!("more{more}")), noise(60_000, 50 + more)).unwrap();
        snapshots.push(fixture.snapshot(&source).await.unwrap().record);
    }
    apart(&fixture.of("acme/bob"), &source).await;
    let packs = used(&fixture.current().await.unwrap(), |seq| seq != PackSeq::Meta);
    assert_eq!(packs.len(), 4);
    for pack in &packs {
        stage.delete(&layout::pack(&fixture.store.tenant, *pack)).await.unwrap();
    }
    let mut reports = Vec::new();
    for (memory_bytes, moves) in [(verify::DEFAULT_MEMORY_BYTES, [1, 1, 1, 1]), (0, [1, 2, 3, 4])] {
        let fixture = fixture.on(copy(&stage).await);
        let options = verify::Options { memory_bytes, ..REPAIR };
        let report =
            verify::verify(&fixture.store, &fixture.lineage, options, Arc::new(Silent)).await.unwrap();
        assert!(report.damage.is_empty() && report.marked.is_empty(), "{report:#?}");
        reports.push(report.repaired);
        for (record, moves) in snapshots.iter().zip(moves) {
            let (record, _) =
                store::catalog::records::get(&fixture.store, &fixture.lineage, *record).await.unwrap();
            assert_eq!(record.generation, moves);
        }
        fixture.assert_clean().await;
        assert_restores(&fixture, &fixture.current().await.unwrap(), &source).await;
    }
    assert_eq!(reports[0], reports[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_outlive_the_directory_of_their_pack() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    change(&memory, &data_pack(&fixture).await, |bytes| *bytes.last_mut().unwrap() ^= 1).await;
    let report = repair(&fixture).await;
    assert!(report.damage.is_empty() && !report.repaired.is_empty(), "{report:#?}");
    assert_restores(&fixture, &fixture.current().await.unwrap(), &source).await;
}

/// The frames before the cut are read one by one, for together they reach beyond it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_pack_that_was_cut_short_is_made_good() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    change(&memory, &data_pack(&fixture).await, |bytes| bytes.truncate(bytes.len() / 2)).await;
    let report = repair(&fixture).await;
    let lost: BTreeSet<&String> = report.damage.iter().flat_map(|damage| &damage.files).collect();
    assert!((3..10).contains(&lost.len()), "{report:#?}");
    let mark = fixture.current().await.unwrap().damage.unwrap();
    assert_eq!(mark.files, lost.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_indexes_are_written_anew_and_copies_are_found_without_them() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    let forget = async || {
        let indexes = layout::indexes(&fixture.store.tenant);
        let (indexes, _) = store::catalog::records::list_all(&*memory, &indexes, Depth::All).await.unwrap();
        assert!(!indexes.is_empty());
        for index in indexes {
            memory.delete(&index.key).await.unwrap();
        }
    };
    forget().await;
    let report = repair(&fixture).await;
    assert!(report.damage.is_empty() && !report.repaired.is_empty(), "{report:#?}");
    let dave = fixture.of("acme/dave");
    assert_eq!(dave.snapshot(&source).await.unwrap().counts.new_chunks, 0, "dave shares alice's chunks");
    apart(&fixture.of("acme/bob"), &source).await;
    forget().await;
    memory.delete(&data_pack(&fixture).await).await.unwrap();
    let report = repair(&fixture).await;
    assert!(report.damage.is_empty() && !report.repaired.is_empty(), "{report:#?}");
    assert_restores(&fixture, &fixture.current().await.unwrap(), &source).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn content_and_trees_come_from_this_hosts_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (source, cache) = (dir.path().join("source"), dir.path().join("cache"));
    fill(&source);
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), Some(cache)).await;
    fixture.snapshot(&source).await.unwrap();
    let key = data_pack(&fixture).await;
    let bytes = memory.get(&key, u64::MAX).await.unwrap().bytes;
    let id = key.name().parse().unwrap();
    let (directory, _) = fixture.store.pack_directory(id, bytes.len() as u64).await.unwrap();
    let frames: Vec<NewFrame> = directory
        .entries
        .iter()
        .map(|entry| {
            let stored =
                bytes.slice(entry.offset as usize..(entry.offset + u64::from(entry.stored_len)) as usize);
            NewFrame { id: entry.id, codec: entry.codec, stored }
        })
        .collect();
    let chunks = ChunkCache::new(fixture.store.cache.as_ref().unwrap(), Limits::default());
    assert!(chunks.expect(frames.iter().map(|frame| frame.stored.len() as u64).sum()));
    chunks.insert(frames);
    drop(chunks);
    memory.delete(&key).await.unwrap();
    memory.delete(&meta_pack(&fixture).await).await.unwrap();
    let report = repair(&fixture).await;
    assert!(report.damage.is_empty() && !report.repaired.is_empty(), "{report:#?}");
    // As another host sees it.
    let elsewhere = StoreFixture::open(memory, None).await;
    assert_restores(&elsewhere, &elsewhere.current().await.unwrap(), &source).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_lost_is_marked_in_every_snapshot_and_all_files_are_named() {
    let RepairScenario { dir, source, memory, fixture } = RepairScenario::new().await;
    let first = fixture.snapshot(&source).await.unwrap();
    fs::write(source.join("new"), noise(60_000, 99)).unwrap();
    let second = fixture.snapshot(&source).await.unwrap();
    let carol = fixture.of("acme/carol");
    carol.snapshot(&source).await.unwrap();
    let (record, _) =
        store::catalog::records::get(&fixture.store, &fixture.lineage, first.record).await.unwrap();
    let pack = used(&record, |seq| seq != PackSeq::Meta)[0];
    let key = layout::pack(&fixture.store.tenant, pack);
    // The whole pack, so that those files are hit that have the same content.
    change(&memory, &key, |bytes| bytes[20..400_000].iter_mut().for_each(|byte| *byte ^= 1)).await;
    let report = repair(&fixture).await;
    let prefixes = [&first.sha256_prefix, &second.sha256_prefix];
    let named: BTreeSet<&String> = report.damage.iter().flat_map(|damage| &damage.snapshots).collect();
    assert_eq!(named, BTreeSet::from(prefixes));
    assert_eq!(report.marked.iter().collect::<BTreeSet<_>>(), BTreeSet::from(prefixes));
    let files: BTreeSet<&String> = report.damage.iter().flat_map(|damage| &damage.files).collect();
    let has = |name: &str| files.iter().any(|file| *file == name);
    assert_eq!(has("03"), has("twin"), "{files:?}");
    assert!(files.len() > 3 && !has("new"), "{files:?}");
    for fixture in [&fixture, &carol] {
        let record = fixture.current().await.unwrap();
        let mark = record.damage.as_ref().unwrap();
        assert_eq!(mark.files, files.len() as u64);
        assert!(
            mark.packs.iter().all(|marked| marked.pack == pack && !marked.offsets.is_empty()),
            "{mark:?}"
        );
        let out = dir.path().join("out");
        assert_eq!(fixture.restore(&out).await.unwrap_err().kind(), ErrorKind::Damaged);
        assert!(!out.exists());
    }
    // Nothing is written twice, and a look that reads less takes no mark away.
    let before = fixture.current().await.unwrap();
    for options in [
        REPAIR,
        verify::Options { read_data: false, ..REPAIR },
        verify::Options { sample: Some(Sample { part: 7, of: 1_000_000_007 }), ..REPAIR },
        verify::Options { repair: false, ..REPAIR },
    ] {
        let again =
            verify::verify(&fixture.store, &fixture.lineage, options, Arc::new(Silent)).await.unwrap();
        assert_eq!(again.marked.len(), 2, "{options:?}");
        assert_eq!(fixture.current().await.unwrap(), before, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_by_itself_loses_its_mark() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    let key = data_pack(&fixture).await;
    let whole = memory.get(&key, u64::MAX).await.unwrap().bytes;
    spoil(&memory, &key).await;
    assert_eq!(repair(&fixture).await.marked.len(), 1);
    memory.damage(&key, whole);
    let report = fixture.verify().await.unwrap();
    assert_eq!((report.damage.len(), report.marked.len()), (0, 1), "only a repair writes");
    let report = repair(&fixture).await;
    assert_eq!((report.damage.len(), report.marked.len()), (0, 0));
    assert_eq!(fixture.current().await.unwrap().damage, None);
}

/// It is whole again when the repair looks for the second time: nothing is said of what was wrong before.
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_back_during_a_repair_is_not_called_damaged() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    let (key, harmed) = (data_pack(&fixture).await, memory.clone());
    let whole = memory.get(&key, u64::MAX).await.unwrap().bytes;
    spoil(&memory, &key).await;
    let records = layout::record(&fixture.lineage, fixture.current().await.unwrap().record);
    let records = records.as_str().trim_end_matches(records.name());
    let heal = deed(move || async move { harmed.damage(&key, whole) });
    // It tries to move what is lost, and reads the pointer when it looks again.
    let bucket = Arc::new(Interrupter::between(memory, records, &layout::latest(&fixture.lineage), heal));
    let report = repair(&fixture.on(bucket.clone())).await;
    assert!(bucket.is_done());
    assert!(report.damage.is_empty() && report.marked.is_empty(), "{report:#?}");
    assert_eq!(fixture.current().await.unwrap().damage, None);
}

/// A sample reads what is marked and little else; what it has made good is read, and all the rest with it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_repair_has_written_is_not_left_to_the_sample_of_another_day() {
    let RepairScenario { dir: _dir, source, memory, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    spoil(&memory, &data_pack(&fixture).await).await;
    assert_eq!(repair(&fixture).await.marked.len(), 1);
    let none = Some(Sample { part: 7, of: 1_000_000_007 });
    let options = verify::Options { sample: none, ..REPAIR };
    let unable = verify::verify(&fixture.store, &fixture.lineage, options, Arc::new(Silent)).await.unwrap();
    apart(&fixture.of("acme/bob"), &source).await;
    let able = verify::verify(&fixture.store, &fixture.lineage, options, Arc::new(Silent)).await.unwrap();
    assert!(able.damage.is_empty() && able.marked.is_empty(), "{able:#?}");
    assert!(!unable.damage.is_empty() && able.read_bytes > 700_000, "{unable:#?} {able:#?}");
}

/// Its k-th request fails, or it is killed there, for every k: nothing is worse, and the next
/// repair ends it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repair_that_fails_or_is_killed_anywhere_makes_nothing_worse() {
    let RepairScenario { dir: _dir, source, memory: stage, fixture } = RepairScenario::new().await;
    fixture.snapshot(&source).await.unwrap();
    apart(&fixture.of("acme/bob"), &source).await;
    fs::write(source.join("alone"), noise(60_000, 77)).unwrap();
    fixture.snapshot(&source).await.unwrap();
    // One pack that bob has a copy of, and one that nobody has.
    let packs = used(&fixture.current().await.unwrap(), |seq| seq != PackSeq::Meta);
    assert_eq!(packs.len(), 2);
    for pack in packs {
        spoil(&stage, &layout::pack(&fixture.store.tenant, pack)).await;
    }
    let found = fixture.verify().await.unwrap().damage.len();
    for fault in [Fault::KilledBefore, Fault::KilledAfter, Fault::Before, Fault::After] {
        let mut requests = 0;
        loop {
            requests += 1;
            let memory = copy(&stage).await;
            let faults = Arc::new(FaultBucket::new(memory.clone()));
            faults.inject(Rule::new(fault).nth(requests));
            let struck = fixture.on(faults.clone());
            let _ = verify::verify(&struck.store, &fixture.lineage, REPAIR, Arc::new(Silent)).await;
            let fixture = fixture.on(memory.clone());
            assert!(fixture.verify().await.unwrap().damage.len() <= found, "killed at {requests}");
            fixture.of("acme/bob").assert_clean().await;
            memory.advance(Duration::from_secs(1000));
            Collector::new(fixture.store.clone(), NOW).run_through().await.unwrap();
            let report = repair(&fixture).await;
            assert_eq!(
                (report.damage.len(), report.marked.len()),
                (1, 1),
                "killed at {requests}: {report:#?}"
            );
            assert_eq!(report.damage[0].files, ["alone"]);
            fixture.of("acme/bob").assert_clean().await;
            if faults.strikes() == 0 {
                break;
            }
        }
        assert!(requests > 60, "only {requests}");
    }
}
