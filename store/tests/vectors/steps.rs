//! `steps` makes the pointers and locks before and after each step of `format-spec/procedures.md`.
//!
//! Made by hand, as the page says; the tests run the code on the same beginnings.

use serde_json::json;
use store::{
    format::{
        Unknown,
        event::{Actor, Event, EventKind},
        layout,
        lock::{Lock, LockBlock},
        pointer::{Block, Claim, Pointer},
        record::Record,
    },
    id::{EventId, FlipId, Nonce, RecordId},
};

use super::{
    Files, catalog,
    origin::{CAPTURED_AT_MS, WRITER, lineage},
    show,
};

/// When the steps were made, by a host's clock.
const AT_MS: u64 = CAPTURED_AT_MS + 3_600_000;
/// How long the lock holds after its last renewal.
pub const TTL_MS: u64 = 300_000;
/// Why the pointer was moved without the lock.
pub const REASON: &str = "logged out";
const NONCE: Nonce = Nonce::from_bytes([0xb0; 16]);

/// The record that the pointer is moved to: the snapshot once more, with an archive.
pub fn next_record(live: &Record) -> Record {
    Record {
        record: RecordId::from_parts(CAPTURED_AT_MS + 90_000, [0xcc; 10]),
        parent: Some(live.record),
        predecessor_sha256: live.sha256(),
        ..with_archive(live)
    }
}

/// The record after its archive was published.
pub fn with_archive(live: &Record) -> Record {
    Record { archive_sha256: Some("1a".repeat(32)), archive_size_bytes: Some(482_919_334), ..live.clone() }
}

/// The pointer that follows `before`, with what `change` makes of it.
fn follow(before: &Pointer, flip: u8, change: impl FnOnce(&mut Pointer, &mut Block)) -> Pointer {
    let bound = before.block().cloned();
    let recent = bound.iter().flat_map(|old| old.recent.iter().copied().chain([old.flip_id])).collect();
    let mut block = bound.unwrap_or_else(|| Block {
        v: 1,
        writer: WRITER.to_owned(),
        bind: String::new(),
        record: None,
        snapshot_id: None,
        flip_id: FlipId::from_bytes([0; 16]),
        recent: Vec::new(),
        lease: None,
        event: None,
        contract_only_seen: !before.is_empty(),
        unknown: Unknown::new(),
    });
    (block.recent, block.flip_id) = (recent, FlipId::from_bytes([flip; 16]));
    let mut next = Pointer { pstore: None, ..before.clone() };
    change(&mut next, &mut block);
    block.bind = next.binding();
    next.pstore = Some(block);
    next
}

/// The run that makes the steps: the holder of the vector store's lock.
fn actor() -> Actor {
    catalog::lock().holder()
}

fn empty() -> Pointer {
    Pointer {
        version: 1,
        active_sha256_prefix: String::new(),
        active_archive_key: layout::archive(&lineage(), "000000000000"),
        active_manifest_key: layout::manifest(&lineage(), "000000000000"),
        flipped_at_ms: 0,
        flipped_from_sha256_prefix: String::new(),
        pstore: None,
        unknown: Unknown::new(),
    }
}

fn claim(_: &mut Pointer, block: &mut Block) {
    block.lease = Some(Claim { nonce: NONCE, base: block.record, unknown: Unknown::new() });
}

/// The contract's fields and ours once the pointer names `record`.
fn point_at(record: &Record, kind: EventKind, pointer: &mut Pointer, block: &mut Block) {
    let mut event = Event::new(EventId::from_parts(AT_MS, [0xdd; 10]), kind, AT_MS, actor());
    event.from_sha256_prefix = Some(pointer.active_sha256_prefix.clone());
    event.to_sha256_prefix = Some(record.sha256_prefix());
    event.record = Some(record.record);
    event.flip_id = Some(block.flip_id);
    pointer.flipped_from_sha256_prefix = pointer.active_sha256_prefix.clone();
    pointer.flipped_at_ms = AT_MS;
    name(record, pointer);
    block.record = Some(record.record);
    block.snapshot_id = record.content.as_ref().map(|content| content.snapshot_id);
    block.event = Some(event);
}

fn name(record: &Record, pointer: &mut Pointer) {
    let prefix = record.sha256_prefix();
    pointer.active_archive_key = layout::archive(&lineage(), &prefix);
    pointer.active_manifest_key = layout::manifest(&lineage(), &prefix);
    pointer.active_sha256_prefix = prefix;
}

/// A pointer as a program writes it that knows only the contract and keeps all other fields.
fn foreign(before: &Pointer) -> Pointer {
    let prefix = "5e".repeat(6);
    Pointer {
        active_archive_key: layout::archive(&lineage(), &prefix),
        active_manifest_key: layout::manifest(&lineage(), &prefix),
        flipped_from_sha256_prefix: before.active_sha256_prefix.clone(),
        active_sha256_prefix: prefix,
        flipped_at_ms: AT_MS,
        ..before.clone()
    }
}

fn lock(holder: bool, expires_at_ms: u64) -> Lock {
    let text = |text: String| if holder { text } else { String::new() };
    let mut lock = Lock {
        version: 1,
        holder_run_id: text(actor().run_id),
        holder_host: text(actor().host),
        holder_host_run_id: text(actor().host_run_id),
        acquired_at_ms: AT_MS,
        renewed_at_ms: AT_MS,
        expires_at_ms,
        renewal_count: 0,
        pstore: None,
        unknown: Unknown::new(),
    };
    lock.pstore = Some(LockBlock {
        v: 1,
        writer: WRITER.to_owned(),
        bind: lock.binding(),
        nonce: if holder { NONCE } else { Nonce::from_bytes([0xb1; 16]) },
        seq: 0,
        mark: Some(Nonce::from_bytes([0xe0; 16])),
        by_token: false,
        event: None,
        unknown: Unknown::new(),
    });
    lock
}

/// A lock in the place of an expired one.
fn taken() -> Lock {
    let mut lock = lock(true, AT_MS + TTL_MS);
    let id = EventId::from_parts(AT_MS, [0xee; 10]);
    let mut event = Event::new(id, EventKind::LockEvicted, AT_MS, actor());
    event.reason = "ttl_expired".to_owned();
    event.holder = Some(actor());
    if let Some(block) = &mut lock.pstore {
        block.event = Some(event);
    }
    lock
}

fn renewed() -> Lock {
    let at_ms = AT_MS + 60_000;
    let mut lock = Lock { renewed_at_ms: at_ms, expires_at_ms: at_ms + TTL_MS, renewal_count: 1, ..taken() };
    if let Some(block) = &mut lock.pstore {
        (block.seq, block.mark) = (1, Some(Nonce::from_bytes([0xe1; 16])));
    }
    lock
}

pub(super) fn add(files: &mut Files, live: &Record, pointer: &Pointer) {
    let next = next_record(live);
    let claimed = follow(pointer, 0xa1, claim);
    let foreign = foreign(pointer);
    let flipped = follow(&claimed, 0xa2, |pointer, block| {
        point_at(&next, EventKind::Flip, pointer, block);
        claim(pointer, block);
    });
    let moved = follow(&claimed, 0xa3, |pointer, block| {
        point_at(&next, EventKind::Rollback, pointer, block);
        block.lease = None;
        block.event.iter_mut().for_each(|event| event.reason = REASON.to_owned());
    });
    let first = "store/objects/snapshots/acme/alice/131/latest.json";
    let mut steps = Vec::new();
    let mut pointers = |step: &str, before: Option<&str>, after: &str, pointer: Pointer| {
        let after = format!("steps/{after}.json");
        steps.push(json!({ "step": step, "before": before, "after": after }));
        files.insert(after, pointer.encode());
    };
    pointers("claim", None, "claimed-first", follow(&empty(), 0xa0, claim));
    pointers("touch", Some(first), "touched", follow(pointer, 0xa4, |_, _| ()));
    pointers("claim", Some(first), "claimed", claimed.clone());
    pointers("flip", Some("steps/claimed.json"), "flipped", flipped);
    pointers("move", Some("steps/claimed.json"), "moved", moved);
    let withdrawn = follow(&claimed, 0xa5, |_, block| block.lease = None);
    pointers("withdraw", Some("steps/claimed.json"), "withdrawn", withdrawn);
    let named = follow(pointer, 0xa6, |pointer, _| name(&with_archive(live), pointer));
    pointers("name", Some(first), "named", named);
    pointers("contract", Some(first), "foreign", foreign.clone());
    let foreign = follow(&foreign, 0xa7, claim);
    pointers("claim", Some("steps/foreign.json"), "foreign-claimed", foreign);
    let mut locks = |step: &str, before: &str, after: &str, lock: Lock| {
        let after = format!("steps/{after}.json");
        steps.push(json!({ "step": step, "before": before, "after": after }));
        files.insert(after, lock.encode());
    };
    locks("take", "store/objects/snapshots/acme/alice/131/lock.json", "lock-taken", taken());
    locks("renew", "steps/lock-taken.json", "lock-renewed", renewed());
    locks("give back", "steps/lock-renewed.json", "lock-free", lock(false, 0));
    files.insert("steps/record.json".to_owned(), next.encode());
    files.insert("steps/steps.json".to_owned(), show::json_bytes(&json!(steps)));
}
