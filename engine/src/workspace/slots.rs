//! `Slots` numbers the checkpoints of a workspace: the ring first, then those that are kept until they are deleted.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use store::{
    ErrorKind,
    catalog::clock,
    format::event::Actor,
    id::{RecordId, SnapshotId},
};

use super::{
    outcome::{CheckpointFields, EventCounts, Origin},
    request::Trigger,
};
use crate::failure::Failure;

/// A checkpoint in its slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Counts checkpoints: later ones have larger numbers.
    pub serial: u64,
    pub slot: u64,
    pub origin: Origin,
    pub name: Option<String>,
    /// When it began: what was changed since may not be in it.
    pub began_ms: u64,
    pub taken_ms: u64,
    pub record: RecordId,
    pub snapshot_id: SnapshotId,
    pub sha256_prefix: String,
    /// The tag of the record that keeps it.
    pub tag: String,
    pub trigger: Trigger,
    pub description: String,
    pub run_id: String,
    pub files_count: u64,
    pub bytes: u64,
    /// What was wrong when it was taken.
    #[serde(default)]
    pub warning: Option<String>,
}

/// A snapshot whose slot holds another now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ending {
    pub record: RecordId,
    pub tag: String,
}

/// The slots that hold a checkpoint, and what comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Slots {
    pub kept: BTreeMap<u64, Kept>,
    pub next_auto_slot: u64,
    pub last_serial: u64,
    /// When the last automatic checkpoint was taken, or found to be no other than the one before.
    pub last_auto_ms: u64,
    /// When the last one that a trigger asked for was taken, or found to be no other than the one before.
    #[serde(default)]
    pub last_trigger_ms: u64,
    /// The record that later checkpoints are compared with.
    pub last_record: Option<RecordId>,
    /// The number of the row in `session.db` that tells of the checkpoint that was taken last.
    #[serde(default)]
    pub last_row: Option<u64>,
    /// What is to be ended in the store.
    pub ending: Vec<Ending>,
    pub failed: u64,
    pub last_failure: Option<String>,
}

impl Slots {
    /// The checkpoint that was taken last.
    pub fn newest(&self) -> Option<&Kept> {
        self.kept.values().max_by_key(|kept| kept.serial)
    }

    /// All of them, the newest first.
    pub fn newest_first(&self) -> Vec<&Kept> {
        let mut all: Vec<&Kept> = self.kept.values().collect();
        all.sort_by_key(|kept| std::cmp::Reverse(kept.serial));
        all
    }

    /// A checkpoint by `cp-N`, `N`, or its name; of several with one name, the newest.
    pub fn find(&self, wanted: &str) -> Option<&Kept> {
        let number = wanted.strip_prefix("cp-").unwrap_or(wanted);
        if let Ok(slot) = number.parse::<u64>()
            && let Some(kept) = self.kept.get(&slot)
        {
            return Some(kept);
        }
        self.newest_first().into_iter().find(|kept| kept.name.as_deref() == Some(wanted))
    }

    /// How many of a pool hold a checkpoint.
    pub fn used(&self, origin: Origin) -> u64 {
        self.kept.values().filter(|kept| kept.origin == origin).count() as u64
    }

    /// The slot of the next automatic checkpoint, which must not take the place of `spared`.
    pub fn next_auto(&self, auto_max: u64, spared: Option<u64>) -> u64 {
        let next = self.next_auto_slot % auto_max.max(1);
        match spared {
            Some(spared) if spared == next && auto_max > 1 => (next + 1) % auto_max,
            _ => next,
        }
    }

    /// The first free slot for one that is kept.
    pub fn next_manual(&self, auto_max: u64, manual_max: u64) -> Option<u64> {
        (auto_max..auto_max + manual_max).find(|slot| !self.kept.contains_key(slot))
    }

    /// Whether another slot needs the tag of this one's record.
    pub fn has_record(&self, record: RecordId) -> bool {
        self.kept.values().any(|kept| kept.record == record)
    }
}

impl Kept {
    /// As documents have it.
    pub fn fields(&self, events: EventCounts) -> CheckpointFields {
        CheckpointFields {
            slot: self.slot,
            timestamp: iso(self.taken_ms),
            epoch_secs: self.taken_ms / 1000,
            epoch_millis: self.taken_ms,
            origin: self.origin,
            name: self.name.clone(),
            hash: (self.origin == Origin::Manual).then(|| self.snapshot_id.to_string()),
            checkpoint: format!("cp-{}", self.slot),
            trigger: self.trigger,
            description: self.description.clone(),
            run_id: self.run_id.clone(),
            files_count: self.files_count,
            bytes: self.bytes,
            events,
            sha256_prefix: self.sha256_prefix.clone(),
            record: self.record.to_string(),
            warning: self.warning.clone(),
        }
    }
}

/// The words of a name that a checkpoint may have.
pub(crate) fn check_name(name: &str) -> Result<(), Failure> {
    let usage = |why: &str| {
        Err(Failure::usage(format!("{name:?} is no name for a checkpoint: {why}"))
            .hint("for example --name before-refactor"))
    };
    if store::ops::tag::check_name(name).is_err() {
        return usage("it takes 1 to 64 of A-Z a-z 0-9 . _ -");
    }
    let number = name.strip_prefix("cp-").unwrap_or(name);
    if number.bytes().all(|byte| byte.is_ascii_digit()) {
        return usage("it would pass for the number of a slot");
    }
    if [store::name::LATEST, store::name::WIP].contains(&name) {
        return usage("it is a word of its own for snapshots");
    }
    Ok(())
}

/// A time as ISO 8601 writes it, in UTC.
pub(crate) fn iso(unix_ms: u64) -> String {
    let seconds = store::error::utc(unix_ms).replace(' ', "T");
    format!("{seconds}.{:03}Z", unix_ms % 1000)
}

/// Now, by this host's clock.
pub(crate) fn now_ms() -> u64 {
    clock::unix_ms()
}

/// The named pool has no free slot.
pub(crate) fn full(directory: &std::path::Path, manual_max: u64) -> Failure {
    let shown = directory.display();
    Failure::new(
        ErrorKind::QuotaExceeded,
        format!("{shown} has {manual_max} named checkpoints, and no slot for another"),
    )
    .hint(format!(
        "`pstore workspace list {shown}` shows them; `pstore workspace delete {shown} cp-N` makes room"
    ))
}

/// In whose name checkpoints are stored.
pub(crate) fn actor_of(actor: Actor, run_id: &str) -> Actor {
    match run_id.is_empty() {
        true => actor,
        false => Actor { run_id: run_id.to_owned(), ..actor },
    }
}
