//! `history` follows the chain of snapshots that led to one.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use store::{
    format::record::{CapturedBy, Mode, Reason, Record, State},
    id::{RecordId, SnapshotId},
    name::Lineage,
    ops::read::history::{self, End},
};

use crate::{
    Engine,
    failure::Failure,
    names::SnapshotChoice,
    outcome::{CapturedByFields, LineageFields, Outcome},
};

const PREFIX_CHARS: usize = 12;

/// Asks for the snapshots that led to one.
#[derive(Clone, Debug)]
pub struct HistoryRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
}

/// A snapshot in a chain.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistorySnapshot {
    /// The snapshot's id.
    pub snapshot_id: Option<SnapshotId>,
    /// The snapshot's record.
    pub record: RecordId,
    /// The record that it was captured on top of.
    pub parent: Option<RecordId>,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// Whether it is there, is being deleted, or was deleted.
    #[schemars(schema_with = "states")]
    pub state: State,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The run and host that captured it.
    #[schemars(with = "CapturedByFields")]
    pub captured_by: CapturedBy,
    /// The bytes of all its files.
    pub uncompressed_size_bytes: u64,
    /// The bytes of the chunks that were new with it.
    pub new_bytes: u64,
    /// The bytes that were stored for it.
    pub stored_bytes: u64,
    /// Whether Chrome was running.
    pub mode: Mode,
    /// Why it was taken.
    pub reason: Reason,
    /// The labels that it was given.
    pub labels: BTreeMap<String, String>,
    /// The notes that it was given.
    pub notes: String,
}

/// The words for a chain's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HistoryEndReason {
    /// The last snapshot of the chain is the first of its profile.
    First,
    /// The one before is an archive of another program.
    Foreign,
    /// The one before was deleted.
    Deleted,
    /// The record of the one before cannot be read.
    Unreadable,
    /// The one before was in the chain already.
    Cycle,
}

/// Why a chain goes no further back.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryEnd {
    /// The reason, in a word.
    pub reason: HistoryEndReason,
    /// The record that came before, if it is known.
    pub record: Option<RecordId>,
    /// The first digits of the id of the snapshot that came before, if they are known.
    pub sha256_prefix: Option<String>,
    /// The reason, in a sentence.
    pub message: String,
}

/// The snapshots that led to one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HistoryOutcome {
    /// The profile of the snapshots.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The snapshots, each captured on top of the next.
    pub snapshots: Vec<HistorySnapshot>,
    /// Why the chain goes no further back.
    pub end: HistoryEnd,
}

impl Outcome for HistoryOutcome {}

impl Engine {
    /// Follows the chain of snapshots that led to one.
    #[crate::boxed]
    pub async fn history(&self, request: &HistoryRequest) -> Result<HistoryOutcome, Failure> {
        let reference = request.snapshot.reference()?;
        let (tenant, lineage) = self.lineage(&request.snapshot.lineage()).await?;
        let start = self.resolve_snapshot(&tenant, &lineage, reference).await?;
        let history = history::history(&tenant, &lineage, start).await?;
        Ok(HistoryOutcome {
            lineage: (&lineage).into(),
            snapshots: history.records.into_iter().map(snapshot).collect(),
            end: end(&lineage, &history.end),
        })
    }
}

fn states(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["live", "trashed", "tombstone"] })
}

fn snapshot(record: Record) -> HistorySnapshot {
    HistorySnapshot {
        snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
        record: record.record,
        parent: record.parent,
        sha256_prefix: record.sha256_prefix(),
        state: record.state,
        captured_at_ms: record.captured_at_ms,
        uncompressed_size_bytes: record.uncompressed_size_bytes,
        new_bytes: record.counts.new_bytes,
        stored_bytes: record.counts.stored_bytes,
        captured_by: record.captured_by,
        mode: record.mode,
        reason: record.reason,
        labels: record.labels,
        notes: record.notes,
    }
}

fn end(lineage: &Lineage, end: &End) -> HistoryEnd {
    let (reason, record, sha256) = match end {
        End::First => (HistoryEndReason::First, None, None),
        End::Foreign { sha256 } => (HistoryEndReason::Foreign, None, Some(sha256)),
        End::Deleted { record, sha256 } => (HistoryEndReason::Deleted, Some(*record), Some(sha256)),
        End::Unreadable { record, sha256, .. } => (HistoryEndReason::Unreadable, Some(*record), Some(sha256)),
        End::Cycle { record } => (HistoryEndReason::Cycle, Some(*record), None),
    };
    HistoryEnd {
        reason,
        record,
        sha256_prefix: sha256.map(|sha| prefix(sha)),
        message: message(lineage, end),
    }
}

fn message(lineage: &Lineage, end: &End) -> String {
    match end {
        End::First => format!("nothing came before it: it is the first snapshot of {lineage}"),
        End::Foreign { sha256 } => {
            format!("before it came {}, an archive of another program", prefix(sha256))
        }
        End::Deleted { sha256, .. } => format!("before it came {}, which was deleted", prefix(sha256)),
        End::Unreadable { sha256, reason, .. } => {
            format!("before it came {}, which cannot be read: {reason}", prefix(sha256))
        }
        End::Cycle { record } => format!("before it comes record {record} again, which is no history"),
    }
}

fn prefix(sha256: &str) -> String {
    sha256.chars().take(PREFIX_CHARS).collect()
}
