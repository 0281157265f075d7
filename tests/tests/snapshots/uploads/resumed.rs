//! These tests follow the packs of a write that was cut short, and the notes about them.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use store::{
    ErrorKind,
    bucket::{Bucket, Fault, FaultBucket, Key, MemoryBucket, Rule, Verb},
    catalog::{lease::LEASE_TTL, lock},
    content::TenantStore,
    format::config::TenantConfig,
    ops::{
        gc::{Collector, Options},
        write::snapshot::Report,
    },
};
use tests::{
    interrupter::{Interrupter, deed},
    store_fixture::StoreFixture,
    tree::{assert_same, noise},
};

const MIB: usize = 1 << 20;
/// How many packs the store has when a write is cut short; it would have been six.
const STORED: u64 = 4;

/// A host with a cache, a profile of six packs, and a bucket that anybody can look into.
struct ResumeScenario {
    dir: tempfile::TempDir,
    memory: Arc<MemoryBucket>,
    fixture: StoreFixture,
    source: PathBuf,
}

impl ResumeScenario {
    async fn make() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = Arc::new(MemoryBucket::with_page_size(1000));
        let fixture =
            with_small_packs(StoreFixture::open(memory.clone(), Some(dir.path().join("cache"))).await);
        let source = dir.path().join("source");
        fs::create_dir_all(&source).unwrap();
        for file in 0..24 {
            fs::write(source.join(format!("f_{file:03}")), noise(MIB / 4, file)).unwrap();
        }
        Self { dir, memory, fixture, source }
    }

    /// One whose write was cut short.
    async fn cut_short() -> Self {
        let scenario = Self::make().await;
        scenario.cut(STORED).await;
        scenario
    }

    /// The host dies when so many packs are stored; whoever comes later finds its lock expired.
    async fn cut(&self, packs: u64) {
        let bucket = Arc::new(FaultBucket::new(self.memory.clone()));
        let rule = Rule::new(Fault::KilledBefore).on(Verb::Create).at("/packs/");
        bucket.inject(rule.nth(packs + 1));
        self.fixture.on(bucket).snapshot(&self.source).await.unwrap_err();
        self.memory.advance(lock::DEFAULT_TTL + Duration::from_secs(1));
    }

    /// Where the host keeps what it knows of the tenant.
    fn folder(&self) -> PathBuf {
        self.dir.path().join("cache").join(self.fixture.store.config.store_id.to_string()).join("acme")
    }

    fn notes_folder(&self) -> PathBuf {
        self.folder().join("unfinished")
    }

    fn notes(&self) -> Vec<PathBuf> {
        let Ok(folder) = fs::read_dir(self.notes_folder()) else { return Vec::new() };
        let mut notes: Vec<PathBuf> = folder.map(|entry| entry.unwrap().path()).collect();
        notes.sort();
        notes
    }

    async fn collect(&self, runs: usize) {
        let collector = Collector::new(self.fixture.store.clone(), Options::after(Duration::ZERO));
        for _ in 0..runs {
            collector.run().await.unwrap();
        }
    }

    /// Captures the source, which must end well, and be restored as it is.
    async fn capture(&self) -> Report {
        let report = self.fixture.snapshot(&self.source).await.unwrap();
        self.assert_whole(&self.fixture).await;
        report
    }

    /// As another host sees it, after whatever a collection would do to it.
    async fn assert_whole(&self, fixture: &StoreFixture) {
        self.memory.advance(LEASE_TTL + Duration::from_secs(1));
        self.collect(2).await;
        let elsewhere = TenantStore { cache: None, ..fixture.store.clone() };
        let elsewhere = StoreFixture { store: elsewhere, ..fixture.clone() };
        elsewhere.assert_clean().await;
        let out = self.dir.path().join(format!("out-{}", tests::unique_name()));
        elsewhere.restore(&out).await.unwrap();
        assert_same(&self.source, &out);
    }

    fn packs(&self) -> Vec<Key> {
        let keys = self.memory.keys().into_iter().filter(|key| key.contains("/packs/"));
        keys.map(|key| Key::new(key).unwrap()).collect()
    }
}

fn with_small_packs(mut fixture: StoreFixture) -> StoreFixture {
    let mut config = TenantConfig::clone(&fixture.store.config);
    config.chunking.pack_bytes = MIB as u32;
    fixture.store.config = Arc::new(config);
    fixture
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_capture_needs_what_was_stored_and_forgets_the_notes() {
    let scenario = ResumeScenario::cut_short().await;
    assert_eq!((scenario.notes().len(), scenario.packs().len()), (STORED as usize, STORED as usize));
    for note in scenario.notes() {
        let is_private = |path: &Path, mode| fs::metadata(path).unwrap().permissions().mode() & 0o777 == mode;
        assert!(is_private(&note, 0o600) && is_private(note.parent().unwrap(), 0o700));
    }
    let report = scenario.capture().await;
    assert_eq!(report.taken_over.packs, STORED);
    assert!(report.counts.new_bytes < 3 * MIB as u64, "{:?}", report.counts);
    assert_eq!(scenario.notes(), Vec::<PathBuf>::new());
    // Whoever reads the indexes finds what was taken over.
    let nowhere = TenantStore { cache: None, ..scenario.fixture.store.clone() };
    let other = StoreFixture { store: nowhere, ..scenario.fixture.of("acme/bob") };
    assert_eq!(other.snapshot(&scenario.source).await.unwrap().counts.new_chunks, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_capture_of_another_profile_on_the_host_goes_on_too_and_one_that_is_cut_short_again() {
    let scenario = ResumeScenario::cut_short().await;
    scenario.cut(1).await;
    assert_eq!(scenario.notes().len(), STORED as usize + 1);
    let bob = scenario.fixture.of("acme/bob");
    let report = bob.snapshot(&scenario.source).await.unwrap();
    assert_eq!(report.taken_over.packs, STORED + 1);
    scenario.assert_whole(&bob).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_since_is_stored_as_it_is_now() {
    let scenario = ResumeScenario::cut_short().await;
    for file in ["f_000", "f_005"] {
        fs::write(scenario.source.join(file), noise(MIB / 4, 500)).unwrap();
    }
    fs::rename(scenario.source.join("f_001"), scenario.source.join("renamed")).unwrap();
    fs::remove_file(scenario.source.join("f_002")).unwrap();
    assert_eq!(scenario.capture().await.taken_over.packs, STORED);
}

/// A capture that starts again because files changed under it does not send them all again.
#[tokio::test(flavor = "multi_thread")]
async fn a_capture_that_starts_again_goes_on_too() {
    let scenario = ResumeScenario::make().await;
    let (changing, appearing) = (scenario.source.join("f_000"), scenario.source.join("f_new"));
    let change = deed(move || async move {
        fs::write(changing, noise(MIB / 4, 500)).unwrap();
        // On a busy host the first pack may be full before that one is read, but no walk has seen this one.
        fs::write(appearing, noise(MIB / 4, 501)).unwrap();
    });
    let bucket = Interrupter::before(scenario.memory.clone(), Verb::Create, "content/acme/packs/", change);
    let report = scenario.fixture.on(Arc::new(bucket)).snapshot(&scenario.source).await.unwrap();
    assert!(report.taken_over.packs >= 5, "{:?}", report.taken_over);
    scenario.assert_whole(&scenario.fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_collection_has_condemned_or_removed_is_stored_again() {
    // Condemned; removed; removed, and so long ago that no document names it any more.
    for (runs, later) in [(1, 0), (2, 0), (2, 2)] {
        let scenario = ResumeScenario::cut_short().await;
        scenario.memory.advance(LEASE_TTL);
        scenario.collect(runs).await;
        for _ in 0..later {
            scenario.memory.advance(2 * store::ops::gc::ENDED_FOR);
            scenario.collect(1).await;
        }
        assert_eq!(scenario.packs().is_empty(), runs > 1, "{runs} {later}");
        let report = scenario.capture().await;
        assert_eq!(report.taken_over.packs, 0, "{runs} {later}");
        assert_eq!(scenario.notes(), Vec::<PathBuf>::new(), "{runs} {later}");
    }
}

/// Between the second capture's lease and its publication, and again afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_condemned_while_somebody_goes_on_from_it_stays() {
    let scenario = Arc::new(ResumeScenario::cut_short().await);
    scenario.memory.advance(LEASE_TTL);
    let beside = Arc::clone(&scenario);
    let collect = deed(move || async move { beside.collect(2).await });
    let bucket = Interrupter::before(scenario.memory.clone(), Verb::Create, "content/acme/index/", collect);
    let bucket = Arc::new(bucket);
    let report = scenario.fixture.on(bucket.clone()).snapshot(&scenario.source).await.unwrap();
    assert!(bucket.is_done());
    assert_eq!(report.taken_over.packs, STORED);
    scenario.assert_whole(&scenario.fixture).await;
}

/// The first capture only sleeps, while another one stores the profile from what it has left; then it goes on.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_only_slept_harms_nobody() {
    for profile in ["acme/alice", "acme/bob"] {
        let scenario = Arc::new(ResumeScenario::make().await);
        let (beside, told) = (Arc::clone(&scenario), Arc::new(Mutex::new(None)));
        let tell = Arc::clone(&told);
        let overtake = deed(move || async move {
            beside.memory.advance(lock::DEFAULT_TTL + Duration::from_secs(1));
            let report = beside.fixture.of(profile).snapshot(&beside.source).await.unwrap();
            *tell.lock() = Some(report);
        });
        let index = "content/acme/index/";
        let bucket = Interrupter::before(scenario.memory.clone(), Verb::Create, index, overtake);
        let slept = scenario.fixture.on(Arc::new(bucket)).snapshot(&scenario.source).await;
        let overtook = told.lock().take().unwrap();
        assert!(overtook.taken_over.packs >= 6, "{:?}", overtook.taken_over);
        assert_eq!(overtook.counts.new_chunks, 0);
        match (profile, slept) {
            // Of one profile, only one can move the pointer; what the other one has is the same.
            ("acme/alice", Err(error)) => {
                assert!(matches!(error.kind(), ErrorKind::LockLost | ErrorKind::PointerMoved), "{error}");
            }
            (_, slept) => assert_eq!(slept.unwrap().snapshot_id, overtook.snapshot_id),
        }
        scenario.assert_whole(&scenario.fixture.of(profile)).await;
        scenario.assert_whole(&scenario.fixture).await;
        assert_eq!(scenario.notes(), Vec::<PathBuf>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn notes_that_are_damaged_or_somebody_elses_are_as_good_as_none() {
    let scenario = ResumeScenario::cut_short().await;
    let [first, second, third, fourth] = scenario.notes().try_into().unwrap();
    let mut bytes = fs::read(&first).unwrap();
    bytes[200] ^= 1;
    fs::write(&first, bytes).unwrap();
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() / 2]).unwrap();
    // Only root can give a file away; whoever runs this may not be.
    let is_root = fs::metadata(&third).unwrap().uid() == 0;
    match is_root {
        true => chown(&third, Some(12_345), None).unwrap(),
        false => fs::remove_file(&third).unwrap(),
    }
    let elsewhere = scenario.dir.path().join("elsewhere");
    fs::rename(&fourth, &elsewhere).unwrap();
    symlink(&elsewhere, &fourth).unwrap();
    fs::create_dir(scenario.notes_folder().join("directory")).unwrap();
    fs::write(scenario.notes_folder().join("empty"), "").unwrap();
    assert_eq!(scenario.capture().await.taken_over.packs, 0);
    assert!(elsewhere.exists());
    assert_eq!(third.exists(), is_root, "what is somebody else's is theirs to remove");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notes_of_another_store_say_nothing_about_this_one() {
    let scenario = ResumeScenario::cut_short().await;
    // Its tenants and profiles have the same names, and somebody has put its notes in the wrong place.
    let memory = Arc::new(MemoryBucket::with_page_size(1000));
    let other = StoreFixture::open(memory.clone(), Some(scenario.dir.path().join("cache"))).await;
    let report = other.snapshot(&scenario.source).await.unwrap();
    assert_eq!(report.taken_over.packs, 0);
    let theirs = scenario.dir.path().join("cache").join(other.store.config.store_id.to_string());
    for note in scenario.notes() {
        fs::create_dir_all(theirs.join("acme/unfinished")).unwrap();
        fs::copy(&note, theirs.join("acme/unfinished").join(note.file_name().unwrap())).unwrap();
    }
    fs::write(scenario.source.join("f_000"), noise(MIB / 4, 500)).unwrap();
    let report = other.rescan(&scenario.source).await.unwrap();
    assert_eq!(report.taken_over.packs, 0);
    other.assert_clean().await;
}

/// The bucket was emptied, or put back to an earlier state.
#[tokio::test(flavor = "multi_thread")]
async fn packs_that_vanished_from_outside_are_stored_again() {
    for gone in [STORED as usize, 1] {
        let scenario = ResumeScenario::cut_short().await;
        for pack in scenario.packs().iter().take(gone) {
            scenario.memory.delete(pack).await.unwrap();
        }
        assert_eq!(scenario.capture().await.taken_over.packs, STORED - gone as u64);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_cannot_note_anything_captures_all_the_same() {
    let scenario = ResumeScenario::make().await;
    // As on a full disk: nothing can be written there.
    fs::create_dir_all(scenario.folder()).unwrap();
    fs::write(scenario.notes_folder(), "").unwrap();
    scenario.cut(STORED).await;
    assert_eq!(scenario.capture().await.taken_over.packs, 0);
}
