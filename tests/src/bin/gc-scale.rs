//! `gc-scale` measures how a collection grows: it makes up many profiles with many snapshots in a directory, and
//! collects.
//!
//! `gc-scale PROFILES SNAPSHOTS CHUNKS DIRECTORY` writes the records of so many snapshots of
//! so many profiles, each of so many chunks, with packs and indexes as captures would leave
//! them but for their content, and then plans a collection and tells how long that took and
//! how much memory. Every fifth snapshot is deleted.

use std::{
    env, fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use store::{
    bucket::{Access, Bucket, LocalBucket},
    catalog::store::Store,
    format::{
        frame::Codec,
        index::{Index, IndexEntry, IndexPack},
        layout,
        record::{PackUse, Record, State},
    },
    id::{PackId, PackSeq, RecordId},
    ops::gc::{Collector, Options},
};
use tests::store_fixture::StoreFixture;

/// About as many as a pack of 20 MiB holds.
const CHUNKS_PER_PACK: u64 = 500;
/// How much of a snapshot is new.
const NEW_SHARE: u64 = 10;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [profiles, snapshots, chunks, directory] = &arguments[..] else {
        panic!("gc-scale PROFILES SNAPSHOTS CHUNKS DIRECTORY");
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let (profiles, snapshots, chunks) = (number(profiles), number(snapshots), number(chunks));
    let root = Path::new(directory);
    let bucket: Arc<dyn Bucket> = Arc::new(LocalBucket::open(root, Access::Create).expect("a store"));
    let fixture = StoreFixture::open(Arc::clone(&bucket), None).await;
    let template = template(&fixture).await;
    let made = Instant::now();
    let (mut packs, mut condemnable) = (0, 0);
    for profile in 0..profiles {
        let (all, dead) = write(root, &fixture, &template, profile, snapshots, chunks);
        packs += all;
        condemnable += dead;
    }
    eprintln!("made in {:.1} s", made.elapsed().as_secs_f64());
    let tenant = Store::new(bucket, None).tenant(&fixture.store.tenant).await.expect("a tenant");
    let started = Instant::now();
    // Tables are made up too, so nothing can be moved.
    let options = Options { max_unused_percent: 100, ..Options::after(Duration::ZERO) };
    let plan = Collector::new(tenant, options).plan().await.expect("a plan");
    let elapsed = started.elapsed();
    // The first snapshot is a real one, with packs of its own.
    assert!(plan.condemned.len() as u64 >= condemnable, "{} of {condemnable}", plan.condemned.len());
    println!(
        "{} profiles, {} snapshots, {} chunk references, {packs} packs: planned in {:.2} s, {} condemned, peak {} MiB",
        profiles,
        profiles * snapshots,
        profiles * snapshots * chunks,
        elapsed.as_secs_f64(),
        plan.condemned.len(),
        peak_mib(),
    );
}

/// A record as captures write them.
async fn template(fixture: &StoreFixture) -> Record {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("file"), vec![7; 100_000]).expect("a file");
    let id = fixture.snapshot(folder.path()).await.expect("a snapshot").record;
    store::catalog::records::get(&fixture.store, &fixture.lineage, id).await.expect("a record").0
}

/// Writes behind the store's back, which is quicker, and all the same for readers.
fn write(
    root: &Path,
    fixture: &StoreFixture,
    template: &Record,
    profile: u64,
    snapshots: u64,
    chunks: u64,
) -> (u64, u64) {
    let put = |key: store::bucket::Key, bytes: &[u8]| {
        let path = root.join("objects").join(key.as_str());
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("an object");
    };
    let tenant = &fixture.store.tenant;
    let lineage = tests::store_fixture::lineage(&format!("{tenant}/p{profile}"));
    let (mut shared, mut packs, mut dead): (Vec<PackId>, u64, u64) = (Vec::new(), 0, 0);
    for snapshot in 0..snapshots {
        let id = RecordId::from_parts(1_000_000 + profile * 1000 + snapshot, [profile as u8; 10]);
        let new = if snapshot == 0 { chunks } else { chunks / NEW_SHARE };
        let own: Vec<PackId> = (0..new.div_ceil(CHUNKS_PER_PACK) as u32)
            .map(|seq| PackId { write: id, seq: PackSeq::Data(seq) })
            .collect();
        let meta = PackId { write: id, seq: PackSeq::Meta };
        let deleted = snapshot % 5 == 4;
        let mut uses: Vec<PackUse> = shared
            .iter()
            .chain(&own)
            .chain([&meta])
            .map(|pack| PackUse { pack: *pack, live_bytes: 6 })
            .collect();
        uses.sort_by_key(|used| used.pack);
        let mut record = template.clone();
        (record.record, record.profile_id) = (id, lineage.name.profile.clone());
        record.state = if deleted { State::Tombstone } else { State::Live };
        record.counts.chunks = chunks;
        if let Some(content) = &mut record.content {
            content.packs = uses;
        }
        put(layout::record(&lineage, id), &record.encode());
        for pack in own.iter().chain([&meta]) {
            put(layout::pack(tenant, *pack), b"a pack");
        }
        let index = own.iter().enumerate().map(|(at, pack)| {
            let count = CHUNKS_PER_PACK.min(new - at as u64 * CHUNKS_PER_PACK);
            let entry = |n: u64| IndexEntry {
                id: fixture.store.key().id_of(&[id.to_bytes().as_slice(), &n.to_le_bytes()].concat()),
                offset: 16 + n,
                stored_len: 1,
                codec: Codec::Zstd,
            };
            IndexPack { pack: *pack, chunks: (0..count).map(entry).collect() }
        });
        let index = Index { key: *fixture.store.key(), writer: String::new(), packs: index.collect() };
        put(layout::index(tenant, id), &index.encode());
        packs += own.len() as u64 + 1;
        if deleted {
            dead += own.len() as u64 + 1;
        } else {
            shared.extend(own);
        }
    }
    (packs, dead)
}

/// The most memory this process ever had.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}
