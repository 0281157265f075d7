//! `rollback` makes another snapshot the current one.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    catalog::{lineage_handle::LineageHandle, pointer::Flip},
    format::{event::EventKind, manifest::Manifest, pointer::Target, record::Record},
    id::{RecordId, SnapshotId},
    name::Lineage,
    ops::pointer_move::{self, How},
};

use crate::{
    Engine,
    failure::Failure,
    foreign::IntendedFlip,
    names::{ActorName, SnapshotChoice},
    outcome::{LineageFields, Outcome},
    text::reason,
};

/// Moves the pointer to another snapshot.
#[derive(Clone, Debug)]
pub struct RollbackRequest {
    /// The snapshot to be the current one.
    pub snapshot: SnapshotChoice,
    /// The actor.
    pub actor: ActorName,
    /// Why; it is written into the log.
    pub reason: String,
    /// Do it; otherwise only say what would change.
    pub confirm: bool,
    /// Even while somebody holds the lock, and even over a pointer that is damaged.
    pub force: bool,
    /// The `active_sha256_prefix` that the pointer must have until it is moved; any if it is not said.
    pub only_from: Option<String>,
}

/// The outcome for the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rollback {
    /// It would be moved.
    Planned,
    /// It was moved.
    RolledBack,
    /// It already names the snapshot.
    Unchanged,
}

/// A snapshot that a pointer names, or is to name, for people.
#[derive(Clone, Debug)]
pub enum PointedAt {
    /// Nothing.
    Nothing,
    /// Nobody knows: the pointer is damaged.
    Damaged,
    /// A snapshot whose record cannot be read.
    Unreadable,
    /// An archive of another program of which nothing is known.
    Unknown,
    /// One of our snapshots.
    Snapshot {
        /// When it was captured.
        captured_at_ms: u64,
        /// The bytes of its files.
        size_bytes: u64,
        /// Why it was captured.
        reason: String,
    },
    /// An archive of another program.
    Archive {
        /// When it was captured.
        captured_at_ms: u64,
        /// The bytes of its files.
        size_bytes: u64,
    },
}

/// The pointer before and after.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RollbackOutcome {
    /// The outcome for the pointer.
    pub outcome: Rollback,
    /// The profile of the pointer.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The snapshot that is current now; empty if there is none.
    pub active_sha256_prefix: String,
    /// The snapshot that was current before; empty if there was none.
    pub flipped_from_sha256_prefix: String,
    /// The snapshot that was asked for.
    pub to_sha256_prefix: Option<String>,
    /// Its record; none if it is an archive that is not taken in yet.
    pub record: Option<RecordId>,
    /// Its id; none if it is an archive that is not taken in yet.
    pub snapshot_id: Option<SnapshotId>,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// Why the pointer is moved.
    pub reason: String,
    /// The snapshot that the pointer named before.
    #[serde(skip)]
    pub from: PointedAt,
    /// The snapshot that it shall name.
    #[serde(skip)]
    pub to: PointedAt,
}

impl Outcome for RollbackOutcome {}

impl Engine {
    /// Makes another snapshot the current one.
    #[crate::boxed]
    pub async fn rollback(&self, request: &RollbackRequest) -> Result<RollbackOutcome, Failure> {
        let reason = reason::checked(&request.reason)?;
        let reference = request.snapshot.required("rollback")?;
        let (tenant, lineage) = self.lineage_to_change(&request.snapshot.lineage()).await?;
        let meant = self.named_snapshot(&tenant, &lineage, Some(reference)).await?;
        let handle = LineageHandle::new(tenant.clone(), lineage.clone(), self.actor(&request.actor));
        let (pointer, is_damaged) = self.pointer_to_move(&handle, request.force).await?;
        let active = pointer.as_ref().map_or("", |pointer| pointer.active_sha256_prefix.as_str()).to_owned();
        if let Some(expected) = request.only_from.as_ref().filter(|expected| **expected != active) {
            return Err(handle.moved_from(expected).into());
        }
        let target = match meant {
            IntendedFlip::Ours(record) => *record,
            IntendedFlip::Anothers(manifest) if !request.confirm => {
                return Ok(of_archive(&lineage, &manifest, active, reason));
            }
            IntendedFlip::Anothers(manifest) => self.take_in(&tenant, &lineage, *manifest).await?,
        };
        let is_ours = matches!(pointer.as_ref().map(|pointer| pointer.target()), Some(Target::Record(_)));
        let from = match is_ours {
            true => self.resolve_snapshot(&tenant, &lineage, None).await.ok(),
            false => None,
        };
        let from = match &from {
            _ if is_damaged => PointedAt::Damaged,
            Some(record) => PointedAt::from(record),
            None if is_ours => PointedAt::Unreadable,
            None if active.is_empty() => PointedAt::Nothing,
            None => PointedAt::Unknown,
        };
        let moved = |outcome: Rollback, to: &Record| {
            of_record(outcome, &lineage, (&active, from.clone()), to, &reason)
        };
        let (job, progress) = (self.publish_policy(&lineage.name.tenant), self.progress());
        let already = pointer.as_ref().filter(|pointer| pointer.target() == Target::Record(target.record));
        if let Some(pointer) = already {
            let target = match request.confirm {
                true => {
                    let seen = pointer.contract_only_seen();
                    pointer_move::named_already(&handle, seen, target, Some(&job), progress).await?
                }
                false => target,
            };
            return Ok(moved(Rollback::Unchanged, &target));
        }
        if !request.confirm {
            return Ok(moved(Rollback::Planned, &target));
        }
        let how = How { reason: reason.clone(), force: request.force, only_from: request.only_from.clone() };
        let (target, flip) =
            pointer_move::point(&handle, target, EventKind::Rollback, how, &job, progress).await?;
        Ok(match flip {
            Flip::Flipped { .. } => moved(Rollback::RolledBack, &target),
            // Somebody else moved it there meanwhile.
            Flip::Unchanged => moved(Rollback::Unchanged, &target),
        })
    }
}

fn of_record(
    outcome: Rollback,
    lineage: &Lineage,
    (active, from): (&str, PointedAt),
    to: &Record,
    reason: &str,
) -> RollbackOutcome {
    let prefix = to.sha256_prefix();
    RollbackOutcome {
        outcome,
        lineage: lineage.into(),
        active_sha256_prefix: if outcome == Rollback::Planned { active.to_owned() } else { prefix.clone() },
        flipped_from_sha256_prefix: active.to_owned(),
        to_sha256_prefix: Some(prefix),
        record: Some(to.record),
        snapshot_id: to.content.as_ref().map(|content| content.snapshot_id),
        captured_at_ms: to.captured_at_ms,
        reason: reason.to_owned(),
        from,
        to: PointedAt::from(to),
    }
}

/// A rollback to an archive that is not taken in yet.
fn of_archive(lineage: &Lineage, manifest: &Manifest, active: String, reason: String) -> RollbackOutcome {
    RollbackOutcome {
        outcome: Rollback::Planned,
        lineage: lineage.into(),
        flipped_from_sha256_prefix: active.clone(),
        from: if active.is_empty() { PointedAt::Nothing } else { PointedAt::Unknown },
        active_sha256_prefix: active,
        to_sha256_prefix: Some(manifest.archive_sha256.prefix()),
        record: None,
        snapshot_id: None,
        captured_at_ms: manifest.captured_at_ms,
        reason,
        to: PointedAt::Archive {
            captured_at_ms: manifest.captured_at_ms,
            size_bytes: manifest.uncompressed_size_bytes,
        },
    }
}

impl From<&Record> for PointedAt {
    fn from(record: &Record) -> Self {
        Self::Snapshot {
            captured_at_ms: record.captured_at_ms,
            size_bytes: record.uncompressed_size_bytes,
            reason: record.reason.as_str().to_owned(),
        }
    }
}
