//! These tests take locks: what their holders, and those who wait for them, are promised.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use store::{
    Error, ErrorKind,
    bucket::{Access, Bucket, Fault, FaultBucket, LocalBucket, MemoryBucket, Rule, S3Bucket, Verb, Write},
    catalog::{
        clock::HostClock,
        events,
        lineage_handle::LineageHandle,
        lock::{Hold, Outcome, Patience, Reaped, Terms},
        pointer::Flip,
    },
    format::{
        event::{Event, EventKind},
        layout,
        lock::OPERATOR_FORCE,
    },
    id::RecordId,
};
use tests::{
    server::SeaweedFs,
    store_fixture::{StoreFixture, copy},
};

const TTL: Duration = Duration::from_secs(300);
const TERMS: Terms = Terms { ttl: TTL, with_process: false };
const GRACE: Duration = Duration::from_secs(60);
const HOUR_MS: i64 = 3_600_000;

async fn in_memory() -> (Arc<MemoryBucket>, StoreFixture, Vec<RecordId>) {
    let memory = Arc::new(MemoryBucket::new());
    let fixture = StoreFixture::open(memory.clone(), None).await;
    let records = fixture.snapshots(3).await;
    (memory, fixture, records)
}

async fn acquire(handle: &LineageHandle) -> store::Result<Hold> {
    handle.acquire(TERMS, Duration::ZERO).await
}

async fn log(fixture: &StoreFixture) -> Vec<Event> {
    let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
    log.into_iter().map(Result::unwrap).collect()
}

async fn last(fixture: &StoreFixture, kind: EventKind) -> Option<Event> {
    log(fixture).await.into_iter().rfind(|event| event.kind == kind)
}

/// Puts a lock there, or replaces the one that is.
async fn write_lock(fixture: &StoreFixture, bytes: Vec<u8>) {
    let key = layout::lock(&fixture.lineage);
    let write = match fixture.store.bucket.get(&key, u64::MAX).await {
        Ok(object) => Write::Replace(object.version),
        Err(_) => Write::Create,
    };
    fixture.store.bucket.put(&key, bytes.into(), write).await.unwrap();
}

async fn holds_through_its_life(bucket: Arc<dyn Bucket>) {
    let fixture = StoreFixture::open(bucket, None).await;
    let (one, two) = (fixture.handle("one"), fixture.handle("two"));
    assert!(one.lock().await.unwrap().is_none());
    let hold = acquire(&one).await.unwrap();
    assert_eq!(hold.outcome(), Outcome::Acquired);
    let read = one.lock().await.unwrap().unwrap();
    assert!(one.is_live(&read));
    assert_eq!((read.lock.holder_run_id.as_str(), read.lock.ttl()), ("one", TTL));

    let refused = acquire(&two).await.unwrap_err();
    let Error::LockHeld { holder, .. } = &refused else { panic!("{refused}") };
    assert_eq!((holder.run_id.as_str(), holder.host.as_str()), ("one", "test"));
    assert!(holder.remaining <= TTL && holder.remaining > TTL / 2, "{holder}");

    for count in 1..=5 {
        let lock = hold.renew().await.unwrap();
        let read = one.lock().await.unwrap().unwrap();
        assert_eq!((lock.renewal_count, &read.lock), (count, &lock));
        assert_eq!(lock.acquired_at_ms, hold.lock().await.acquired_at_ms);
        assert_eq!(lock.block().unwrap().seq, count);
    }
    hold.release().await.unwrap();
    let free = one.lock().await.unwrap().unwrap();
    assert!(free.lock.is_free() && !one.is_live(&free));
    assert_eq!(acquire(&two).await.unwrap().outcome(), Outcome::Acquired);
}

#[tokio::test]
async fn a_lock_in_memory_is_taken_honoured_renewed_and_given_back() {
    holds_through_its_life(Arc::new(MemoryBucket::new())).await;
}

#[tokio::test]
async fn a_lock_in_a_directory_is_taken_honoured_renewed_and_given_back() {
    let folder = tempfile::tempdir().unwrap();
    holds_through_its_life(Arc::new(LocalBucket::open(folder.path(), Access::ReadWrite).unwrap())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_on_a_server_is_taken_honoured_renewed_and_given_back() {
    let server = SeaweedFs::shared().await;
    holds_through_its_life(Arc::new(S3Bucket::open(server.config()).await)).await;
}

#[tokio::test]
async fn an_expired_lock_is_taken_and_that_is_told() {
    let (memory, fixture, records) = in_memory().await;
    let old = acquire(&fixture.handle("old")).await.unwrap();
    memory.advance(TTL + Duration::from_secs(1));
    let new = acquire(&fixture.handle("new")).await.unwrap();
    assert_eq!(new.outcome().as_str(), "forced_expired");
    let event = last(&fixture, EventKind::LockEvicted).await.unwrap();
    assert_eq!((event.holder.unwrap().run_id.as_str(), event.reason.as_str()), ("old", "ttl_expired"));

    for lost in [old.renew().await.unwrap_err(), old.flip(records[0]).await.unwrap_err()] {
        assert!(
            matches!(&lost, Error::LockLost { holder: Some(holder), .. } if holder.run_id == "new"),
            "{lost}"
        );
    }
    old.release().await.unwrap();
    let handle = fixture.handle("new");
    let read = handle.lock().await.unwrap().unwrap();
    assert!(handle.is_live(&read), "a lock was freed by another holder");
    assert_eq!(last(&fixture, EventKind::LockLost).await.unwrap().by.run_id, "old");
    assert!(matches!(new.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
}

#[tokio::test]
async fn a_lock_that_was_merely_deleted_is_regained() {
    let (_, fixture, records) = in_memory().await;
    let hold = acquire(&fixture.handle("one")).await.unwrap();
    let token = hold.token().await;
    fixture.store.bucket.delete(&layout::lock(&fixture.lineage)).await.unwrap();
    hold.renew().await.unwrap();
    assert_ne!(hold.token().await, token);
    assert_eq!(last(&fixture, EventKind::LockRegained).await.unwrap().by.run_id, "one");
    assert!(matches!(hold.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
}

#[tokio::test]
async fn a_lock_is_not_regained_once_somebody_has_claimed_the_pointer() {
    let (_, fixture, records) = in_memory().await;
    let hold = acquire(&fixture.handle("one")).await.unwrap();
    fixture.store.bucket.delete(&layout::lock(&fixture.lineage)).await.unwrap();
    acquire(&fixture.handle("two")).await.unwrap().release().await.unwrap();
    assert_eq!(hold.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
    assert_eq!(hold.flip(records[0]).await.unwrap_err().kind(), ErrorKind::LockLost);
    assert!(last(&fixture, EventKind::LockRegained).await.is_none());
}

#[tokio::test]
async fn a_reaper_evicts_what_is_past_its_grace_and_nothing_else() {
    let (memory, fixture, _) = in_memory().await;
    let reaper = fixture.handle("reaper");
    let hold = acquire(&fixture.handle("one")).await.unwrap();
    assert_eq!(reaper.reap(GRACE).await.unwrap(), Reaped::Left);
    memory.advance(TTL + Duration::from_secs(30));
    assert_eq!(reaper.reap(GRACE).await.unwrap(), Reaped::Left, "it has not been expired for long");
    hold.renew().await.unwrap();
    memory.advance(GRACE + Duration::from_secs(31));
    assert_eq!(reaper.reap(GRACE).await.unwrap(), Reaped::Left, "it was renewed");
    memory.advance(TTL);
    let Reaped::Evicted(eviction) = reaper.reap(GRACE).await.unwrap() else { panic!("it is past its grace") };
    assert_eq!((eviction.holder.run_id.as_str(), eviction.holder.renewal_count), ("one", 1));
    assert!(eviction.expired_for > GRACE);
    assert_eq!(reaper.reap(GRACE).await.unwrap(), Reaped::Free);
    assert_eq!(last(&fixture, EventKind::LockEvicted).await.unwrap().by.run_id, "reaper");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_reapers_one_evicts() {
    let (memory, fixture, _) = in_memory().await;
    acquire(&fixture.handle("one")).await.unwrap();
    memory.advance(TTL + GRACE + Duration::from_secs(1));
    let reapers: Vec<_> = (0..16)
        .map(|number| {
            let reaper = fixture.handle(&format!("reaper-{number}"));
            tokio::spawn(async move { reaper.reap(GRACE).await.unwrap() })
        })
        .collect();
    let mut evicted = 0;
    for reaper in reapers {
        match reaper.await.unwrap() {
            Reaped::Evicted(_) => evicted += 1,
            Reaped::Lost | Reaped::Free => {}
            Reaped::Left => panic!("an expired lock was taken for a live one"),
        }
    }
    assert_eq!(evicted, 1);
    let told = log(&fixture).await.into_iter().filter(|event| event.kind == EventKind::LockEvicted).count();
    assert_eq!(told, 1);
}

/// Nothing but the free lock says so until the event is stored, and the free lock goes.
#[tokio::test(start_paused = true)]
async fn an_eviction_whose_answer_is_lost_is_told_all_the_same() {
    for fault in [Fault::After, Fault::Refused] {
        let memory = Arc::new(MemoryBucket::new());
        let faults = Arc::new(FaultBucket::new(memory.clone()));
        let fixture = StoreFixture::open(faults.clone(), None).await;
        acquire(&fixture.handle("one")).await.unwrap();
        memory.advance(TTL + GRACE + Duration::from_secs(1));
        faults.inject(Rule::new(fault).on(Verb::Replace).at("lock.json"));
        assert!(matches!(fixture.handle("reaper").reap(GRACE).await.unwrap(), Reaped::Evicted(_)));
        assert_eq!(faults.strikes(), 1);
        assert!(last(&fixture, EventKind::LockEvicted).await.is_some());
    }
}

/// Of a program that knows only the contract, and whose clock is in the year 2001; only the
/// difference counts.
fn foreign_lock(expires_at_ms: u64) -> Vec<u8> {
    let lock = json!({
        "version": 1, "holder_run_id": "foreign", "holder_host": "modal", "holder_host_run_id": "fc-01",
        "acquired_at_ms": 1_000_000_000_000_u64, "renewed_at_ms": 1_000_000_000_000_u64,
        "expires_at_ms": expires_at_ms, "renewal_count": 0,
    });
    lock.to_string().into_bytes()
}

/// Whoever takes it away is killed at each of its requests, too.
#[tokio::test]
async fn a_lock_of_the_contract_is_not_forgotten_when_it_is_taken_away() {
    let (held, given_back) = (foreign_lock(1_000_000_300_000), foreign_lock(0));
    for (lock, by_operator) in [(&held, false), (&held, true), (&given_back, false)] {
        let (stage, fixture, _) = in_memory().await;
        write_lock(&fixture, lock.clone()).await;
        for nth in 1.. {
            let memory = copy(&stage).await;
            memory.advance(TTL + GRACE + Duration::from_secs(1));
            let faults = Arc::new(FaultBucket::new(memory.clone()));
            faults.inject(Rule::new(Fault::KilledBefore).nth(nth));
            let taker = fixture.on(faults.clone()).handle("taker");
            match by_operator {
                true => drop(taker.force_unlock("stuck").await),
                false => drop(taker.reap(GRACE).await),
            }
            let fixture = fixture.on(memory);
            let survey = fixture.handle("somebody").survey().await.unwrap();
            assert!(survey.contract_only_seen(), "killed at {nth}: {survey:#?}");
            if faults.strikes() == 0 {
                assert!(survey.pointer.unwrap().pointer.contract_only_seen());
                assert!(survey.lock.is_none_or(|read| !read.lock.is_of_contract_only()));
                break;
            }
        }
    }
}

/// It goes on from where it was, as after any other change of the pointer that moves nothing.
#[tokio::test]
async fn what_a_pointer_remembers_of_others_takes_no_claim_away() {
    let (memory, fixture, records) = in_memory().await;
    let hold = acquire(&fixture.handle("one")).await.unwrap();
    let mine = memory.get(&layout::lock(&fixture.lineage), u64::MAX).await.unwrap().bytes.to_vec();
    write_lock(&fixture, foreign_lock(0)).await;
    memory.advance(GRACE + Duration::from_secs(1));
    assert_eq!(fixture.handle("reaper").reap(GRACE).await.unwrap(), Reaped::Free);
    write_lock(&fixture, mine).await;
    assert!(matches!(hold.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
    assert!(fixture.handle("two").survey().await.unwrap().contract_only_seen());
}

#[tokio::test]
async fn a_lock_of_the_contract_is_honoured_and_expires_by_the_stores_clock() {
    let (memory, fixture, records) = in_memory().await;
    write_lock(&fixture, foreign_lock(1_000_000_300_000)).await;
    let refused = acquire(&fixture.handle("one")).await.unwrap_err();
    let Error::LockHeld { holder, .. } = &refused else { panic!("{refused}") };
    assert_eq!((holder.run_id.as_str(), holder.host_run_id.as_str()), ("foreign", "fc-01"));
    memory.advance(TTL + Duration::from_secs(1));
    let hold = acquire(&fixture.handle("one")).await.unwrap();
    assert_eq!(hold.outcome(), Outcome::ForcedExpired);
    assert!(matches!(hold.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
}

#[tokio::test]
async fn a_host_clock_that_is_wrong_by_an_hour_changes_nothing() {
    for (one, two) in [(HOUR_MS, 0), (-HOUR_MS, 0), (0, HOUR_MS), (0, -HOUR_MS), (-HOUR_MS, HOUR_MS)] {
        let (memory, fixture, records) = in_memory().await;
        let one = fixture.handle("one").with_clock(HostClock::ahead_by_ms(one));
        let two = fixture.handle("two").with_clock(HostClock::ahead_by_ms(two));
        let hold = acquire(&one).await.unwrap();
        memory.advance(TTL - Duration::from_secs(5));
        assert_eq!(acquire(&two).await.unwrap_err().kind(), ErrorKind::LockHeld);
        assert_eq!(two.reap(GRACE).await.unwrap(), Reaped::Left);
        hold.renew().await.unwrap();
        memory.advance(TTL - Duration::from_secs(5));
        assert_eq!(acquire(&two).await.unwrap_err().kind(), ErrorKind::LockHeld);
        memory.advance(Duration::from_secs(6));
        let taken = acquire(&two).await.unwrap();
        assert_eq!(taken.outcome(), Outcome::ForcedExpired);
        assert_eq!(hold.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
        assert!(matches!(taken.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
    }
}

#[tokio::test]
async fn an_operator_takes_any_lock_away_even_one_that_cannot_be_read() {
    let (_, fixture, _) = in_memory().await;
    let operator = fixture.handle("operator");
    assert!(operator.force_unlock("nothing there").await.unwrap().is_none());
    let hold = acquire(&fixture.handle("one")).await.unwrap();
    let eviction = operator.force_unlock("stuck").await.unwrap().unwrap();
    assert_eq!((eviction.holder.run_id.as_str(), eviction.reason.as_str()), ("one", "operator_force"));
    let lock = operator.lock().await.unwrap().unwrap().lock;
    assert!(lock.is_free() && lock.holder_run_id == OPERATOR_FORCE);
    let event = last(&fixture, EventKind::ForceUnlock).await.unwrap();
    assert_eq!((event.reason.as_str(), event.holder.unwrap().run_id.as_str()), ("stuck", "one"));
    drop(hold);

    for unreadable in [&b""[..], b"{", b"not json at all", br#"{"version": 9}"#] {
        write_lock(&fixture, unreadable.to_vec()).await;
        acquire(&fixture.handle("one")).await.unwrap_err();
        operator.force_unlock("damaged").await.unwrap().unwrap();
        acquire(&fixture.handle("one")).await.unwrap().release().await.unwrap();
    }
}

/// The request arrives after it was given up: then the lock is ours, and nobody else's.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_a_lock_that_is_his_own() {
    for fault in [Fault::Before, Fault::After, Fault::Refused] {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let fixture = StoreFixture::open(faults.clone(), None).await;
        faults.inject(Rule::new(fault).on(Verb::Create).at("lock.json"));
        let hold = acquire(&fixture.handle("one")).await.unwrap();
        assert_eq!((faults.strikes(), hold.outcome()), (1, Outcome::Acquired));
        hold.renew().await.unwrap();
    }
}

#[tokio::test]
async fn an_unreadable_lock_is_taken_away_once_though_the_answer_is_lost() {
    for fault in [Fault::Before, Fault::After, Fault::Refused] {
        let faults = Arc::new(FaultBucket::new(Arc::new(MemoryBucket::new())));
        let fixture = StoreFixture::open(faults.clone(), None).await;
        write_lock(&fixture, b"not a lock".to_vec()).await;
        faults.inject(Rule::new(fault).on(Verb::Replace).at("lock.json"));
        let taken = fixture.handle("operator").force_unlock("stuck").await;
        assert!(taken.as_ref().is_ok_and(Option::is_some), "{fault:?}: {taken:?}");
        assert_eq!(faults.strikes(), 1);
        faults.heal();
        assert!(fixture.handle("reader").lock().await.unwrap().unwrap().lock.is_free(), "{fault:?}");
        let log = events::log(&fixture.store, &fixture.lineage, None).await.unwrap();
        let kinds: Vec<_> = log.into_iter().map(|event| event.unwrap().kind).collect();
        assert_eq!(kinds, [EventKind::ForceUnlock], "{fault:?}");
    }
}

const WITH_PROCESS: Terms = Terms { ttl: TTL, with_process: true };

/// The same store on machines of their own, each with a cache of its own.
async fn machines<const N: usize>() -> (StoreFixture, [StoreFixture; N], tempfile::TempDir, Vec<RecordId>) {
    let (memory, fixture, records) = in_memory().await;
    let caches = tempfile::tempdir().unwrap();
    let mut machines = Vec::new();
    for number in 0..N {
        machines.push(StoreFixture::open(memory.clone(), Some(caches.path().join(number.to_string()))).await);
    }
    (fixture, machines.try_into().unwrap(), caches, records)
}

#[tokio::test]
async fn only_the_machine_of_a_holder_can_tell_that_it_is_dead() {
    let (_, [here, elsewhere], ..) = machines().await;
    let hold = here.handle("one").acquire(WITH_PROCESS, Duration::ZERO).await.unwrap();
    hold.renew().await.unwrap();
    for machine in [&here, &elsewhere] {
        let error = acquire(&machine.handle("two")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LockHeld, "it lives");
    }
    // As the kernel does when a process ends.
    drop(hold);
    assert_eq!(acquire(&elsewhere.handle("two")).await.unwrap_err().kind(), ErrorKind::LockHeld);
    let taken = acquire(&here.handle("two")).await.unwrap();
    assert_eq!(taken.outcome(), Outcome::ForcedExpired);
    let event = last(&here, EventKind::LockEvicted).await.unwrap();
    assert_eq!((event.holder.unwrap().run_id.as_str(), event.reason.as_str()), ("one", "holder_dead"));
}

/// As on machines that were resumed from one image: boot id and process numbers are the same.
#[tokio::test]
async fn that_no_process_has_the_holders_number_proves_nothing() {
    let (fixture, [here], ..) = machines().await;
    let hold = acquire(&here.handle("one")).await.unwrap();
    let mut lock = serde_json::to_value(hold.lock().await).unwrap();
    let mut ended = std::process::Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let read = |path: &str| std::fs::read_to_string(path).unwrap().trim().to_owned();
    lock["pstore"]["process"] = json!({
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "pid_namespace": std::fs::read_link("/proc/self/ns/pid").unwrap().to_str().unwrap(),
        "pid": ended.id(),
        "started": 1,
    });
    let lock: store::format::lock::Lock = serde_json::from_value(lock).unwrap();
    write_lock(&fixture, lock.encode()).await;
    assert_eq!(acquire(&here.handle("two")).await.unwrap_err().kind(), ErrorKind::LockHeld);
}

#[tokio::test]
async fn of_two_twins_that_renew_the_first_keeps_the_lock() {
    let (fixture, [one, other], _caches, records) = machines().await;
    let hold = one.handle("run").acquire(WITH_PROCESS, Duration::ZERO).await.unwrap();
    let twin = hold.twin(other.handle("run")).await;
    twin.renew().await.unwrap();
    assert_eq!(hold.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
    assert_eq!(last(&fixture, EventKind::LockLost).await.unwrap().by.run_id, "run");
    // It neither gives back the lock of its twin nor is its death the twin's.
    hold.release().await.unwrap();
    drop(hold);
    assert_eq!(acquire(&one.handle("next")).await.unwrap_err().kind(), ErrorKind::LockHeld);
    twin.renew().await.unwrap();
    assert!(matches!(twin.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
    twin.release().await.unwrap();
    acquire(&one.handle("next")).await.unwrap();
}

#[tokio::test]
async fn of_two_twins_that_move_the_pointer_the_first_wins() {
    for with_pointer in [true, false] {
        let (fixture, [one, other], _caches, records) = machines().await;
        if !with_pointer {
            fixture.store.bucket.delete(&layout::latest(&fixture.lineage)).await.unwrap();
        }
        let hold = one.handle("run").acquire(WITH_PROCESS, Duration::ZERO).await.unwrap();
        let twin = hold.twin(other.handle("run")).await;
        assert!(matches!(twin.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
        let error = hold.flip(records[1]).await.unwrap_err();
        assert!(matches!(&error, Error::PointerMoved { record: Some(_), .. }), "{error}");
        assert!(error.to_string().contains("under the same claim"), "{error}");
        assert_eq!(twin.flip(records[0]).await.unwrap(), Flip::Unchanged);
        // Nor does it take a lock again that is gone.
        fixture.store.bucket.delete(&layout::lock(&fixture.lineage)).await.unwrap();
        assert_eq!(hold.renew().await.unwrap_err().kind(), ErrorKind::LockLost);
        twin.renew().await.unwrap();
    }
}

#[tokio::test]
async fn a_process_that_shows_the_token_is_no_twin() {
    let (_, [one], _caches, records) = machines().await;
    let hold = one.handle("run").acquire(WITH_PROCESS, Duration::ZERO).await.unwrap();
    let child = one.handle("").adopt(hold.token().await).await.unwrap();
    child.renew().await.unwrap();
    hold.renew().await.unwrap();
    assert!(matches!(child.flip(records[0]).await.unwrap(), Flip::Flipped { .. }));
    hold.renew().await.unwrap();
    hold.release().await.unwrap();
}

/// A renewal whose answer is lost for good arrives later; it is our own all the same.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_arrives_late_is_no_twins() {
    let memory = Arc::new(MemoryBucket::new());
    let faults = Arc::new(FaultBucket::new(memory.clone()));
    let fixture = StoreFixture::open(faults.clone(), None).await;
    let hold = fixture.handle("one").acquire(WITH_PROCESS, Duration::ZERO).await.unwrap();
    faults.inject(Rule::new(Fault::After).on(Verb::Replace).at("lock.json"));
    faults.inject(Rule::new(Fault::Before).on(Verb::Get).at("lock.json").always());
    hold.renew().await.unwrap_err();
    faults.heal();
    hold.renew().await.unwrap();
    assert!(fixture.handle("one").lock().await.unwrap().unwrap().lock.renewal_count >= 2);
}

/// Who waits for a lock for an hour and is told that nobody wants it any more does not go on waiting.
#[tokio::test]
async fn a_wait_that_is_given_up_ends_though_somebody_else_holds_the_lock() {
    let (_, fixture, _) = in_memory().await;
    let held = acquire(&fixture.handle("first")).await.unwrap();
    let given_up = Arc::new(AtomicBool::new(false));
    let (told, asked) = (Arc::clone(&given_up), Arc::clone(&given_up));
    // The wait has begun when it is told of.
    let patience = Patience::telling(Duration::from_secs(3600), move |_| told.store(true, Ordering::Release))
        .until(move || asked.load(Ordering::Acquire));
    let ended = fixture.handle("second").acquire(TERMS, patience).await;
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    held.release().await.unwrap();
    acquire(&fixture.handle("third")).await.unwrap();
}
