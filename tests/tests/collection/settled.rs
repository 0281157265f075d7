//! These tests collect until nothing is left to do, however little waste is allowed.

use std::{fs, path::Path, sync::Arc, time::Duration};

use proptest::prelude::*;
use store::{
    bucket::{Fault, FaultBucket, MemoryBucket, Rule},
    ops::gc::{Collector, Options, Plan},
};
use tests::{
    store_fixture::{StoreFixture, copy},
    tree::{assert_same, noise},
};

const PROFILES: [&str; 3] = ["acme/alice", "acme/bob", "acme/carol"];
/// So many collections may go on with what those before them have left.
const QUIET_RUNS: usize = 4;
/// No collection of these stores needs nearly as many requests.
const MOST_REQUESTS: u64 = 20_000;

/// What somebody does to a store.
#[derive(Clone, Debug)]
enum Deed {
    /// Changes a file, and captures it all.
    Capture {
        profile: usize,
        file: u8,
        len: usize,
        seed: u64,
    },
    /// Deletes one of the snapshots there are, unless a pointer names it.
    Delete(usize),
    Collect,
}

fn deed() -> impl Strategy<Value = Deed> {
    let capture = (0..PROFILES.len(), 0..6_u8, 1..9000_usize, 0..50_u64)
        .prop_map(|(profile, file, len, seed)| Deed::Capture { profile, file, len, seed });
    prop_oneof![8 => capture, 3 => any::<usize>().prop_map(Deed::Delete), 1 => Just(Deed::Collect)]
}

/// The profiles, each with its directory below `folder` and the snapshots it has.
struct Store<'a> {
    fixture: StoreFixture,
    folder: &'a Path,
    snapshots: Vec<(usize, store::id::RecordId)>,
}

impl Store<'_> {
    async fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Capture { profile, file, len, seed } => {
                let source = self.folder.join(profile.to_string());
                fs::create_dir_all(&source).unwrap();
                fs::write(source.join(file.to_string()), noise(*len, *seed)).unwrap();
                let report = self.fixture.of(PROFILES[*profile]).snapshot(&source).await.unwrap();
                if !self.snapshots.contains(&(*profile, report.record)) {
                    self.snapshots.push((*profile, report.record));
                }
            }
            Deed::Delete(_) if self.snapshots.is_empty() => {}
            Deed::Delete(which) => {
                let (profile, record) = self.snapshots[which % self.snapshots.len()];
                let deleted = self.fixture.of(PROFILES[profile]).handle("test").delete(record, "").await;
                if deleted.is_ok() {
                    self.snapshots.retain(|(_, known)| *known != record);
                }
            }
            Deed::Collect => {
                drop(Collector::new(self.fixture.store.clone(), tightest(0)).run().await.unwrap())
            }
        }
    }
}

fn is_empty(plan: &Plan) -> bool {
    plan.documents.is_empty()
        && plan.condemned.is_empty()
        && plan.deleted == Default::default()
        && plan.repacked == Default::default()
        && plan.revoked.is_empty()
        && plan.finished_deletions == 0
        && (plan.indexes_rewritten, plan.indexes_removed, plan.indexes_merged) == (0, 0, 0)
        && plan.leftovers == 0
        && plan.pending.is_empty()
}

fn tightest(max_unused_percent: u64) -> Options {
    Options { min_unused_bytes: 0, max_unused_percent, ..Options::after(Duration::ZERO) }
}

async fn settles(deeds: &[Deed]) {
    let folder = tempfile::tempdir().unwrap();
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let mut store = Store { fixture, folder: folder.path(), snapshots: Vec::new() };
    for deed in deeds {
        store.act(deed).await;
    }
    for percent in [0, 4] {
        let faults = Arc::new(FaultBucket::new(copy(&memory).await));
        // One that never ended would be killed here.
        faults.inject(Rule::new(Fault::KilledBefore).nth(MOST_REQUESTS));
        let fixture = store.fixture.on(faults);
        let collector = Collector::new(fixture.store.clone(), tightest(percent));
        for _ in 0..QUIET_RUNS {
            collector.run().await.unwrap();
        }
        let plan = collector.plan().await.unwrap();
        assert!(is_empty(&plan), "with {percent} %: {plan:#?}");
        for (number, profile) in PROFILES.iter().enumerate() {
            let source = folder.path().join(number.to_string());
            if source.exists() {
                let (fixture, out) = (fixture.of(profile), tempfile::tempdir().unwrap());
                fixture.assert_clean().await;
                let out = out.path().join("out");
                fixture.restore(&out).await.unwrap();
                assert_same(&source, &out);
            }
        }
    }
}

fn run(deeds: &[Deed]) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(settles(deeds));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn after_a_few_quiet_collections_nothing_is_left_to_do(deeds in prop::collection::vec(deed(), 10..30)) {
        run(&deeds);
    }
}

/// A pack that is emptied leaves behind the roots and tables that named it, as much as it frees.
#[test]
fn what_names_a_moved_pack_is_not_moved_for_ever() {
    let capture = |profile, file, len, seed| Deed::Capture { profile, file, len, seed };
    run(&[
        capture(1, 0, 15, 1),
        capture(1, 4, 222, 36),
        capture(2, 3, 8946, 27),
        Deed::Delete(0),
        capture(1, 0, 5619, 15),
        capture(1, 0, 1135, 34),
        capture(1, 4, 491, 30),
        Deed::Collect,
        capture(1, 5, 7500, 11),
        capture(0, 3, 7903, 45),
    ]);
}
