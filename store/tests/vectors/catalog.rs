//! `catalog` makes the vectors of a held lock, a stored event, a manifest, a pin, the root of a session, and
//! expectations.

use store::{
    format::{
        WRITER,
        damage::{Mark, MarkedPack},
        event::{Actor, Event, EventKind},
        expectations::{CookieName, Expectations},
        health::{Cookies, Expected, Finding, Health, Lapse, Missing, Recovered, TornLog},
        lock::{Lock, LockBlock},
        manifest::Manifest,
        merged_events::{MergedEvents, StoredEvent},
        pin::Pin,
        record::{Earlier, Mode, Record},
        tombstone::{Deletion, Operator, Progress, Tombstone},
        work_in_progress::WorkInProgress,
    },
    id::{EventId, FlipId, Nonce, PackId, PackSeq, RecordId, Sha256},
    name::{Lineage, ProfileName},
};

use super::origin::{CAPTURED_AT_MS, tomorrow};

pub(super) fn actor() -> Actor {
    Actor {
        run_id: "20260612_001523_aabbccdd".to_owned(),
        host: "daytona".to_owned(),
        host_run_id: "fc-01".to_owned(),
        unknown: tomorrow(),
    }
}

/// How the pointer came to name `record`.
pub(super) fn flip(record: &Record) -> Event {
    let id = EventId::from_parts(CAPTURED_AT_MS + 3000, [0x44; 10]);
    let mut event = Event::new(id, EventKind::Flip, CAPTURED_AT_MS + 3000, actor());
    event.from_sha256_prefix = Some("8d9e7f6a5b4c".to_owned());
    event.to_sha256_prefix = Some(record.sha256_prefix());
    event.flip_id = Some(FlipId::from_bytes([0x55; 16]));
    event.record = Some(record.record);
    event.unknown = tomorrow();
    event
}

/// A lock that was taken away before it was taken again.
pub(super) fn eviction() -> Event {
    let id = EventId::from_parts(CAPTURED_AT_MS - 1000, [0xaa; 10]);
    let mut event = Event::new(id, EventKind::LockEvicted, CAPTURED_AT_MS - 1000, actor());
    event.reason = "ttl_expired".to_owned();
    event.holder = Some(Actor { run_id: "an earlier run".to_owned(), ..actor() });
    event.unknown = tomorrow();
    event
}

pub(super) fn lock() -> Lock {
    let mut lock = Lock {
        version: 1,
        holder_run_id: actor().run_id,
        holder_host: actor().host,
        holder_host_run_id: actor().host_run_id,
        acquired_at_ms: CAPTURED_AT_MS - 60_000,
        renewed_at_ms: CAPTURED_AT_MS,
        expires_at_ms: CAPTURED_AT_MS + 300_000,
        renewal_count: 1,
        pstore: None,
        unknown: tomorrow(),
    };
    lock.pstore = Some(LockBlock {
        v: 1,
        writer: WRITER.to_owned(),
        bind: lock.binding(),
        nonce: Nonce::from_bytes([0x88; 16]),
        seq: 1,
        mark: Some(Nonce::from_bytes([0x99; 16])),
        by_token: true,
        event: Some(eviction()),
        unknown: tomorrow(),
    });
    lock
}

/// The snapshot, of which a frame of one pack and all of another are lost.
pub(super) fn damaged(record: &Record) -> Record {
    let packs = record.content.iter().flat_map(|content| &content.packs).enumerate();
    let packs = packs.map(|(at, used)| MarkedPack {
        pack: used.pack,
        offsets: if at == 0 { vec![16, 1_048_592] } else { Vec::new() },
        unknown: tomorrow(),
    });
    let mark = Mark {
        found_at_ms: CAPTURED_AT_MS + 86_400_000,
        files: 2,
        packs: packs.take(2).collect(),
        unknown: tomorrow(),
    };
    Record { damage: Some(mark), lease_seq: record.lease_seq + 1, ..record.clone() }
}

/// The snapshot after it was moved twice; two earlier generations are still pinned.
pub(super) fn moved(record: &Record) -> Record {
    let earlier = |generation: u64| {
        let write = RecordId::from_parts(CAPTURED_AT_MS + 1000 * generation, [0x33; 10]);
        let packs = [PackSeq::Data(0), PackSeq::Data(7), PackSeq::Meta];
        Earlier { generation, packs: packs.map(|seq| PackId { write, seq }).to_vec(), unknown: tomorrow() }
    };
    let (generation, lease_seq) = (4, record.lease_seq + 4);
    Record { generation, lease_seq, earlier: vec![earlier(1), earlier(3)], ..record.clone() }
}

/// The snapshot, taken while its browser ran.
pub(super) fn hot(record: &Record) -> Record {
    let recovered = |path: &str, from: &str| Recovered {
        path: path.to_owned(),
        from: from.to_owned(),
        unknown: tomorrow(),
    };
    let recovered = vec![
        recovered("Default/Cookies", Recovered::JOURNAL),
        recovered("Default/DIPS", Recovered::WAL),
        recovered("Default/Local Storage/leveldb", Recovered::LOG),
    ];
    let torn = "Default/Local Storage/leveldb/000003.log".to_owned();
    let torn_logs = vec![TornLog { path: torn, whole_bytes: 115_307, unknown: tomorrow() }];
    let health = Health { ended: "running".to_owned(), stop_ms: 0, recovered, torn_logs, ..health() };
    Record { mode: Mode::Hot, health: Some(health), lease_seq: record.lease_seq + 1, ..record.clone() }
}

/// Of an archive of the snapshot.
pub(super) fn manifest(record: &Record) -> Manifest {
    let predecessor = Some(Sha256::from_bytes([0x8d; 32]));
    let mut manifest = Manifest::of(record, Sha256::from_bytes([0x1a; 32]), 482_919_334, predecessor);
    manifest.unknown = tomorrow();
    manifest
}

/// Of a profile whose deletion a collection has ended.
pub(super) fn tombstone(name: &ProfileName) -> Tombstone {
    let by = Operator {
        user: "operator".to_owned(),
        host: actor().host,
        run_id: actor().run_id,
        unknown: tomorrow(),
    };
    let deletion = Deletion {
        state: Progress::Done,
        at_ms: CAPTURED_AT_MS + 86_400_000,
        by,
        reason: "left the company".to_owned(),
        snapshots: 12,
        archives: 3,
        stored_bytes: 482_919_334,
        unknown: tomorrow(),
    };
    Tombstone { writer: WRITER.to_owned(), unknown: tomorrow(), ..Tombstone::new(name, deletion) }
}

/// Of a run that goes on.
pub(super) fn work_in_progress(lineage: &Lineage, record: RecordId) -> WorkInProgress {
    let wip = WorkInProgress::new(lineage, record, Some(session_id()), CAPTURED_AT_MS + 60_000, actor());
    WorkInProgress { writer: WRITER.to_owned(), unknown: tomorrow(), ..wip }
}

pub(super) fn pin_id() -> RecordId {
    RecordId::from_parts(CAPTURED_AT_MS + 5000, [0xbb; 10])
}

pub(super) fn pin(record: &Record) -> Pin {
    let mut pin = Pin::new(record.record, record.generation, std::time::Duration::from_secs(900));
    pin.unknown = tomorrow();
    pin
}

/// One of each kind.
pub(super) fn expectations() -> Expectations {
    let mut expected = Expectations::new(&super::origin::lineage().name, actor());
    (expected.revision, expected.changed_at_ms) = (3, CAPTURED_AT_MS - 7000);
    expected.cookies = vec![CookieName { host: ".example.com".to_owned(), name: "sid".to_owned() }];
    expected.origins = vec!["https://app.example.com".to_owned()];
    expected.files = vec!["Default/Preferences".to_owned()];
    expected.unknown = tomorrow();
    expected
}

/// Of these, the origin keeps nothing.
fn expected() -> Expected {
    Expected {
        revision: 3,
        missing: vec![Missing {
            kind: "origin".to_owned(),
            name: "https://app.example.com".to_owned(),
            why: "it keeps nothing".to_owned(),
            unknown: tomorrow(),
        }],
        cookies: vec![Lapse {
            host: ".example.com".to_owned(),
            name: "sid".to_owned(),
            lapses_at_ms: Some(CAPTURED_AT_MS + 86_400_000),
            unknown: tomorrow(),
        }],
        unknown: tomorrow(),
    }
}

pub(super) fn session_id() -> RecordId {
    RecordId::from_parts(CAPTURED_AT_MS + 6000, [0xcc; 10])
}

pub(super) fn root_id() -> RecordId {
    RecordId::from_parts(CAPTURED_AT_MS + 7000, [0xdd; 10])
}

/// Of a session on another host that builds on the record.
pub(super) fn session_root(lineage: &Lineage, record: &Record) -> Pin {
    let ttl = std::time::Duration::from_secs(30 * 86_400);
    let mut root = Pin::root(lineage, record.record, session_id(), "host-2", ttl);
    root.unknown = tomorrow();
    if let Some(session) = &mut root.session {
        session.unknown = tomorrow();
    }
    root
}

pub(super) fn health() -> Health {
    let finding = |path: &str, problem: &str| Finding {
        path: path.to_owned(),
        problem: problem.to_owned(),
        unknown: tomorrow(),
    };
    Health {
        ended: "closed".to_owned(),
        stop_ms: 210,
        depth: "quick".to_owned(),
        checked: 3,
        damaged: vec![finding("Default/History", "row 3 missing from index")],
        unchecked: vec![finding("Default/Web Data", "it takes too long")],
        hot_journals: vec!["Default/Cookies".to_owned()],
        recovered: Vec::new(),
        torn_logs: Vec::new(),
        cookies: Some(Cookies { rows: 5, plain: 1, v10: 3, v11: 1, other: 0, unknown: tomorrow() }),
        expected: Some(expected()),
        local_state: true,
        unknown: tomorrow(),
    }
}

/// An old event beside one that is also stored by itself still.
pub(super) fn merged_events() -> MergedEvents {
    let at_ms = CAPTURED_AT_MS - 86_400_000;
    let mut old = Event::new(EventId::from_parts(at_ms, [0x66; 10]), EventKind::ForceUnlock, at_ms, actor());
    old.reason = "it was stuck".to_owned();
    old.unknown = tomorrow();
    let events = [(old, at_ms + 500), (eviction(), CAPTURED_AT_MS - 600)];
    let events = events
        .map(|(event, at_ms)| StoredEvent { unknown: tomorrow(), ..StoredEvent::new(event, at_ms) })
        .to_vec();
    let id = EventId::from_parts(CAPTURED_AT_MS + 86_400_000, [0x77; 10]);
    MergedEvents { writer: WRITER.to_owned(), unknown: tomorrow(), ..MergedEvents::new(id, events) }
}
