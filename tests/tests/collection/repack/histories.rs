//! These tests play random histories of a store: whatever became of it, a dry run says what a run does.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use proptest::prelude::*;
use store::{
    bucket::{Bucket, Key, MemoryBucket, Write},
    catalog::{clock, lease::LEASE_TTL},
    format::{
        layout,
        pin::Pin,
        record::{Reason, Record, State},
    },
    id::{PackId, PackSeq, RecordId},
    ops::gc::{Collector, Options},
};
use tests::{store_fixture::StoreFixture, tree::noise};

use super::{NOW, assert_restores, packed_bytes, plans::run_as_planned};

const DAY: Duration = Duration::from_secs(86_400);
const PROFILES: [&str; 3] = ["acme/alice", "acme/bob", "acme/carol"];

#[derive(Clone, Debug)]
enum Event {
    /// Some files change, each to one of few contents, so that profiles share them. Then there is a snapshot.
    Capture {
        profile: usize,
        changes: Vec<(u8, Option<u64>)>,
    },
    /// Of a snapshot that is not the last.
    Delete {
        which: usize,
        cut_short: bool,
    },
    Pin {
        which: usize,
    },
    Unpin,
    /// A write is killed when it has stored a pack: a capture, or one that moves a snapshot.
    Killed {
        profile: usize,
        moved: Option<usize>,
    },
    Pass(Duration),
    Collect {
        max_unused_percent: u64,
        room: Option<u64>,
        memory_bytes: u64,
    },
}

fn event() -> impl Strategy<Value = Event> {
    let changes = prop::collection::vec((0..16_u8, prop::option::weighted(0.7, 0..30_u64)), 1..10);
    prop_oneof![
        5 => (0..PROFILES.len(), changes).prop_map(|(profile, changes)| Event::Capture { profile, changes }),
        4 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(which, cut_short)| Event::Delete { which, cut_short }),
        1 => any::<usize>().prop_map(|which| Event::Pin { which }),
        1 => Just(Event::Unpin),
        1 => (0..PROFILES.len(), prop::option::of(any::<usize>()))
            .prop_map(|(profile, moved)| Event::Killed { profile, moved }),
        2 => prop_oneof![Just(LEASE_TTL), Just(DAY), Just(31 * DAY)]
            .prop_map(|time| Event::Pass(time + Duration::from_secs(1))),
        4 => (0..30_u64, prop::option::weighted(0.2, 0..400_000_u64), prop_oneof![Just(0), Just(1 << 28)])
            .prop_map(|(max_unused_percent, room, memory_bytes)| {
                Event::Collect { max_unused_percent, room, memory_bytes }
            }),
    ]
}

/// More of them by `PSTORE_GC_CASES`.
fn cases() -> u32 {
    std::env::var("PSTORE_GC_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(12)
}

struct History<'a> {
    memory: Arc<MemoryBucket>,
    folder: &'a Path,
    fixtures: Vec<StoreFixture>,
    records: Vec<(usize, RecordId)>,
    pins: Vec<Key>,
    /// The profiles that have a snapshot. The directory of each is as in its last.
    captured: BTreeSet<usize>,
}

impl History<'_> {
    async fn happen(&mut self, event: Event) {
        match event {
            Event::Capture { profile, changes } => {
                let source = self.source(profile);
                if self.captured.insert(profile) {
                    fs::create_dir(&source).unwrap();
                    // Enough of them for some segments, and all together for more than one write.
                    for file in 0..400 {
                        let small = noise(100, 1000 * (profile as u64 + 1) + file);
                        fs::write(source.join(format!("{file:03}")), small).unwrap();
                    }
                }
                for (file, content) in changes {
                    let path = source.join(format!("{:03}-large", 20 * u16::from(file)));
                    match content {
                        Some(seed) => fs::write(path, noise(5000 + 2000 * seed as usize, seed)).unwrap(),
                        None => drop(fs::remove_file(path)),
                    }
                }
                let report = self.fixtures[profile].snapshot(&source).await.unwrap();
                self.records.push((profile, report.record));
            }
            Event::Delete { which, cut_short } => {
                let Some((profile, id)) = self.pick(which) else { return };
                let fixture = &self.fixtures[profile];
                let Some(record) = self.read(profile, id).await else { return };
                if fixture.current().await.is_ok_and(|current| current.record == id)
                    || record.state != State::Live
                {
                    return;
                }
                if cut_short {
                    let key = layout::record(&fixture.lineage, id);
                    self.memory.damage(&key, Record { state: State::Trashed, ..record }.encode());
                } else {
                    // Somebody may need it.
                    let _ = fixture.handle("test").delete(id, "").await;
                }
            }
            Event::Pin { which } => {
                let Some((profile, id)) = self.pick(which) else { return };
                let Some(record) = self.read(profile, id).await else { return };
                if record.state == State::Live {
                    let key = layout::pin(&self.fixtures[profile].store.tenant, clock::new_record_id());
                    let pin = Pin::new(id, record.generation, Duration::from_secs(86_400));
                    self.memory.put(&key, pin.encode().into(), Write::Create).await.unwrap();
                    self.pins.push(key);
                }
            }
            Event::Unpin => {
                if let Some(key) = self.pins.pop() {
                    self.memory.delete(&key).await.unwrap();
                }
            }
            Event::Killed { profile, moved } => {
                let Ok(like) = self.fixtures[profile].current().await else { return };
                let fixture = &self.fixtures[profile];
                let record = clock::new_record_id();
                let (mut updates, mut reason) = (Vec::new(), like.reason.clone());
                if let Some((_, id)) =
                    moved.and_then(|which| self.pick(which)).filter(|(of, _)| *of == profile)
                {
                    (updates, reason) = (vec![id], Reason::moving());
                }
                let lease = Record { record, state: State::Writing, content: None, updates, reason, ..like };
                let key = layout::record(&fixture.lineage, record);
                self.memory.put(&key, lease.encode().into(), Write::Create).await.unwrap();
                let pack = PackId { write: record, seq: PackSeq::Data(0) };
                let key = layout::pack(&fixture.store.tenant, pack);
                self.memory.put(&key, noise(30_000, 0).into(), Write::Create).await.unwrap();
            }
            Event::Pass(time) => self.memory.advance(time),
            Event::Collect { max_unused_percent, room, memory_bytes } => {
                let stored = packed_bytes(&self.memory).await;
                let quota_bytes = room.map(|room| stored + room);
                let options = Options { max_unused_percent, quota_bytes, memory_bytes, ..NOW };
                run_as_planned(&Collector::new(self.fixtures[0].store.clone(), options)).await;
                for profile in &self.captured {
                    assert_restores(&self.fixtures[*profile], &self.source(*profile)).await;
                }
            }
        }
    }

    fn source(&self, profile: usize) -> PathBuf {
        self.folder.join(profile.to_string())
    }

    fn pick(&self, which: usize) -> Option<(usize, RecordId)> {
        self.records.get(which.checked_rem(self.records.len())?).copied()
    }

    /// Unless it is long gone.
    async fn read(&self, profile: usize, id: RecordId) -> Option<Record> {
        let key = layout::record(&self.fixtures[profile].lineage, id);
        Some(Record::decode(&self.memory.get(&key, u64::MAX).await.ok()?.bytes).unwrap())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_has_happened_a_run_is_as_it_was_planned(
        events in prop::collection::vec(event(), 10..40)
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let memory = Arc::new(MemoryBucket::new());
            let alice = StoreFixture::open(memory.clone(), None).await;
            let fixtures = PROFILES.iter().map(|profile| alice.of(profile)).collect();
            let mut history = History {
                memory,
                folder: dir.path(),
                fixtures,
                records: Vec::new(),
                pins: Vec::new(),
                captured: BTreeSet::new(),
            };
            for event in events {
                history.happen(event).await;
            }
            history.happen(Event::Collect { max_unused_percent: 4, room: None, memory_bytes: 0 }).await;
        });
    }
}
