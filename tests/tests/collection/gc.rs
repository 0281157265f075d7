//! These tests collect beside real captures: nothing that is kept is ever lost, whoever is killed where, and what
//! is not kept goes.
//!
//! `PSTORE_GC_SECONDS` is how long writers and collections run beside each other.

use std::{
    env, fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use store::{
    bucket::{Bucket, Fault, FaultBucket, Key, MemoryBucket, Recorder, Rule, Verb, Write},
    catalog::{
        events,
        pointer::Move,
        records,
        rules::Rules,
        session_root::{self, Owner, Roots},
    },
    content::TenantStore,
    format::{
        condemned::{Condemned, Phase},
        layout,
        pin::Pin,
    },
    id::{PackId, RecordId},
    ops::gc::{Collector, Options, Stranded, repack},
};
use tests::{
    binary::{self, Host},
    interrupter::{Interrupter, deed},
    server::SeaweedFs,
    store_fixture::{StoreFixture, copy},
    tree::{assert_same, noise},
};

const NOW: Options = Options::after(Duration::ZERO);

fn fill(source: &Path, writer: u64, round: u64) {
    fs::create_dir_all(source).unwrap();
    fs::write(source.join("Last Version"), "131.0.6778.85").unwrap();
    fs::write(source.join("shared"), noise(600_000, 7)).unwrap();
    fs::write(source.join("round"), noise(200_000, 100 + round % 3)).unwrap();
    fs::write(source.join("own"), noise(100_000, 10_000 * (writer + 1) + round)).unwrap();
}

/// Three snapshots, of which the first two are deleted. The directory is as in the last.
async fn deleted(bucket: Arc<dyn Bucket>, source: &Path) -> StoreFixture {
    let store_fixture = StoreFixture::open(bucket, None).await;
    let mut records = Vec::new();
    for round in 0..3 {
        fill(source, 0, round);
        records.push(store_fixture.snapshot(source).await.unwrap().record);
    }
    for record in &records[..2] {
        store_fixture.handle("test").delete(*record, "").await.unwrap();
    }
    store_fixture
}

/// Which packs a lost record needed nobody can tell. They are all that is left of its snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn a_pointer_whose_record_is_missing_stops_a_collection_until_it_is_moved() {
    let memory = Arc::new(MemoryBucket::new());
    let folder = tempfile::tempdir().unwrap();
    let store_fixture = StoreFixture::open(memory.clone(), None).await;
    let mut records = Vec::new();
    for round in 0..2 {
        fill(folder.path(), 0, round);
        records.push(store_fixture.snapshot(folder.path()).await.unwrap().record);
    }
    memory.delete(&layout::record(&store_fixture.lineage, records[1])).await.unwrap();
    let before = memory.keys();
    for _ in 0..3 {
        let error = Collector::new(store_fixture.store.clone(), NOW).run().await.unwrap_err();
        let told = format!("names record {}, which is missing", records[1]);
        assert!(error.to_string().contains(&told), "{error}");
    }
    assert_eq!(memory.keys(), before);
    let back = Move { target: records[0], reason: String::new(), force: true, only_from: None };
    store_fixture.handle("test").point(&back).await.unwrap();
    for _ in 0..2 {
        Collector::new(store_fixture.store.clone(), NOW).run().await.unwrap();
    }
    assert!(packs(&memory) < before.iter().filter(|key| key.contains("/packs/")).count());
    store_fixture.assert_clean().await;
}

/// A record that a root names is never removed. If it is gone all the same, somebody has to decide about the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_on_a_snapshot_whose_record_is_missing_is_named() {
    let memory = Arc::new(MemoryBucket::new());
    let store_fixture = StoreFixture::open(memory.clone(), None).await;
    let record = store_fixture.snapshots(2).await[0];
    let (session, host) = (RecordId::from_bytes([7; 16]), "fixture".to_owned());
    let roots = Roots::new(store_fixture.store.clone(), Owner { session, host: host.clone() });
    roots.ensure(&store_fixture.lineage, record).await.unwrap();
    let collector = Collector::new(store_fixture.store.clone(), NOW);
    assert_eq!(collector.run().await.unwrap().stranded, []);
    memory.delete(&layout::record(&store_fixture.lineage, record)).await.unwrap();
    let stranded = [Stranded { session, host, lineage: store_fixture.lineage.clone(), record }];
    assert_eq!(collector.plan().await.unwrap().stranded, stranded);
    assert_eq!(collector.run().await.unwrap().stranded, stranded);
    session_root::forget(&store_fixture.store, session).await.unwrap();
    assert_eq!(collector.run().await.unwrap().stranded, []);
}

/// While a collection reads pins, somebody pins a snapshot, and it is moved. What was pinned is in packs that were
/// condemned before the snapshot was published, so nothing but the pin keeps them any more.
#[tokio::test(flavor = "multi_thread")]
async fn pins_are_read_after_records_or_what_somebody_has_pinned_goes() {
    for pins_after_records in [true, false] {
        let (memory, dir) = (Arc::new(MemoryBucket::new()), tempfile::tempdir().unwrap());
        let store_fixture = StoreFixture::open(memory.clone(), None).await;
        fill(dir.path(), 0, 0);
        let pinned = store_fixture.snapshot(dir.path()).await.unwrap().record;
        let bob = store_fixture.of("acme/bob").snapshots(1).await[0];
        let (record, _) = records::get(&store_fixture.store, &store_fixture.lineage, pinned).await.unwrap();
        let needed: Vec<PackId> = record.content.unwrap().packs.iter().map(|used| used.pack).collect();
        let (tenant, held) = (store_fixture.store.tenant.clone(), Duration::from_secs(900));
        let mut armed = Condemned::new(needed.clone());
        armed.phase = Phase::Armed;
        let put =
            async |key: Key, bytes: Vec<u8>| memory.put(&key, bytes.into(), Write::Create).await.unwrap();
        put(layout::condemned_by(&tenant, bob), armed.encode()).await;
        put(layout::pin(&tenant, bob), Pin::new(bob, 0, held).encode()).await;
        let (meanwhile, memory_too, from) = (store_fixture.clone(), memory.clone(), needed.clone());
        let deed = deed(move || async move {
            let StoreFixture { store, lineage, .. } = meanwhile;
            let pin = Pin::new(pinned, 0, held).encode();
            memory_too.put(&layout::pin(&store.tenant, pinned), pin.into(), Write::Create).await.unwrap();
            let mut packs = Vec::new();
            for pack in from {
                let bytes = memory_too.get(&layout::pack(&store.tenant, pack), u64::MAX).await.unwrap().bytes;
                packs.push((pack, bytes.len() as u64));
            }
            let dry_run = repack::DryRun::default();
            let users = [(lineage.clone(), pinned)];
            let survey =
                repack::survey(&store, &dry_run, &packs, &users, &[], (u64::MAX, u64::MAX)).await.unwrap();
            assert_eq!(repack::run(&store, &survey, Rules::ALL).await.unwrap().records, 1);
        });
        let pins = layout::pins(&tenant);
        let bucket = Arc::new(Interrupter::before(memory.clone(), Verb::Get, pins.as_str(), deed));
        let rules = Rules { pins_after_records, ..Rules::ALL };
        let collector = Collector::new(store_fixture.on(bucket.clone()).store, NOW).with_rules(rules);
        collector.run().await.unwrap();
        assert!(bucket.is_done());
        let mut left = 0;
        for pack in &needed {
            left += usize::from(memory.get(&layout::pack(&tenant, *pack), u64::MAX).await.is_ok());
        }
        assert_eq!(left, if pins_after_records { needed.len() } else { 0 });
    }
}

fn packs(memory: &MemoryBucket) -> usize {
    memory.keys().iter().filter(|key| key.contains("/packs/")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_writes_nothing_whatever_there_is_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let recorder = Arc::new(Recorder::new(memory.clone()));
    let store_fixture = deleted(recorder.clone(), dir.path()).await;
    let collector = Collector::new(store_fixture.store.clone(), NOW);
    for round in 0..3 {
        let before = memory.keys();
        recorder.take();
        let plan = collector.plan().await.unwrap();
        let calls = recorder.take();
        assert!(calls.len() > 5 && calls.iter().all(|call| call.verb.is_read()), "{calls:#?}");
        assert_eq!(memory.keys(), before);
        assert_eq!((!plan.condemned.is_empty(), plan.deleted.packs > 0), (round == 0, round == 1));
        let done = collector.run().await.unwrap();
        assert_eq!((done.condemned.len(), done.deleted), (plan.condemned.len(), plan.deleted));
    }
}

/// Requests go with packs and records, and no chunk is ever read.
/// More packs than are kept in memory at the least, of three profiles, some of them garbage.
#[tokio::test(flavor = "multi_thread")]
async fn with_little_memory_the_plan_is_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (source, scratch) = (dir.path().join("source"), dir.path().join("scratch"));
    let memory = Arc::new(MemoryBucket::new());
    let store_fixture = StoreFixture::open(memory.clone(), None).await;
    fs::create_dir(&source).unwrap();
    for round in 0..60 {
        let lineage = tests::store_fixture::lineage(["acme/alice", "acme/bob", "acme/carol"][round % 3]);
        let store_fixture = StoreFixture { lineage, ..store_fixture.clone() };
        fs::write(source.join(format!("{}", round % 5)), noise(3000, round as u64)).unwrap();
        let record = store_fixture.snapshot(&source).await.unwrap().record;
        if round % 4 == 0 {
            fs::write(source.join("more"), noise(3000, 1000 + round as u64)).unwrap();
            store_fixture.snapshot(&source).await.unwrap();
            store_fixture.handle("test").delete(record, "").await.unwrap();
        }
    }
    assert!(packs(&memory) > 100);
    let roomy = Options { max_unused_percent: 100, ..NOW };
    let tight = Options { memory_bytes: 0, ..roomy };
    let told = |plan: store::ops::gc::Plan| {
        let condemned: Vec<_> = plan.condemned.iter().map(|one| (one.pack, one.bytes, one.cause)).collect();
        (condemned, plan.needed, plan.live_bytes, plan.indexes_removed, plan.leftovers, plan.deleted)
    };
    let mut ends = Vec::new();
    for options in [roomy, tight] {
        let memory = copy(&memory).await;
        let store = TenantStore { bucket: memory.clone(), ..store_fixture.store.clone() };
        let collector = Collector::new(store.clone(), options).with_scratch(scratch.clone());
        let planned = told(collector.plan().await.unwrap());
        assert!(!planned.0.is_empty() && planned.1.packs > 64);
        let (done, swept) = (told(collector.run().await.unwrap()), told(collector.run().await.unwrap()));
        assert!(swept.5.packs > 0);
        ends.push((planned, done, swept, packs(&memory)));
        StoreFixture { store, ..store_fixture.clone() }.assert_clean().await;
    }
    assert_eq!(ends[0], ends[1]);
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0, "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_reads_records_and_no_content() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::with_page_size(1000))));
    let store_fixture = deleted(recorder.clone(), dir.path()).await;
    recorder.take();
    Collector::new(store_fixture.store.clone(), NOW).run().await.unwrap();
    let calls = recorder.take();
    assert!(calls.iter().all(|call| !call.key.contains("/packs/") || call.bytes == 0), "{calls:#?}");
    assert!(calls.len() < 40, "{} calls: {calls:#?}", calls.len());
}

/// Killed at its k-th request, for every k; then two more collections.
#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_is_killed_anywhere_is_made_good_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let stage = Arc::new(MemoryBucket::new());
    let store_fixture = deleted(stage.clone(), &source).await;
    for fault in [Fault::KilledBefore, Fault::KilledAfter] {
        let mut requests = 0;
        loop {
            requests += 1;
            let memory = copy(&stage).await;
            let through = |bucket: Arc<dyn Bucket>| TenantStore { bucket, ..store_fixture.store.clone() };
            let faults = Arc::new(FaultBucket::new(memory.clone()));
            faults.inject(Rule::new(fault).nth(requests));
            let collector = Collector::new(through(faults), NOW);
            let killed = collector.run().await.is_err() || collector.run().await.is_err();
            let store = through(memory.clone());
            let collector = Collector::new(store.clone(), NOW);
            for _ in 0..2 {
                collector.run().await.unwrap();
            }
            let store_fixture = StoreFixture { store, ..store_fixture.clone() };
            store_fixture.assert_clean().await;
            let plan = collector.plan().await.unwrap();
            assert!(plan.condemned.is_empty() && plan.pending.is_empty(), "killed at {requests}: {plan:#?}");
            assert!(packs(&memory) < packs(&stage));
            if !killed {
                let out = dir.path().join(format!("out-{fault:?}"));
                store_fixture.restore(&out).await.unwrap();
                assert_same(&source, &out);
                break;
            }
        }
        assert!(requests > 30, "only {requests}");
    }
}

/// What was stored before is still referred to, and what is condemned is stored again.
#[tokio::test(flavor = "multi_thread")]
async fn a_capture_between_the_two_steps_refers_to_nothing_that_goes() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source");
    let memory = Arc::new(MemoryBucket::new());
    let store_fixture = deleted(memory.clone(), &source).await;
    let collector = Collector::new(store_fixture.store.clone(), NOW);
    let condemned = collector.run().await.unwrap().condemned;
    assert!(!condemned.is_empty());
    // The very content of what was deleted.
    fill(&source, 0, 1);
    store_fixture.rescan(&source).await.unwrap();
    let done = collector.run().await.unwrap();
    assert_eq!(done.deleted.packs, condemned.len() as u64, "nothing was pardoned");
    for candidate in condemned {
        store_fixture
            .store
            .bucket
            .get(&layout::pack(&store_fixture.store.tenant, candidate.pack), u64::MAX)
            .await
            .unwrap_err();
    }
    store_fixture.assert_clean().await;
    let out = dir.path().join("out");
    store_fixture.restore(&out).await.unwrap();
    assert_same(&source, &out);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_indexes_become_few() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let store_fixture = StoreFixture::open(memory.clone(), None).await;
    let indexes = || memory.keys().iter().filter(|key| key.contains("/index/")).count();
    for round in 0..70 {
        fs::write(dir.path().join("file"), noise(3000, round)).unwrap();
        store_fixture.snapshot(dir.path()).await.unwrap();
    }
    assert!(indexes() >= 70);
    let done = Collector::new(store_fixture.store.clone(), NOW).run().await.unwrap();
    assert!(done.indexes_merged >= 70 && indexes() == 1, "{} left", indexes());
    store_fixture.assert_clean().await;
    // What they knew is still known.
    let stored = store_fixture.rescan(dir.path()).await.unwrap();
    assert_eq!(stored.counts.new_chunks, 0);
}

/// The ids of all events that the log tells, in its order.
async fn told(store_fixture: &StoreFixture) -> Vec<store::id::EventId> {
    let log = events::log(&store_fixture.store, &store_fixture.lineage, None).await.unwrap();
    log.into_iter().map(|event| event.unwrap().id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn old_events_become_few_objects_and_are_told_as_before() {
    let memory = Arc::new(MemoryBucket::new());
    let store_fixture = StoreFixture::open(memory.clone(), None).await;
    let objects = || memory.keys().iter().filter(|key| key.contains("/events/")).count();
    let merging = || Collector::new(store_fixture.store.clone(), Options::default());
    for days in 0..3 {
        store_fixture.snapshots(20).await;
        let before = told(&store_fixture).await;
        assert_eq!(merging().run().await.unwrap().events_merged, 0, "they are new");
        memory.advance(Duration::from_secs(2 * 86_400));
        let planned = merging().plan().await.unwrap().events_merged;
        let merged = merging().run().await.unwrap().events_merged;
        assert!(merged >= 20 && merged == planned, "{days}: {merged} merged, {planned} planned");
        assert!(objects() < 4, "{} objects are left", objects());
        assert_eq!(told(&store_fixture).await, before);
        assert_eq!(merging().run().await.unwrap().events_merged, 0, "there is nothing left to do");
    }
    store_fixture.assert_clean().await;
    memory.advance(Duration::from_secs(401 * 86_400));
    assert!(merging().run().await.unwrap().events_removed > 0);
    assert_eq!(objects(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_read_while_events_are_merged_tells_all_of_them() {
    let memory = Arc::new(MemoryBucket::new());
    let store_fixture = StoreFixture::open(memory.clone(), None).await;
    store_fixture.snapshots(20).await;
    let before = told(&store_fixture).await;
    memory.advance(Duration::from_secs(2 * 86_400));
    let collector = Collector::new(store_fixture.store.clone(), Options::default());
    let merge = deed(move || async move { assert!(collector.run().await.unwrap().events_merged > 0) });
    let events = layout::events(&store_fixture.lineage);
    let interrupter = Arc::new(Interrupter::before(memory, Verb::Get, events.as_str(), merge));
    let slow = store_fixture.on(interrupter.clone());
    assert_eq!(told(&slow).await, before);
    assert!(interrupter.is_done());
}

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().map_or(otherwise, |text| text.parse().unwrap())
}

/// Four writers in a loop, each of which keeps two snapshots; collections, a third of them
/// killed somewhere; and somebody who checks everything all the time.
#[tokio::test(flavor = "multi_thread")]
async fn writers_and_collections_in_a_loop_on_a_real_server() {
    let server = SeaweedFs::shared().await;
    let dir = tempfile::tempdir().unwrap();
    let config_file = dir.path().join("pstore.toml");
    fs::write(&config_file, "[tenants.acme]\nretention.keep = 2\n").unwrap();
    let config = server.config();
    let host = |name: &str| {
        Host::s3(&dir.path().join(name), &config).with("PSTORE_CONFIG", config_file.to_str().unwrap())
    };
    host("first").succeed(["init"]);
    let end = Instant::now() + Duration::from_secs(number("PSTORE_GC_SECONDS", 12));
    let (over, collected) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (host, source) =
                    (host(&format!("w{writer}")), dir.path().join(format!("source{writer}")));
                scope.spawn(move || {
                    let mut round = 0;
                    while Instant::now() < end || round < 5 {
                        fill(&source, writer, round);
                        host.snapshot(&source, &format!("acme/p{writer}"));
                        round += 1;
                    }
                    round
                })
            })
            .collect();
        let collector = host("gc");
        let (over, collected) = (&over, &collected);
        scope.spawn(move || {
            for run in 0_u64.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let running = collector.start(["gc", "acme", "--grace", "0"]);
                if run % 3 == 2 {
                    thread::sleep(Duration::from_millis(u64::from(noise(1, run)[0])));
                    running.kill();
                    continue;
                }
                let ended = running.wait();
                // Before the first snapshot there is no such tenant.
                assert!(matches!(ended.code, Some(0 | 3)), "{ended:#?}");
                let deleted = ended.document["tenants"][0]["deleted"]["packs"].as_u64().unwrap_or_default();
                collected.fetch_add(deleted, Ordering::Relaxed);
            }
        });
        let checker = host("check");
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for writer in 0..4 {
                    let ended = checker.run(["verify", &format!("acme/p{writer}"), "--no-cache"]);
                    assert!(matches!(ended.code, Some(0 | 3)), "{ended:#?}");
                }
            }
        });
        let rounds: Vec<u64> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        eprintln!("rounds of the writers: {rounds:?}");
    });
    let host = host("last");
    for _ in 0..2 {
        let done = host.succeed(["gc", "acme", "--grace", "0"]);
        let deleted = done["tenants"][0]["deleted"]["packs"].as_u64().unwrap();
        collected.fetch_add(deleted, Ordering::Relaxed);
    }
    assert!(collected.load(Ordering::Relaxed) > 0, "nothing was ever collected");
    let left = host.succeed(["gc", "acme", "--dry-run", "--grace", "0"]);
    let writing = &left["tenants"][0]["writing"]["packs"];
    assert_eq!((&left["tenants"][0]["condemned"]["packs"], writing), (&0.into(), &0.into()), "{left:#}");
    for writer in 0..4 {
        let profile = format!("acme/p{writer}");
        host.verify(&profile, &["--no-cache"]);
        let kept = host.succeed(["list", &profile]);
        assert!(kept["snapshots"].as_array().map(Vec::len) <= Some(2), "{kept:#}");
        let out = dir.path().join(format!("out{writer}"));
        host.restore(&profile, &out);
        assert_same(&dir.path().join(format!("source{writer}")), &out);
    }
}

/// Writers and collections killed at many moments: what was stored before is there.
#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_lose_nothing_on_a_real_server() {
    let server = SeaweedFs::shared().await;
    let dir = tempfile::tempdir().unwrap();
    let (source, host) = (dir.path().join("source"), Host::s3(&dir.path().join("home"), &server.config()));
    fill(&source, 0, 0);
    host.snapshot(&source, "acme/alice");
    let rounds = number("PSTORE_GC_SECONDS", 12);
    for round in 1..=rounds {
        fill(&source, 0, round);
        let running = host.start(binary::snapshot(&source, "acme/alice"));
        thread::sleep(Duration::from_millis(8 * u64::from(noise(1, round)[0] % 32)));
        running.kill();
        let running = host.start(["gc", "acme", "--grace", "0"]);
        thread::sleep(Duration::from_millis(4 * u64::from(noise(1, 99 + round)[0] % 32)));
        running.kill();
        host.verify("acme/alice", &["--no-cache"]);
    }
    // A lock whose process is gone keeps nobody out, and neither does a lease.
    host.snapshot(&source, "acme/alice");
    let packs = |document: &Value| document["tenants"][0]["condemned"]["packs"].as_u64().unwrap();
    for _ in 0..2 {
        host.succeed(["gc", "acme", "--grace", "0"]);
    }
    let left = host.succeed(["gc", "acme", "--grace", "0", "--dry-run"]);
    assert_eq!(packs(&left), 0, "{left:#}");
    host.verify("acme/alice", &["--no-cache"]);
    let out = dir.path().join("out");
    host.restore("acme/alice", &out);
    assert_same(&source, &out);
}
