//! These tests publish archives: a program that knows only the contract finds them, and nothing is left of those
//! that were not finished, or whose snapshot is gone.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::Value;
use store::{
    Error, ErrorKind,
    bucket::{Bucket, Fault, FaultBucket, Key, MemoryBucket, Rule, S3Bucket, S3Config, Verb},
    catalog::{pointer::Flip, records},
    format::{
        layout,
        manifest::Manifest,
        pointer::Target,
        record::{Record, State},
    },
    id::RecordId,
    ops::{
        archive::{
            export::{self, Framing, Request, Times},
            publish::{PublishJob, Published, publish},
        },
        gc::{Collector, Options},
        write::snapshot,
    },
    progress::Silent,
};
use tests::{
    archive::sha256,
    server::SeaweedFs,
    store_fixture::{StoreFixture, request},
    tree::noise,
};

struct PublishScenario {
    folder: tempfile::TempDir,
    fixture: StoreFixture,
}

impl PublishScenario {
    async fn new(bucket: Arc<dyn Bucket>) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), fixture: StoreFixture::open(bucket, None).await }
    }

    fn job(&self) -> PublishJob {
        let framing = Framing::Solid { level: 3, threads: 2 };
        PublishJob {
            export: Request { framing, times: Times::Exact, seal: None, max_bytes: u64::MAX },
            always: true,
            scratch: self.folder.path().join("scratch"),
        }
    }

    /// The next snapshot; with `always` it is published before the pointer is moved.
    async fn snapshot(&self, seed: u64, always: bool) -> store::Result<snapshot::Report> {
        let source = self.folder.path().join("source");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("file"), noise(300_000, seed)).unwrap();
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seed);
        fs::File::options().write(true).open(source.join("file")).unwrap().set_modified(written).unwrap();
        let archive = always.then(|| self.job());
        let request = snapshot::Request { archive, ..request(&self.fixture.lineage, &source) };
        self.fixture.capture(&request).await
    }

    async fn publish(&self, target: RecordId) -> store::Result<Published> {
        publish(&self.fixture.handle("test"), target, &self.job(), Arc::new(Silent)).await
    }

    async fn record(&self, id: RecordId) -> Record {
        records::get(&self.fixture.store, &self.fixture.lineage, id).await.unwrap().0
    }

    async fn latest(&self) -> Value {
        let object = self.fixture.root.get(&layout::latest(&self.fixture.lineage), u64::MAX).await.unwrap();
        serde_json::from_slice(&object.bytes).unwrap()
    }

    /// The names of archives and manifests in the bucket.
    async fn archives(&self) -> Vec<String> {
        let prefix = layout::lineage(&self.fixture.lineage);
        let listed = records::list_all(&*self.fixture.root, &prefix, store::bucket::Depth::Children).await;
        let mut names: Vec<_> = listed.unwrap().0.iter().map(|entry| entry.key.name().to_owned()).collect();
        names.retain(|name| name.starts_with("profile-"));
        names.sort();
        names
    }

    /// Reads as a program does that knows only the contract: pointer, manifest, archive.
    async fn read_by_contract(&self) -> Manifest {
        let latest = self.latest().await;
        let prefix = latest["active_sha256_prefix"].as_str().unwrap();
        let get = async |field: &str| {
            let key = Key::new(latest[field].as_str().unwrap()).unwrap();
            (self.fixture.root.get(&key, u64::MAX).await.unwrap().bytes, key)
        };
        let (bytes, key) = get("active_manifest_key").await;
        assert!(key.name().contains(prefix));
        let manifest = Manifest::decode(&bytes).unwrap();
        let (archive, _) = get("active_archive_key").await;
        assert_eq!(
            (sha256(&archive), archive.len() as u64),
            (manifest.archive_sha256, manifest.archive_size_bytes)
        );
        assert_eq!(manifest.archive_sha256.prefix(), prefix);
        assert_eq!(manifest.lineage(), self.fixture.lineage);
        manifest
    }

    fn nothing_is_left_on_disk(&self) -> bool {
        let scratch = self.folder.path().join("scratch");
        !Path::new(&scratch).exists() || fs::read_dir(scratch).unwrap().count() == 0
    }
}

async fn what_is_published_is_read_by_the_contract_alone(bucket: Arc<dyn Bucket>) {
    let scenario = PublishScenario::new(bucket).await;
    let stored = scenario.snapshot(1, false).await.unwrap();
    let before = scenario.latest().await;
    assert_eq!(scenario.archives().await, Vec::<String>::new());
    let published = scenario.publish(stored.record).await.unwrap();
    assert!(published.current && published.written.is_some());
    assert!(scenario.nothing_is_left_on_disk());
    let manifest = scenario.read_by_contract().await;
    assert_eq!(manifest.predecessor_sha256, "");
    // It is the same move of the same pointer, and still ours.
    let after = scenario.latest().await;
    for field in ["flipped_at_ms", "flipped_from_sha256_prefix"] {
        assert_eq!(after[field], before[field]);
    }
    let pointer = scenario.fixture.handle("test").pointer().await.unwrap().unwrap().pointer;
    assert_eq!(pointer.target(), Target::Record(stored.record));
    let record = scenario.record(stored.record).await;
    let archive = published.written.unwrap();
    assert_eq!(record.archive_sha256, Some(archive.sha256.to_string()));
    assert_eq!(record.archive_size_bytes, Some(archive.size_bytes));
    assert_eq!((record.tar_sha256, record.publishing), (Some(archive.tar_sha256), None));
    // Once is enough, and a half that somebody removed is made good.
    let again = scenario.publish(stored.record).await.unwrap();
    assert_eq!((again.archive_sha256, again.written, again.current), (archive.sha256, None, true));
    for key in [&published.archive_key, &published.manifest_key] {
        scenario.fixture.root.delete(key).await.unwrap();
        assert!(scenario.publish(stored.record).await.unwrap().written.is_some());
        scenario.read_by_contract().await;
    }
    assert_eq!(scenario.archives().await.len(), 2);
    scenario.fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_memory_what_is_published_is_read_by_the_contract_alone() {
    what_is_published_is_read_by_the_contract_alone(Arc::new(MemoryBucket::new())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_seaweedfs_in_parts_what_is_published_is_read_by_the_contract_alone() {
    let server = SeaweedFs::shared().await;
    let plain = server.config();
    // Made whole: what is judged when a store is made is not how it takes parts.
    StoreFixture::open(Arc::new(S3Bucket::open(plain.clone()).await), None).await;
    let config = S3Config { multipart_threshold_bytes: 50_000, part_bytes: 5 << 20, ..plain };
    what_is_published_is_read_by_the_contract_alone(Arc::new(S3Bucket::open(config).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_snapshot_is_published_without_moving_the_pointer_and_its_archive_goes_with_it() {
    let scenario = PublishScenario::new(Arc::new(MemoryBucket::new())).await;
    let older = scenario.snapshot(1, false).await.unwrap();
    let newer = scenario.snapshot(2, false).await.unwrap();
    let before = scenario.latest().await;
    assert!(!scenario.publish(older.record).await.unwrap().current);
    assert_eq!(scenario.latest().await, before);
    // What superseded it calls it by its archive from now on.
    let published = scenario.publish(newer.record).await.unwrap();
    let manifest = scenario.read_by_contract().await;
    assert_eq!(manifest.predecessor_sha256, scenario.record(older.record).await.archive_sha256.unwrap());
    assert_eq!(scenario.archives().await.len(), 4);
    scenario.fixture.handle("test").delete(older.record, "").await.unwrap();
    let sha = published.archive_sha256.prefix();
    assert_eq!(scenario.archives().await, [layout::manifest_name(&sha), layout::archive_name(&sha)]);
    scenario.read_by_contract().await;
    let refused = scenario.publish(older.record).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

/// Nothing but the archive is missing, and only programs that know nothing else would notice.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_misses_half_an_archive_and_another_publication_makes_it_good() {
    let scenario = PublishScenario::new(Arc::new(MemoryBucket::new())).await;
    let stored = scenario.snapshot(1, true).await.unwrap();
    let published = scenario.publish(stored.record).await.unwrap();
    scenario.fixture.assert_clean().await;
    for key in [&published.archive_key, &published.manifest_key] {
        scenario.fixture.root.delete(key).await.unwrap();
        let damage = scenario.fixture.verify().await.unwrap().damage;
        let told: Vec<_> = damage.iter().map(|damage| (&damage.object, &damage.snapshots)).collect();
        assert_eq!(told, [(&key.to_string(), &vec![published.archive_sha256.prefix()])], "{damage:?}");
        scenario.publish(stored.record).await.unwrap();
        scenario.fixture.assert_clean().await;
    }
    let whole = scenario.fixture.root.get(&published.archive_key, u64::MAX).await.unwrap();
    let mut other = whole.bytes.to_vec();
    other[1000] ^= 1;
    let replace = store::bucket::Write::Replace(whole.version);
    scenario.fixture.root.put(&published.archive_key, other.into(), replace).await.unwrap();
    let damage = scenario.fixture.verify().await.unwrap().damage;
    assert!(damage[0].reason.contains("not what its name says"), "{damage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_does_not_pass_over_a_record_that_may_name_its_archive() {
    let scenario = PublishScenario::new(Arc::new(MemoryBucket::new())).await;
    let older = scenario.snapshot(1, true).await.unwrap();
    let other = scenario.snapshot(2, true).await.unwrap();
    scenario.snapshot(3, true).await.unwrap();
    let key = layout::record(&scenario.fixture.lineage, other.record);
    let whole = scenario.fixture.root.get(&key, u64::MAX).await.unwrap();
    let torn = store::bucket::Write::Replace(whole.version);
    scenario.fixture.root.put(&key, whole.bytes.slice(..100).into(), torn).await.unwrap();
    let before = scenario.archives().await;
    let error = scenario.fixture.handle("test").delete(older.record, "").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(scenario.archives().await, before);
    assert_eq!(scenario.record(older.record).await.state, State::Live);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_always_every_pointer_names_an_archive_from_the_start() {
    let scenario = PublishScenario::new(Arc::new(MemoryBucket::new())).await;
    let mut before = String::new();
    for round in 0..3 {
        let report = scenario.snapshot(round, true).await.unwrap();
        let manifest = scenario.read_by_contract().await;
        assert_eq!(report.sha256_prefix, manifest.archive_sha256.prefix());
        assert_eq!(manifest.predecessor_sha256, before);
        let prefix = before.chars().take(12).collect::<String>();
        assert!(matches!(&report.flip, Flip::Flipped { from, .. } if *from == prefix), "{report:?}");
        before = manifest.archive_sha256.to_string();
    }
    assert_eq!(scenario.archives().await.len(), 6);
}

/// Whatever fails, neither half stays alone, and the next attempt succeeds.
#[tokio::test(start_paused = true)]
async fn a_half_that_could_not_be_stored_takes_the_other_with_it() {
    for (part, fault) in [(".tar.zst", Fault::Before), (".manifest.json", Fault::Before)] {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let scenario = PublishScenario::new(faults.clone()).await;
        let stored = scenario.snapshot(1, false).await.unwrap();
        let before = scenario.latest().await;
        faults.inject(Rule::new(fault).on(Verb::Create).at(part).always());
        let error = scenario.publish(stored.record).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{part}: {error}");
        assert!(faults.strikes() >= 4, "{part}: it is tried again three times");
        assert_eq!(scenario.archives().await, Vec::<String>::new(), "{part}");
        assert_eq!(scenario.latest().await, before);
        let record = scenario.record(stored.record).await;
        assert_eq!((record.archive_sha256, record.publishing), (None, None));
        faults.heal();
        scenario.publish(stored.record).await.unwrap();
        scenario.read_by_contract().await;
    }
}

/// Whoever reads while a manifest is replaced finds the old one or the new one.
#[tokio::test(start_paused = true)]
async fn a_manifest_is_replaced_and_never_missing() {
    let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
    let scenario = PublishScenario::new(faults.clone()).await;
    let stored = scenario.snapshot(1, false).await.unwrap();
    let published = scenario.publish(stored.record).await.unwrap();
    let found = scenario.fixture.root.get(&published.manifest_key, u64::MAX).await.unwrap();
    let mut other = Manifest::decode(&found.bytes).unwrap();
    other.notes = "from before".to_owned();
    let write = store::bucket::Write::Replace(found.version);
    scenario.fixture.root.put(&published.manifest_key, other.encode().into(), write).await.unwrap();
    scenario.fixture.root.delete(&published.archive_key).await.unwrap();
    faults.inject(Rule::new(Fault::Before).on(Verb::Delete).always());
    scenario.publish(stored.record).await.unwrap();
    assert_eq!(scenario.read_by_contract().await.notes, "");
}

/// What is on its way holds cookies.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_is_written_for_its_owner_alone() {
    let scenario = PublishScenario::new(Arc::new(MemoryBucket::new())).await;
    let stored = scenario.snapshot(1, true).await.unwrap();
    let record = scenario.record(stored.record).await;
    let exported = export::to_directory(
        &scenario.fixture.store,
        &scenario.fixture.lineage,
        &record,
        scenario.job().export,
        scenario.folder.path(),
        Arc::new(Silent),
    );
    let mode = fs::metadata(exported.await.unwrap().archive_path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Two snapshots of one tree have one archive.
#[tokio::test(start_paused = true)]
async fn a_publication_that_fails_takes_no_archive_from_another_snapshot() {
    let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
    let scenario = PublishScenario::new(faults.clone()).await;
    let first = scenario.snapshot(1, false).await.unwrap();
    let published = scenario.publish(first.record).await.unwrap();
    scenario.snapshot(2, false).await.unwrap();
    let again = scenario.snapshot(1, false).await.unwrap();
    assert_ne!(first.record, again.record);
    faults.inject(Rule::new(Fault::Before).on(Verb::Create).at(".manifest.json").always());
    scenario.publish(again.record).await.unwrap_err();
    assert_eq!(scenario.archives().await.len(), 2);
    assert_eq!(scenario.record(again.record).await.publishing, None);
    faults.heal();
    // The same tree, and yet a name of its own: a late removal of one cannot hit the other.
    let own = scenario.publish(again.record).await.unwrap();
    assert_ne!(own.archive_sha256, published.archive_sha256);
    assert_eq!(scenario.archives().await.len(), 4);
    scenario.read_by_contract().await;
    scenario.fixture.assert_clean().await;
}

/// A publisher that dies, whenever that is, leaves nothing that is not found again.
#[tokio::test(start_paused = true)]
async fn what_a_killed_publisher_leaves_is_finished_or_collected() {
    for killed in [Fault::KilledBefore, Fault::KilledAfter] {
        for nth in 1.. {
            let memory = Arc::new(MemoryBucket::new());
            let faults = Arc::new(FaultBucket::new(memory.clone()));
            let scenario = PublishScenario::new(faults.clone()).await;
            let stored = scenario.snapshot(1, false).await.unwrap();
            faults.inject(Rule::new(killed).at("snapshots/").nth(nth));
            let ended = scenario.publish(stored.record).await;
            faults.heal();
            let survivor = PublishScenario {
                folder: tempfile::tempdir().unwrap(),
                fixture: StoreFixture::open(memory.clone(), None).await,
            };
            if nth % 2 == 0 {
                survivor.publish(stored.record).await.unwrap();
                survivor.read_by_contract().await;
                assert_eq!(survivor.archives().await.len(), 2, "{killed:?} {nth}");
            } else {
                memory.advance(Duration::from_secs(2 * 86_400));
                Collector::new(survivor.fixture.store.clone(), Options::default()).run().await.unwrap();
                let record = survivor.record(stored.record).await;
                let expected = if record.archive_sha256.is_some() { 2 } else { 0 };
                assert_eq!(survivor.archives().await.len(), expected, "{killed:?} {nth}");
                assert_eq!(record.publishing, None);
            }
            survivor.fixture.assert_clean().await;
            if ended.is_ok() {
                assert!(nth > 8, "{nth}");
                break;
            }
        }
    }
}

/// Whoever is first, there is one archive in the end, and its publisher knows.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_publish_at_once_one_archive_stays() {
    let scenario = PublishScenario::new(Arc::new(MemoryBucket::new())).await;
    for (seed, levels) in (1..).zip([[3, 3], [3, 5], [3, 3], [3, 5], [3, 3], [3, 5]]) {
        let stored = scenario.snapshot(seed, false).await.unwrap();
        let handle = scenario.fixture.handle("test");
        let [one, other] = levels.map(|level| {
            let framing = Framing::Solid { level, threads: 1 };
            PublishJob {
                export: Request { framing, times: Times::Exact, seal: None, max_bytes: u64::MAX },
                ..scenario.job()
            }
        });
        let (one, other) = tokio::join!(
            publish(&handle, stored.record, &one, Arc::new(Silent)),
            publish(&handle, stored.record, &other, Arc::new(Silent)),
        );
        assert!(one.is_ok() || other.is_ok(), "{one:?} {other:?}");
        assert!(levels[0] != levels[1] || one.is_ok() && other.is_ok(), "{one:?} {other:?}");
        let record = scenario.record(stored.record).await;
        assert_eq!(record.publishing, None);
        assert_eq!(Some(scenario.read_by_contract().await.archive_sha256.to_string()), record.archive_sha256);
        assert_eq!(scenario.archives().await.len(), 2 * seed as usize, "{levels:?}");
    }
}

/// A collection that took a slow publisher for dead has the last word.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_is_not_named_and_does_not_stay() {
    let memory = Arc::new(MemoryBucket::new());
    let scenario = PublishScenario::new(memory.clone()).await;
    let stored = scenario.snapshot(1, false).await.unwrap();
    // Between the announcement and the end, the record says that it was given up.
    let faults = Arc::new(FaultBucket::new(memory.clone()));
    faults.inject(Rule::new(Fault::KilledBefore).on(Verb::Replace).at("/snap-").nth(2));
    let slow = PublishScenario {
        folder: tempfile::tempdir().unwrap(),
        fixture: StoreFixture::open(faults, None).await,
    };
    slow.publish(stored.record).await.unwrap_err();
    assert_eq!(scenario.archives().await.len(), 2);
    assert!(scenario.record(stored.record).await.publishing.is_some());
    scenario.fixture.handle("gc").abandon_publication(stored.record).await.unwrap();
    assert_eq!(scenario.archives().await, Vec::<String>::new());
    assert_eq!(scenario.record(stored.record).await.publishing, None);
    // And once more is no harm.
    scenario.fixture.handle("gc").abandon_publication(stored.record).await.unwrap();
}

/// Who removes what was given up does not notice that somebody begins anew.
#[tokio::test(start_paused = true)]
async fn while_what_was_given_up_is_removed_another_one_is_published_by_another_name() {
    let memory = Arc::new(MemoryBucket::new());
    let scenario = PublishScenario::new(memory.clone()).await;
    let stored = scenario.snapshot(1, false).await.unwrap();
    let killed = async |rule: Rule| {
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        faults.inject(rule);
        PublishScenario {
            folder: tempfile::tempdir().unwrap(),
            fixture: StoreFixture::open(faults, None).await,
        }
    };
    let publisher = killed(Rule::new(Fault::KilledBefore).on(Verb::Replace).at("/snap-").nth(2)).await;
    publisher.publish(stored.record).await.unwrap_err();
    let collector = killed(Rule::new(Fault::KilledBefore).on(Verb::Delete).at(".tar.zst")).await;
    collector.fixture.handle("gc").abandon_publication(stored.record).await.unwrap_err();
    let given_up = scenario.record(stored.record).await.publishing.unwrap();
    assert!(given_up.abandoned);
    let published = scenario.publish(stored.record).await.unwrap();
    assert_ne!(published.archive_sha256, given_up.archive_sha256);
    // The removal that was under way arrives at last.
    memory.delete(&layout::archive_key(&scenario.fixture.lineage, &given_up.archive_sha256)).await.unwrap();
    assert_eq!(scenario.archives().await.len(), 2);
    scenario.read_by_contract().await;
    scenario.fixture.assert_clean().await;
}

/// A stranger's archive is nobody's to remove.
#[tokio::test(flavor = "multi_thread")]
async fn archives_that_no_record_names_are_left_alone() {
    let memory = Arc::new(MemoryBucket::new());
    let scenario = PublishScenario::new(memory.clone()).await;
    let older = scenario.snapshot(1, true).await.unwrap();
    scenario.snapshot(2, true).await.unwrap();
    let strange = layout::lineage(&scenario.fixture.lineage).key("profile-0123456789ab.tar.zst").unwrap();
    memory.put(&strange, b"theirs".to_vec().into(), store::bucket::Write::Create).await.unwrap();
    scenario.fixture.handle("test").delete(older.record, "").await.unwrap();
    memory.advance(Duration::from_secs(40 * 86_400));
    Collector::new(scenario.fixture.store.clone(), Options::after(Duration::ZERO)).run().await.unwrap();
    assert!(scenario.archives().await.contains(&"profile-0123456789ab.tar.zst".to_owned()));
    assert_eq!(scenario.archives().await.len(), 3);
    scenario.read_by_contract().await;
}

/// The contract's table: the run goes on, the previous snapshot stays.
#[tokio::test(start_paused = true)]
async fn a_snapshot_whose_archive_cannot_be_stored_does_not_become_the_current_one() {
    for part in [".tar.zst", ".manifest.json"] {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let scenario = PublishScenario::new(faults.clone()).await;
        let good = scenario.snapshot(1, true).await.unwrap();
        let (before, archives) = (scenario.latest().await, scenario.archives().await);
        faults.inject(Rule::new(Fault::Before).on(Verb::Create).at(part).always());
        let error = scenario.snapshot(2, true).await.unwrap_err();
        assert!(
            matches!(&error, Error::PointerNotFlipped { record, .. } if *record != good.record),
            "{error}"
        );
        assert!(error.to_string().contains("archive could not be stored"), "{error}");
        faults.heal();
        let now = scenario.latest().await;
        for field in ["active_sha256_prefix", "active_archive_key", "active_manifest_key"] {
            assert_eq!(now[field], before[field]);
        }
        assert_eq!(scenario.archives().await, archives, "{part}");
        scenario.read_by_contract().await;
        // The next attempt finds the snapshot stored, publishes it and moves the pointer.
        let next = scenario.snapshot(2, true).await.unwrap();
        assert!(matches!(next.flip, Flip::Flipped { .. }), "{next:?}");
        assert_eq!(scenario.read_by_contract().await.archive_sha256.prefix(), next.sha256_prefix);
    }
}
