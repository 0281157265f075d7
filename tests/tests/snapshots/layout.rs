//! These tests look where in the store a snapshot lies: what is read first side by side, and what is large apart
//! from what is small.

use std::{fs, path::Path, sync::Arc, time::Duration};

use capture::chrome;
use store::{
    bucket::MemoryBucket,
    content::chunk_fetcher::startup,
    format::{layout, record::Record, startup::Startup, table::Location},
    ops::{
        gc::{Collector, Options},
        read::open::Opened,
        write::snapshot::Request,
    },
};
use tests::{
    store_fixture::{StoreFixture, request},
    tree::noise,
};

const LARGE: usize = 12 << 20;

/// A profile of Chrome's, more than a pack long, with what is read first here and there in it.
fn fill(profile: &Path) {
    for folder in ["Default/Cache", "Default/Local Storage/leveldb", "Default/Network", "zz"] {
        fs::create_dir_all(profile.join(folder)).unwrap();
    }
    let files = [
        ("Default/Cache/data_0", LARGE),
        ("Default/Cookies", 100_000),
        ("Default/History", LARGE),
        ("Default/Local Storage/leveldb/000003.ldb", 2_000_000),
        ("Default/Network/Cookies", 60_000),
        ("Default/Preferences", 90_000),
        ("Local State", 70_000),
        ("zz/other", LARGE),
    ];
    for (seed, (path, len)) in files.into_iter().enumerate() {
        fs::write(profile.join(path), noise(len, seed as u64)).unwrap();
    }
}

/// Where the chunks lie that this plan names.
fn places(opened: &Opened, plan: &Startup) -> Vec<Location> {
    plan.chunks(opened.locations.len() as u64).map(|at| opened.locations[at as usize]).collect()
}

/// How many requests without anything in between would get all of these.
fn runs(mut places: Vec<Location>) -> usize {
    places.sort_by_key(|place| (place.pack, place.offset));
    let follows = |pair: &[Location]| pair[0].pack == pair[1].pack && pair[0].end() == pair[1].offset;
    1 + places.windows(2).filter(|pair| !follows(pair)).count()
}

async fn current(fixture: &StoreFixture) -> Opened {
    Opened::load(&fixture.store, fixture.current().await.unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_chrome_will_probably_read_is_one_piece() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fixture.snapshot(dir.path()).await.unwrap();
    let opened = current(&fixture).await;
    let guess = startup::guessed(chrome::startup::guess, &opened.entries);
    let places = places(&opened, &guess);
    assert!(places.len() >= 8, "{places:?}");
    assert_eq!(runs(places), 1);
    fixture.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_stays_the_plan_and_its_changes_lie_together() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    fixture.snapshot(dir.path()).await.unwrap();
    // A mount has read the ends of these, and nobody could have guessed that.
    let opened = current(&fixture).await;
    let last = |path: &str| {
        let entry = opened.entries.iter().find(|entry| entry.path.as_bytes() == path.as_bytes()).unwrap();
        entry.chunks().last().unwrap().0
    };
    let first_reads = [last("zz/other"), last("Default/Cache/data_0"), last("Default/History")];
    let plan = startup::StartupRanges::of(&first_reads, &opened.entries).plan(&opened.entries);
    let record = Record { startup: plan, ..opened.record.clone() };
    memory.damage(&layout::record(&fixture.lineage, record.record), record.encode());
    // All of them are other ones afterwards.
    for (seed, path) in ["Default/Cache/data_0", "Default/History", "zz/other"].into_iter().enumerate() {
        fs::write(dir.path().join(path), noise(LARGE, 100 + seed as u64)).unwrap();
    }
    fixture.snapshot(dir.path()).await.unwrap();
    let opened = current(&fixture).await;
    let places = places(&opened, &opened.record.startup);
    assert!(places.len() >= 3, "{places:?}");
    assert_eq!(runs(places), 1);
    fixture.assert_clean().await;
}

/// As in Chromium's cache: names tell nothing, and the large ones are others after each session.
fn fill_cache(cache: &Path, session: u64) {
    const FILES: u64 = 300;
    for file in 0..FILES {
        let (len, seed) =
            if file % 10 == 0 { (1 << 20, FILES * (session + 1) + file) } else { (120_000, file) };
        fs::write(cache.join(format!("{file:03}")), noise(len, seed)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_come_after_small_ones() {
    let dir = tempfile::tempdir().unwrap();
    fill_cache(dir.path(), 0);
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    let one_by_one = Request { threads: 1, ..request(&fixture.lineage, dir.path()) };
    fixture.capture(&one_by_one).await.unwrap();
    let opened = current(&fixture).await;
    let mut places = opened.locations.iter();
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for entry in &opened.entries {
        let chunks = entry.chunks().map(|(_, len)| u64::from(len));
        let (count, bytes) = chunks.fold((0, 0), |(count, bytes), len| (count + 1, bytes + len));
        let kind = if bytes >= 128 << 10 { &mut large } else { &mut small };
        kind.extend(places.by_ref().take(count).map(|place| (place.pack, place.offset)));
    }
    assert!(small.len() >= 270 && large.len() >= 30);
    assert!(small.iter().max() < large.iter().min());
}

/// What stays was stored with what stays: hardly any of it is copied to free what went.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_evicted_leaves_few_packs_half_empty() {
    let dir = tempfile::tempdir().unwrap();
    let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    fill_cache(dir.path(), 0);
    let first = fixture.snapshot(dir.path()).await.unwrap().record;
    fill_cache(dir.path(), 1);
    fixture.snapshot(dir.path()).await.unwrap();
    fixture.handle("test").delete(first, "").await.unwrap();
    let done = Collector::new(fixture.store.clone(), Options::after(Duration::ZERO)).run().await.unwrap();
    let pack = u64::from(fixture.store.chunking().pack_bytes);
    assert!(done.repacked.kept_bytes <= pack, "{done:#?}");
    fixture.assert_clean().await;
}
