//! `request` holds what can be asked of a workspace. Every request names the workspace by its directory.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::name::ProfileName;

/// Makes a directory a workspace, or goes on with one, and watches it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StartRequest {
    /// The directory.
    pub directory: PathBuf,
    /// The profile that the checkpoints are stored under, as `TENANT/PROFILE`; a workspace that was started before
    /// knows it.
    #[schemars(with = "Option<String>")]
    pub profile: Option<ProfileName>,
    /// How many slots the ring of automatic checkpoints has; as the settings say if it is not said.
    #[serde(default)]
    pub auto_max: Option<u64>,
    /// How many named checkpoints there can be.
    #[serde(default)]
    pub manual_max: Option<u64>,
    /// Seconds between automatic checkpoints.
    #[serde(default)]
    pub auto_interval: Option<u64>,
    /// Leave out what `.gitignore` and `.pstoreignore` say; a workspace that was started so stays so.
    #[serde(default)]
    pub ignore_files: bool,
    /// Take the first checkpoint, and watch nothing: checkpoints are taken when they are asked for.
    #[serde(default)]
    pub without_watcher: bool,
}

/// Ends the watcher of a workspace. Its checkpoints stay.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StopRequest {
    /// The directory.
    pub directory: PathBuf,
}

/// Asks how a workspace is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatusRequest {
    /// The directory.
    pub directory: PathBuf,
}

/// What led to a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Somebody asked for it.
    #[default]
    Manual,
    /// A run of the agent begins.
    RunStart,
    /// A run of the agent has ended.
    RunEnd,
    /// The agent is about to do something.
    BeforeAction,
    /// The agent has done something.
    AfterAction,
    /// The time between automatic checkpoints is over.
    Interval,
    /// A revert is about to change files.
    BeforeRestore,
}

impl Trigger {
    /// Its name in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Manual => "manual",
            Self::RunStart => "run_start",
            Self::RunEnd => "run_end",
            Self::BeforeAction => "before_action",
            Self::AfterAction => "after_action",
            Self::Interval => "interval",
            Self::BeforeRestore => "before_restore",
        }
    }
}

/// Takes a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CheckpointRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// A name of its own among the named checkpoints. With [`Trigger::Manual`] the checkpoint is kept until it is
    /// deleted, whether it has a name or not; with another trigger it goes into the ring and must have none.
    #[serde(default)]
    pub name: Option<String>,
    /// What led to it.
    #[serde(default)]
    pub trigger: Trigger,
    /// Why, in the agent's words.
    #[serde(default)]
    pub description: String,
    /// The run of the agent.
    #[serde(default)]
    pub run_id: String,
}

impl CheckpointRequest {
    /// A checkpoint of `directory` that is kept until it is deleted.
    pub fn manual(directory: PathBuf, name: Option<String>) -> Self {
        Self { directory, name, trigger: Trigger::Manual, description: String::new(), run_id: String::new() }
    }
}

/// Asks for the checkpoints.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ListRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
}

/// Asks what differs between a checkpoint and the directory as it is now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChangesRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// The checkpoint: `cp-N`, `N` or a name; the newest if it is not said.
    #[serde(default)]
    pub since: Option<String>,
    /// Only this file, or what is below this folder.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// Skip so many of the changes.
    #[serde(default)]
    pub offset: u64,
    /// Tell so many of them at most; all if it is not said. The totals count all.
    #[serde(default)]
    pub limit: Option<u64>,
}

/// Asks how the text of one file differs between a checkpoint and now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WorkspaceDiffRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// The file, within the workspace.
    pub path: PathBuf,
    /// The checkpoint; the newest if it is not said.
    #[serde(default)]
    pub since: Option<String>,
    /// Lines around each change.
    #[serde(default)]
    pub context: Option<u64>,
}

/// Gives files back as a checkpoint has them.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RevertRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// A file or a folder, within the workspace; the whole workspace if it is not said.
    #[serde(default)]
    pub path: Option<PathBuf>,
    /// The checkpoint: `cp-N`, `N` or a name; the newest that contains the path if it is not said.
    #[serde(default)]
    pub to: Option<String>,
    /// The workspace whose checkpoint it is, if it is another.
    #[serde(default)]
    pub of: Option<PathBuf>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub preview: bool,
}

/// Deletes a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct DeleteCheckpointRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// The checkpoint: `cp-N`, `N` or a name.
    pub checkpoint: String,
}

/// Asks how a path was at every checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PathHistoryRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// The path, within the workspace.
    pub path: PathBuf,
}

/// Makes a workspace of its own from a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForkRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// The directory to make, or a `--fork` mount of the checkpoint.
    pub target: PathBuf,
    /// The checkpoint: `cp-N`, `N` or a name; the newest if it is not said.
    #[serde(default)]
    pub from: Option<String>,
    /// The profile of the new workspace, of the same tenant; named after the target if it is not said.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub profile: Option<ProfileName>,
}

/// Makes a workspace what a fork of it has become.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PromoteRequest {
    /// The directory of the fork.
    pub fork: PathBuf,
    /// The directory of the workspace that becomes like it.
    pub directory: PathBuf,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub preview: bool,
}

/// Asks for what happened to files.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EventsRequest {
    /// The directory of the workspace.
    pub directory: PathBuf,
    /// Only events of this checkpoint's range.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// Only events after this one.
    #[serde(default)]
    pub after: u64,
    /// So many at most; all if it is not said.
    #[serde(default)]
    pub limit: Option<u64>,
}
