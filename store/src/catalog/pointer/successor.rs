//! Makes the pointer that follows another. Pure; every one of them has a flip id of its own.

use super::{LineageHandle, VersionedPointer};
use crate::{
    format::{
        Unknown, WRITER,
        event::Event,
        layout,
        pointer::{BLOCK_VERSION, Block, Claim, Pointer, RECENT},
        record::Record,
    },
    id::{self, FlipId},
    name::Lineage,
};

fn new_flip_id() -> FlipId {
    FlipId::from_bytes(id::random())
}

impl LineageHandle {
    /// For a flip that is about to be tried.
    pub fn new_flip_id(&self) -> FlipId {
        if self.rules.fresh_flip_id { new_flip_id() } else { FlipId::from_bytes([0x77; 16]) }
    }
}

/// Points at `record`.
pub(super) fn moved(
    lineage: &Lineage,
    before: Option<&VersionedPointer>,
    record: &Record,
    at_ms: u64,
    lease: Option<Claim>,
    event: Event,
) -> Pointer {
    let sha = record.sha256_prefix();
    let old = before.map(|read| &read.pointer);
    let mut next = Pointer {
        version: 1,
        active_archive_key: layout::archive(lineage, &sha),
        active_manifest_key: layout::manifest(lineage, &sha),
        active_sha256_prefix: sha,
        flipped_at_ms: at_ms,
        flipped_from_sha256_prefix: old.map_or_else(String::new, |old| old.active_sha256_prefix.clone()),
        pstore: None,
        unknown: old.map_or_else(Unknown::new, |old| old.unknown.clone()),
    };
    let mut block = successor(before, &next);
    block.record = Some(record.record);
    block.snapshot_id = record.content.as_ref().map(|content| content.snapshot_id);
    block.flip_id = event.flip_id.unwrap_or(block.flip_id);
    block.lease = lease;
    block.event = Some(event);
    next.pstore = Some(block);
    next
}

/// Points where it did, by the name of the archive that `record` has by now. It is still the
/// same move: when it was made, and from where, stays.
pub(super) fn named(lineage: &Lineage, before: &VersionedPointer, record: &Record) -> Pointer {
    let sha = record.sha256_prefix();
    let mut next = Pointer {
        active_archive_key: layout::archive(lineage, &sha),
        active_manifest_key: layout::manifest(lineage, &sha),
        active_sha256_prefix: sha,
        ..before.pointer.clone()
    };
    next.pstore = Some(successor(Some(before), &next));
    next
}

/// Points where it did, under the claim `lease`. The lock's holder before may have been one who
/// knows only the contract.
pub(super) fn claimed(
    lineage: &Lineage,
    before: Option<&VersionedPointer>,
    lease: Claim,
    after_contract_only: bool,
) -> Pointer {
    let mut next = touched(lineage, before);
    if let Some(block) = &mut next.pstore {
        block.lease = Some(lease);
        block.contract_only_seen |= after_contract_only;
    }
    next
}

/// Points where it did, which is `record`: an archive of somebody else's that was stored.
pub(super) fn recognised(before: &VersionedPointer, record: &Record, event: Event) -> Pointer {
    let mut next = again(before);
    if let Some(block) = &mut next.pstore {
        block.record = Some(record.record);
        block.snapshot_id = record.content.as_ref().map(|content| content.snapshot_id);
        block.flip_id = event.flip_id.unwrap_or(block.flip_id);
        if let Some(lease) = &mut block.lease {
            lease.base = Some(record.record);
        }
        block.event = Some(event);
    }
    next
}

/// Points where it did, under nobody's claim.
pub(super) fn unclaimed(before: &VersionedPointer) -> Pointer {
    let mut next = again(before);
    if let Some(block) = &mut next.pstore {
        block.lease = None;
    }
    next
}

/// Points where it did, and says that a program was seen which knows only the contract.
pub(super) fn witnessed(lineage: &Lineage, before: Option<&VersionedPointer>) -> Pointer {
    let mut next = touched(lineage, before);
    if let Some(block) = &mut next.pstore {
        block.contract_only_seen = true;
    }
    next
}

/// Points where it did, in other bytes; without a pointer, at nothing.
pub(super) fn touched(lineage: &Lineage, before: Option<&VersionedPointer>) -> Pointer {
    before.map_or_else(
        || {
            let mut first = empty(lineage);
            first.pstore = Some(successor(None, &first));
            first
        },
        again,
    )
}

/// Points where it did, in other bytes.
pub(super) fn again(before: &VersionedPointer) -> Pointer {
    let mut next = before.pointer.clone();
    next.pstore = Some(successor(Some(before), &next));
    next
}

/// Points at nothing, under nobody's claim.
pub(super) fn emptied(lineage: &Lineage, before: Option<&VersionedPointer>, event: Option<Event>) -> Pointer {
    let Some(read) = before else { return touched(lineage, None) };
    let mut next = Pointer { unknown: read.pointer.unknown.clone(), ..empty(lineage) };
    if let Some(event) = &event {
        next.flipped_at_ms = event.at_ms;
        next.flipped_from_sha256_prefix = read.pointer.active_sha256_prefix.clone();
    }
    let mut block = successor(before, &next);
    (block.record, block.snapshot_id, block.lease) = (None, None, None);
    block.flip_id = event.as_ref().and_then(|event| event.flip_id).unwrap_or(block.flip_id);
    block.event = event;
    next.pstore = Some(block);
    next
}

/// The short name of an archive that nobody ever stores.
const NOTHING: &str = "000000000000";

/// The pointer before the first snapshot. Its keys are well-formed and name objects that do not
/// exist: a program that knows only the contract asks for them, is told so, and starts afresh.
pub(super) fn empty(lineage: &Lineage) -> Pointer {
    Pointer {
        version: 1,
        active_sha256_prefix: String::new(),
        active_archive_key: layout::archive(lineage, NOTHING),
        active_manifest_key: layout::manifest(lineage, NOTHING),
        flipped_at_ms: 0,
        flipped_from_sha256_prefix: String::new(),
        pstore: None,
        unknown: Unknown::new(),
    }
}

/// The block of `next`, with everything that does not change. A block that is not bound is
/// somebody else's business: nothing of it is kept.
fn successor(before: Option<&VersionedPointer>, next: &Pointer) -> Block {
    let old = before.and_then(|read| read.pointer.block());
    let mut recent = old.map_or_else(Vec::new, |old| {
        let mut recent = old.recent.clone();
        recent.push(old.flip_id);
        recent
    });
    recent.drain(..recent.len().saturating_sub(RECENT));
    Block {
        v: BLOCK_VERSION,
        writer: WRITER.to_owned(),
        bind: next.binding(),
        record: old.and_then(|old| old.record),
        snapshot_id: old.and_then(|old| old.snapshot_id),
        flip_id: new_flip_id(),
        recent,
        lease: old.and_then(|old| old.lease.clone()),
        event: old.and_then(|old| old.event.clone()),
        contract_only_seen: before.is_some_and(|read| read.pointer.contract_only_seen()),
        unknown: old.map_or_else(Unknown::new, |old| old.unknown.clone()),
    }
}
