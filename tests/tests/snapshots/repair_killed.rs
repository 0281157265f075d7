//! These tests kill `pstore verify --repair` at any moment: the next one makes good what it has left, every
//! snapshot restores, and nothing is left in the store that is not as it should be.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, SystemTime},
};

use store::{
    bucket::{Access, LocalBucket},
    format::layout,
    id::PackSeq,
    ops::write::snapshot::{Report, Request},
};
use tests::{
    binary::Host,
    checker,
    kill_at::{Moment, kill_at, moments, timed},
    store_fixture::{StoreFixture, request},
    tree::{assert_same, noise, set_mtime},
};

const ALICE: &str = "acme/alice";
const BOB: &str = "acme/bob";
const REPAIR: [&str; 3] = ["verify", ALICE, "--repair"];
const CLEAN: Option<i32> = Some(0);
const REPAIRED: Option<i32> = Some(36);
const SNAPSHOTS: u64 = 3;

/// What the snapshots were taken of, and their names.
type Generations = Vec<(PathBuf, Report)>;

fn bucket(store: &Path) -> LocalBucket {
    LocalBucket::open(store, Access::Create).unwrap()
}

/// Snapshots of alice with packs of their own, of which the first is gone, the second spoiled and
/// the third cut short. Bob has all of it once more.
async fn damaged(dir: &Path, store: &Path) -> Generations {
    let fixture = StoreFixture::open(Arc::new(bucket(store)), None).await;
    let mut generations = Vec::new();
    for generation in 0..SNAPSHOTS {
        let source = dir.join(format!("source{generation}"));
        fs::create_dir_all(&source).unwrap();
        for file in 0..=generation {
            let path = source.join(format!("{file}"));
            fs::write(path, noise(3_000_000, file)).unwrap();
        }
        let report = fixture.snapshot(&source).await.unwrap();
        generations.push((source, report));
    }
    let bob = fixture.of(BOB);
    let apart = Request { index_budget: 0, ..request(&bob.lineage, &generations.last().unwrap().0) };
    bob.capture(&apart).await.unwrap();
    let used = fixture.current().await.unwrap().content.unwrap().packs;
    let mut packs = used.iter().map(|used| used.pack).filter(|pack| pack.seq != PackSeq::Meta);
    let mut next =
        || store.join("objects").join(layout::pack(&fixture.store.tenant, packs.next().unwrap()).as_str());
    fs::remove_file(next()).unwrap();
    let (spoiled, cut) = (next(), next());
    let mut bytes = fs::read(&spoiled).unwrap();
    bytes[20..2_000_000].iter_mut().for_each(|byte| *byte ^= 1);
    fs::write(&spoiled, bytes).unwrap();
    fs::File::options().write(true).open(&cut).unwrap().set_len(1_000_000).unwrap();
    generations
}

/// As if the last hour had been quiet: leases of the dead are over.
fn age(directory: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let seconds = hour_ago.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            age(&path);
        } else {
            set_mtime(&path, seconds as i64, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_repair_is_ended_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let (stage, store) = (dir.path().join("stage"), dir.path().join("store"));
    let generations = damaged(dir.path(), &stage).await;
    let again = || {
        fs::remove_dir_all(&store).ok();
        let copied = Command::new("cp").arg("-a").args([&stage, &store]).status().unwrap();
        assert!(copied.success());
        Host::local(&dir.path().join("home"), &store)
    };
    let host = again();
    let usual = timed(|| assert_eq!(host.run(REPAIR).code, REPAIRED));
    let objects = store.join("objects");
    let [packs, indexes, records] = ["content/acme/packs", "content/acme/index", "snapshots/acme/alice/131"]
        .map(|name| objects.join(name));
    let record = records.join(format!("snap-{}.json", generations[0].1.record));
    let events =
        [Moment::Entry(&packs), Moment::Entry(&indexes), Moment::Entry(&records), Moment::Change(&record)];
    let mut struck = 0;
    for moment in moments(10, usual, 5).into_iter().chain(events) {
        let host = again();
        let ended = kill_at(|| host.start(REPAIR), moment);
        assert!(matches!(ended.code, None | REPAIRED), "{ended:#?}");
        struck += usize::from(ended.code.is_none());
        host.verify(BOB, &[]);
        let ended = host.run(REPAIR);
        assert!(matches!(ended.code, CLEAN | REPAIRED), "{moment:?}: {ended:#?}");
        age(&objects);
        host.succeed(["gc", "acme", "--grace", "0", "--wait"]);
        [ALICE, BOB].iter().for_each(|profile| host.verify(profile, &[]));
        checker::look(&bucket(&store)).await.must_be_whole();
        for (source, report) in &generations {
            let out = dir.path().join("out");
            host.succeed(["restore", ALICE, out.to_str().unwrap(), "--sha", &report.sha256_prefix]);
            assert_same(source, &out);
            fs::remove_dir_all(&out).unwrap();
        }
    }
    assert!(struck >= 5, "too few were hit: {struck}");
}
