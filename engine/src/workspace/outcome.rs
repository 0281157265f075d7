//! `outcome` holds what a workspace answers, each a document.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::name::{Profile, Tenant};

use super::request::Trigger;
use crate::outcome::Outcome;

/// The pool of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// The ring: the oldest makes room for the next.
    Auto,
    /// Kept until it is deleted.
    Manual,
}

impl Origin {
    /// Its name in documents and in `session.db`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Manual => "manual",
        }
    }
}

/// How many events of each kind there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventCounts {
    /// Files that appeared.
    pub created: u64,
    /// Files that were written to.
    pub modified: u64,
    /// Files that went.
    pub deleted: u64,
    /// Files that a revert gave back.
    pub restored: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointFields {
    /// Its slot: those of the ring come first.
    pub slot: u64,
    /// When it was taken, in UTC as ISO 8601.
    pub timestamp: String,
    /// The same in seconds since 1970.
    pub epoch_secs: u64,
    /// The same in milliseconds.
    pub epoch_millis: u64,
    /// Its pool.
    pub origin: Origin,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Of one that is kept until it is deleted, the digest of its tree, which is the snapshot's id.
    pub hash: Option<String>,
    /// What to call it in other requests: `cp-` and the slot.
    pub checkpoint: String,
    /// What led to it.
    pub trigger: Trigger,
    /// Why, in the words of who asked for it.
    pub description: String,
    /// The run of the agent.
    pub run_id: String,
    /// Files in it.
    pub files_count: u64,
    /// The bytes of its files.
    pub bytes: u64,
    /// The events of its range: since the automatic checkpoint before it, or since the workspace began.
    pub events: EventCounts,
    /// The snapshot that holds it.
    pub sha256_prefix: String,
    /// The record of the snapshot.
    pub record: String,
    /// What was wrong when it was taken, if something was.
    pub warning: Option<String>,
}

/// How checkpoints of a workspace are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// It is a mount of ours: its daemon ends an epoch and stores what has changed since the checkpoint before. Writers wait
    /// only while the epoch ends.
    Mount,
    /// As `directory`, but files that somebody writes to all the time are cloned first.
    Reflink,
    /// Unchanged files are looked at, and changed ones are read.
    Directory,
}

impl Method {
    /// Its name in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Reflink => "reflink",
            Self::Directory => "directory",
        }
    }
}

/// Whether somebody watches a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WatchState {
    /// A process watches it.
    Watched,
    /// Nobody watches it. Every request works all the same.
    Stopped,
}

/// A workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceOutcome {
    /// The directory.
    pub directory: PathBuf,
    /// The tenant of its checkpoints.
    pub tenant_id: Tenant,
    /// The profile of its checkpoints.
    pub profile_id: Profile,
    /// The store of its checkpoints.
    pub store: String,
    /// Whether somebody watches it.
    pub state: WatchState,
    /// The process that watches it.
    pub watcher_pid: Option<u32>,
    /// How checkpoints are taken.
    pub method: Method,
    /// Slots of the ring.
    pub auto_max: u64,
    /// Slots for checkpoints that are kept until they are deleted.
    pub manual_max: u64,
    /// Seconds between automatic checkpoints.
    pub auto_interval: u64,
    /// Slots of the ring that hold a checkpoint.
    pub auto_used: u64,
    /// Named slots that hold one.
    pub manual_used: u64,
    /// Checkpoints that were asked for by a trigger, or were due, and failed.
    pub failed_checkpoints: u64,
    /// Why the last of them failed.
    pub last_failure: Option<String>,
    /// Whether checkpoints leave out what `.gitignore` and `.pstoreignore` say.
    pub ignore_files: bool,
    /// The database of its events.
    pub session_db: PathBuf,
}

impl Outcome for WorkspaceOutcome {}

/// What came of the request for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointResult {
    /// It was taken.
    Created,
    /// Nothing has changed since the newest checkpoint, which stands for it.
    Unchanged,
    /// A trigger took one less than an interval ago.
    TooSoon,
    /// The watcher takes it.
    HandedOver,
    /// `workspace.triggers` does not name this trigger.
    SwitchedOff,
    /// It failed, and the agent may go on: that is told in `warning`, and counted.
    Failed,
}

/// A checkpoint that was asked for.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointOutcome {
    /// What came of it.
    pub outcome: CheckpointResult,
    /// The checkpoint; of one that is unchanged, the newest there is.
    pub checkpoint: Option<CheckpointFields>,
    /// How it was taken.
    pub method: Method,
    /// Files that were read for it.
    pub read_files: u64,
    /// Bytes that it added to the store.
    pub stored_bytes: u64,
    /// How long it took.
    pub elapsed_ms: u64,
    /// How long writers waited, on a mount.
    pub pause_ms: Option<f64>,
    /// What is wrong, though the agent may go on.
    pub warning: Option<String>,
}

impl Outcome for CheckpointOutcome {}

/// The checkpoints of a workspace.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointsOutcome {
    /// The directory.
    pub directory: PathBuf,
    /// Slots of the ring.
    pub auto_max: u64,
    /// Slots for checkpoints that are kept until they are deleted.
    pub manual_max: u64,
    /// The checkpoints, the newest first.
    pub checkpoints: Vec<CheckpointFields>,
}

impl Outcome for CheckpointsOutcome {}

/// What happened to a path since a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// The checkpoint does not have it.
    Created,
    /// Its content differs, or the place that a link leads to, or what it is.
    Modified,
    /// It is not there any more.
    Deleted,
    /// Nothing but its mode differs, or the time of a file.
    Metadata,
}

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, a socket or a device, of which no content is kept.
    Special,
}

/// A path that differs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceChange {
    /// In what way.
    pub change: ChangeKind,
    /// The path within the workspace.
    pub path: String,
    /// The bytes of the path, if they are no text.
    pub path_hex: Option<String>,
    /// What it is now, or was.
    pub kind: PathKind,
    /// Its size at the checkpoint.
    pub size_before: Option<u64>,
    /// Its size now.
    pub size_after: Option<u64>,
}

/// How many paths differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeTotals {
    /// Paths that appeared.
    pub created: u64,
    /// Paths with other content.
    pub modified: u64,
    /// Paths that went.
    pub deleted: u64,
    /// Paths with another mode or time alone.
    pub metadata: u64,
}

impl ChangeTotals {
    /// All of them.
    pub fn all(&self) -> u64 {
        self.created + self.modified + self.deleted + self.metadata
    }
}

/// What differs between a checkpoint and now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangesOutcome {
    /// The checkpoint.
    pub since: CheckpointFields,
    /// How many paths differ.
    pub totals: ChangeTotals,
    /// The paths that were asked for, in order.
    pub changes: Vec<WorkspaceChange>,
    /// Where the next page begins, if there is one.
    pub next_offset: Option<u64>,
}

impl Outcome for ChangesOutcome {}

/// How one file differs.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceDiffOutcome {
    /// The checkpoint.
    pub since: CheckpointFields,
    /// The path within the workspace.
    pub path: String,
    /// In what way it differs, if it does.
    pub change: Option<ChangeKind>,
    /// Its size at the checkpoint.
    pub size_before: Option<u64>,
    /// Its size now.
    pub size_after: Option<u64>,
    /// Whether both are text; else there is no diff.
    pub is_text: bool,
    /// Lines that were added.
    pub added_lines: u64,
    /// Lines that were removed.
    pub removed_lines: u64,
    /// The unified diff, empty if nothing differs or it is no text.
    pub diff: String,
}

impl Outcome for WorkspaceDiffOutcome {}

/// What a revert does with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RevertAction {
    /// It is as the checkpoint has it.
    Restored,
    /// The checkpoint does not have it, so it goes.
    Removed,
}

/// A path that a revert changes.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevertedPath {
    /// What is done.
    pub action: RevertAction,
    /// The path within the workspace.
    pub path: String,
    /// The bytes of the path, if they are no text.
    pub path_hex: Option<String>,
    /// What it is at the checkpoint, or what goes.
    pub kind: PathKind,
    /// Its size at the checkpoint.
    pub size: Option<u64>,
}

/// What a revert has done, or would do.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevertOutcome {
    /// Whether it was done; a preview does nothing.
    pub reverted: bool,
    /// The checkpoint that the files are from.
    pub checkpoint: CheckpointFields,
    /// The checkpoint of what was overwritten; with it, the revert can be reverted.
    pub before: Option<CheckpointFields>,
    /// Paths that were given back.
    pub restored: u64,
    /// Paths that were removed.
    pub removed: u64,
    /// The paths, in order.
    pub paths: Vec<RevertedPath>,
}

impl Outcome for RevertOutcome {}

/// A checkpoint that was deleted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeletedCheckpointOutcome {
    /// The checkpoint.
    pub deleted: CheckpointFields,
    /// Whether the snapshot went, too: others may hold the same tree, or it is the newest.
    pub snapshot_deleted: bool,
}

impl Outcome for DeletedCheckpointOutcome {}

/// How a path is at a checkpoint, compared with the checkpoint before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// It is not there.
    Absent,
    /// It appeared, or is there at the first checkpoint.
    Created,
    /// It is another than before.
    Modified,
    /// It is as before.
    Unchanged,
    /// It was there before.
    Deleted,
}

/// A path at one checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathVersion {
    /// The checkpoint; none for the directory as it is now.
    pub checkpoint: Option<CheckpointFields>,
    /// How it is there.
    pub state: PathState,
    /// What it is.
    pub kind: Option<PathKind>,
    /// Its size.
    pub size: Option<u64>,
    /// When it was changed last, in milliseconds since 1970.
    pub mtime_ms: Option<i64>,
}

/// The states of a path.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathHistoryOutcome {
    /// The path within the workspace.
    pub path: String,
    /// The states, the newest first; the first is that of now.
    pub versions: Vec<PathVersion>,
    /// What happened to it, the newest first.
    pub events: Vec<FileEvent>,
}

impl Outcome for PathHistoryOutcome {}

/// A workspace that was made of a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForkOutcome {
    /// The checkpoint.
    pub from: CheckpointFields,
    /// The new workspace, which nobody watches yet.
    #[serde(flatten)]
    pub workspace: WorkspaceOutcome,
    /// Files that it has.
    pub files: u64,
    /// The bytes of them.
    pub bytes: u64,
    /// Whether it is a mount of the checkpoint, for which nothing was written.
    pub mounted: bool,
}

impl Outcome for ForkOutcome {}

/// What can happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileAction {
    /// It appeared.
    Created,
    /// It was written to.
    Modified,
    /// It went.
    Deleted,
    /// A revert gave it back, or took it away.
    Restored,
}

impl FileAction {
    /// Its name in `session.db`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Restored => "restored",
        }
    }
}

/// Something that happened to a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEvent {
    /// Its number.
    pub id: u64,
    /// When it was seen, in UTC as ISO 8601.
    pub timestamp: String,
    /// What happened.
    pub action: FileAction,
    /// The path within the workspace; of a restored file with the checkpoint that it is from.
    pub path: String,
    /// How large it is after that.
    pub size: Option<u64>,
}

/// What happened to files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventsOutcome {
    /// The database that they are in.
    pub session_db: PathBuf,
    /// How many there are of each kind, however many are told.
    pub counts: EventCounts,
    /// The events, the oldest first.
    pub events: Vec<FileEvent>,
    /// The last event of this page, if there are more.
    pub next_after: Option<u64>,
}

impl Outcome for EventsOutcome {}
