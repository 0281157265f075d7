//! These tests open snapshots for mounts, and count the round trips.

use std::{path::Path, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::*;
use crate::{
    ErrorKind,
    bucket::{DelayBucket, Fault, FaultBucket, MemoryBucket, Recorder, Rule, Verb},
    catalog::{pins, pointer::Move},
    format::{
        layout,
        record::{CapturedBy, Mode, Reason},
    },
    id::RecordId,
    ops::write::snapshot::{self, About},
    progress::Silent,
};

const TRIP: Duration = Duration::from_secs(1);

struct Desk {
    memory: Arc<MemoryBucket>,
    faults: Arc<FaultBucket>,
    recorder: Arc<Recorder>,
    delay: Arc<DelayBucket>,
    store: Store,
}

fn name() -> ProfileName {
    "acme/alice".parse().unwrap()
}

fn major() -> ChromeMajor {
    "131".parse().unwrap()
}

fn actor(run: &str) -> Actor {
    Actor { run_id: run.to_owned(), host: "test".to_owned(), ..Actor::default() }
}

impl Desk {
    fn new(cache: Option<&Path>) -> Self {
        let memory = Arc::new(MemoryBucket::with_page_size(1000));
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        let recorder = Arc::new(Recorder::new(faults.clone()));
        let delay = Arc::new(DelayBucket::new(recorder.clone()));
        let store = Store::new(delay.clone(), cache.map(Path::to_owned));
        Self { memory, faults, recorder, delay, store }
    }

    async fn tenant(&self) -> TenantStore {
        self.store.writable_tenant(&name().tenant).await.unwrap()
    }

    async fn handle(&self, run: &str) -> LineageHandle {
        let lineage = Lineage { name: name(), chrome_major: major() };
        LineageHandle::new(self.tenant().await, lineage, actor(run))
    }

    /// A snapshot whose one file says `text`.
    async fn snapshot(&self, profile: &str, major: &str, text: &str) -> RecordId {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), text.repeat(5000)).unwrap();
        let lineage = Lineage { name: profile.parse().unwrap(), chrome_major: major.parse().unwrap() };
        let request = snapshot::Request {
            lineage,
            directory: folder.path().to_owned(),
            max_bytes: None,
            quota_bytes: None,
            rescan: false,
            second_look: None,
            index_budget: 16 << 20,
            threads: 1,
            actor: actor("capture"),
            lock: Default::default(),
            made_of: None,
            examiner: None,
            hold_back: None,
            archive: None,
            guess: None,
            on_change: snapshot::OnChange::Refuse,
            about: About {
                captured_by: CapturedBy {
                    host: String::new(),
                    host_run_id: String::new(),
                    writer_version: String::new(),
                    unknown: Default::default(),
                },
                captured_in: None,
                mode: Mode::Cold,
                reason: Reason::Manual,
                labels: Default::default(),
                notes: String::new(),
                chrome_last_version: None,
                exit_type: None,
                chrome_uptime_seconds: 0,
                fallback: None,
                transforms: Vec::new(),
                exclusions: Vec::new(),
                in_progress: None,
            },
        };
        let silent = Arc::new(Silent);
        snapshot::snapshot(&self.tenant().await, &request, silent, std::future::pending())
            .await
            .unwrap()
            .record
    }

    async fn lock(&self, major: Option<ChromeMajor>, wait: Duration) -> Result<Locked> {
        locked(&self.store, &name(), major, actor("mount"), Terms::default(), wait.into(), None).await
    }

    async fn pin(&self, major: Option<ChromeMajor>, reference: Option<&str>) -> Result<Unlocked> {
        let reference: Option<Reference> = reference.map(|text| text.parse().unwrap());
        pinned(&self.store, &name(), major, reference.as_ref(), None).await
    }

    /// How many round trips `work` waits for, one after another.
    async fn trips<T>(&self, work: impl Future<Output = Result<T>>) -> (u32, T) {
        tokio::time::pause();
        self.delay.set(TRIP);
        self.recorder.take();
        let started = Instant::now();
        let done = work.await.unwrap();
        let spent = started.elapsed();
        self.delay.set(Duration::ZERO);
        tokio::time::resume();
        let trips = (spent.as_nanos() / TRIP.as_nanos()) as u32;
        // A sleep is rounded up to whole milliseconds.
        assert!(spent < TRIP * trips + Duration::from_millis(100), "{spent:?}");
        (trips, done)
    }
}

fn text(opened: &OpenedTree) -> u64 {
    opened.tree.content_bytes()
}

#[tokio::test]
async fn ready_takes_three_round_trips_however_much_the_tenant_has_stored() {
    let desk = Desk::new(None);
    let mut newest = desk.snapshot("acme/alice", "131", "first").await;
    let mut requests = Vec::new();
    for count in [0, 12] {
        for number in 0..count {
            newest = desk.snapshot("acme/alice", "131", &format!("{number}")).await;
            desk.snapshot("acme/bob", "131", &format!("bob {number}")).await;
        }
        let (trips, mount) = desk.trips(desk.lock(Some(major()), Duration::ZERO)).await;
        assert_eq!(trips, 3);
        assert_eq!(mount.opened.unwrap().unwrap().record.record, newest);
        requests.push(desk.recorder.take().len());
        mount.hold.release().await.unwrap();

        let (trips, mount) = desk.trips(desk.lock(None, Duration::ZERO)).await;
        assert_eq!(trips, 4);
        assert_eq!(mount.opened.unwrap().unwrap().record.record, newest);
        mount.hold.release().await.unwrap();
    }
    assert_eq!(requests[0], requests[1]);
}

#[tokio::test]
async fn taking_over_from_a_holder_that_died_is_written_down_and_takes_no_longer() {
    let desk = Desk::new(None);
    desk.snapshot("acme/alice", "131", "x").await;
    let terms = Terms { with_process: false, ..Terms::default() };
    desk.handle("dead").await.acquire(terms, Duration::ZERO).await.unwrap();
    desk.memory.advance(terms.ttl * 2);
    let (trips, mount) = desk.trips(desk.lock(Some(major()), Duration::ZERO)).await;
    assert_eq!(trips, 3);
    let events = layout::events(&mount.lineage);
    let stored = desk.memory.keys().iter().filter(|key| key.starts_with(events.as_str())).count();
    assert!(stored >= 2, "{stored} events");
}

#[tokio::test]
async fn a_profile_that_is_new_is_ready_as_soon() {
    let desk = Desk::new(None);
    desk.tenant().await;
    let (trips, mount) = desk.trips(desk.lock(Some(major()), Duration::ZERO)).await;
    assert_eq!(trips, 3);
    assert!(mount.opened.unwrap().is_none());
    let nobody = "acme/nobody".parse().unwrap();
    let unknown =
        locked(&desk.store, &nobody, None, actor("mount"), Terms::default(), Duration::ZERO.into(), None);
    assert_eq!(unknown.await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(desk.lock(Some(major()), Duration::ZERO).await.unwrap_err().kind(), ErrorKind::LockHeld);
}

#[tokio::test]
async fn metadata_that_this_host_knows_is_not_fetched_again() {
    let cache = tempfile::tempdir().unwrap();
    let desk = Desk::new(Some(cache.path()));
    desk.snapshot("acme/alice", "131", "x").await;
    let (trips, mount) = desk.trips(desk.lock(Some(major()), Duration::ZERO)).await;
    assert!(mount.opened.unwrap().is_some());
    assert_eq!((trips, desk.recorder.count(Verb::GetRange)), (3, 0));
}

#[tokio::test]
async fn without_a_major_the_newest_lineage_with_a_snapshot_is_meant() {
    let desk = Desk::new(None);
    let older = desk.snapshot("acme/alice", "130", "old").await;
    // A first capture for a newer Chrome that was cut short.
    let empty = Lineage { name: name(), chrome_major: "132".parse().unwrap() };
    let cut_short = LineageHandle::new(desk.tenant().await, empty, actor("cut short"));
    cut_short.acquire(Terms::default(), Duration::ZERO).await.unwrap();
    let mount = desk.lock(None, Duration::ZERO).await.unwrap();
    assert_eq!(mount.lineage.chrome_major, "130".parse().unwrap());
    assert_eq!(mount.opened.unwrap().unwrap().record.record, older);
    let unlocked = desk.pin(None, None).await.unwrap();
    assert_eq!(unlocked.opened.record.record, older);
}

#[tokio::test]
async fn what_is_read_is_what_was_claimed_if_the_pointer_moves_meanwhile() {
    let desk = Desk::new(None);
    let first = desk.snapshot("acme/alice", "131", "a").await;
    let second = desk.snapshot("acme/alice", "131", "bb").await;
    let operator = desk.handle("operator").await;
    tokio::time::pause();
    desk.delay.set(TRIP);
    let moving = async {
        // After the lock is taken, before the pointer is claimed.
        tokio::time::sleep(TRIP * 5 / 3).await;
        let direct = Store::new(desk.memory.clone(), None).writable_tenant(&name().tenant).await.unwrap();
        let direct = LineageHandle::new(direct, operator.lineage().clone(), operator.actor().clone());
        let back = Move { target: first, reason: String::new(), force: true, only_from: None };
        direct.point(&back).await.unwrap();
    };
    let (mount, ()) = futures::future::join(desk.lock(Some(major()), Duration::ZERO), moving).await;
    let mount = mount.unwrap();
    assert_eq!(mount.hold.base().await, Some(first));
    let opened = mount.opened.unwrap().unwrap();
    assert_eq!((opened.record.record, text(&opened)), (first, 5000));
    assert_ne!(first, second);
}

#[tokio::test]
async fn whoever_waits_for_the_lock_gets_what_was_left_there() {
    let desk = Desk::new(None);
    let first = desk.snapshot("acme/alice", "131", "a").await;
    desk.snapshot("acme/alice", "131", "bb").await;
    let hold = desk.handle("holder").await.acquire(Terms::default(), Duration::ZERO).await.unwrap();
    tokio::time::pause();
    let leaving = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let back = Move { target: first, reason: String::new(), force: true, only_from: None };
        desk.handle("operator").await.point(&back).await.unwrap();
        hold.release().await.unwrap();
    };
    let waiting = desk.lock(Some(major()), Duration::from_secs(60));
    let (mount, ()) = futures::future::join(waiting, leaving).await;
    let opened = mount.unwrap().opened.unwrap().unwrap();
    assert_eq!((opened.record.record, text(&opened)), (first, 5000));
}

#[tokio::test]
async fn a_snapshot_that_cannot_be_read_leaves_the_lock_in_hand() {
    let desk = Desk::new(None);
    let record = desk.snapshot("acme/alice", "131", "a").await;
    let pack = desk.memory.keys().into_iter().find(|key| key.ends_with("-meta")).unwrap();
    let pack = crate::bucket::Key::new(pack).unwrap();
    let whole = crate::bucket::Bucket::get(&*desk.memory, &pack, u64::MAX).await.unwrap().bytes;

    desk.memory.damage(&pack, vec![7; whole.len()]);
    let mount = desk.lock(Some(major()), Duration::ZERO).await.unwrap();
    assert_eq!(mount.opened.unwrap_err().kind(), ErrorKind::Damaged);
    mount.hold.renew().await.unwrap();
    mount.hold.release().await.unwrap();
    let error = desk.pin(Some(major()), None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(pins::pinned(&desk.tenant().await).await.unwrap(), []);
    desk.memory.damage(&pack, whole);

    desk.faults.inject(Rule::new(Fault::Before).on(Verb::GetRange).always());
    let mount = desk.lock(Some(major()), Duration::ZERO).await.unwrap();
    assert_eq!(mount.opened.unwrap_err().kind(), ErrorKind::Unavailable);
    mount.hold.release().await.unwrap();
    desk.faults.heal();

    let key = layout::record(&Lineage { name: name(), chrome_major: major() }, record);
    crate::bucket::Bucket::delete(&*desk.memory, &key).await.unwrap();
    let mount = desk.lock(Some(major()), Duration::ZERO).await.unwrap();
    assert!(matches!(mount.opened, Err(Error::Missing { .. })));
}

#[tokio::test]
async fn a_reader_without_a_lock_pins_what_it_reads() {
    let desk = Desk::new(None);
    let first = desk.snapshot("acme/alice", "131", "a").await;
    let second = desk.snapshot("acme/alice", "131", "bb").await;
    let (trips, unlocked) = desk.trips(desk.pin(Some(major()), None)).await;
    assert_eq!((trips, unlocked.opened.record.record), (4, second));
    let (trips, _) = desk.trips(desk.pin(None, None)).await;
    assert_eq!(trips, 5);
    let pinned = pins::pinned(&desk.tenant().await).await.unwrap();
    assert_eq!(pinned, [second, second]);
    // Beside the holder of the lock, and any snapshot that is there.
    let mount = desk.lock(Some(major()), Duration::ZERO).await.unwrap();
    let unlocked = desk.pin(None, Some(&first.to_string())).await.unwrap();
    assert_eq!(text(&unlocked.opened), 5000);
    mount.hold.release().await.unwrap();
    let error = desk.pin(None, Some("0123abcd")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
