//! `workspace` defines the arguments of `pstore workspace` and `pstore checkpoint`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use engine::workspace::{
    ChangesRequest, CheckpointRequest, DeleteCheckpointRequest, EventsRequest, ForkRequest, ListRequest,
    PathHistoryRequest, PromoteRequest, RevertRequest, StartRequest, StatusRequest, StopRequest, Trigger,
};
use store::name::ProfileName;

/// Take checkpoints of a directory that an agent works in, and give files back
///
/// A ring of automatic checkpoints, and named ones that are kept until they are deleted.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Example:
  pstore workspace start ./project acme/agent-7
  pstore workspace changes ./project
  pstore workspace revert ./project src/main.py
  pstore workspace stop ./project"
)]
pub(crate) struct WorkspaceArgs {
    #[command(subcommand)]
    pub(crate) verb: WorkspaceVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceVerb {
    Start(WorkspaceStartArgs),
    Stop(WorkspaceStopArgs),
    Status(WorkspaceStatusArgs),
    List(WorkspaceListArgs),
    Changes(WorkspaceChangesArgs),
    Revert(WorkspaceRevertArgs),
    History(WorkspaceHistoryArgs),
    Delete(WorkspaceDeleteArgs),
    Fork(WorkspaceForkArgs),
    Promote(WorkspacePromoteArgs),
    Events(WorkspaceEventsArgs),
}

/// Make a directory a workspace, and watch it
///
/// Takes the first checkpoint, and returns when a process of its own watches. The pools are fixed at the first start.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace start ./project acme/agent-7
  pstore workspace start ./project acme/agent-7 --auto-max 20 --auto-interval 60")]
pub(crate) struct WorkspaceStartArgs {
    /// The directory
    pub(crate) directory: PathBuf,
    #[arg(
        value_name = "TENANT/PROFILE",
        help = "The profile of its checkpoints; one that was started before knows it"
    )]
    pub(crate) profile: Option<ProfileName>,
    /// Slots of the ring of automatic checkpoints [default: workspace.auto_max, 10]
    #[arg(long, value_name = "N")]
    pub(crate) auto_max: Option<u64>,
    /// Slots for checkpoints that are kept until they are deleted [default: workspace.manual_max, 12]
    #[arg(long, value_name = "N")]
    pub(crate) manual_max: Option<u64>,
    /// Seconds between automatic checkpoints [default: workspace.auto_interval, 300]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) auto_interval: Option<u64>,
    /// Leave out what .gitignore and .pstoreignore say; a revert never touches it
    #[arg(long)]
    pub(crate) ignore_files: bool,
    /// Start no process: checkpoints are taken when they are asked for
    #[arg(long)]
    pub(crate) no_watch: bool,
    /// Be that process
    #[arg(long, hide = true)]
    pub(crate) daemon: bool,
}

impl WorkspaceStartArgs {
    pub(crate) fn request(&self) -> StartRequest {
        StartRequest {
            directory: self.directory.clone(),
            profile: self.profile.clone(),
            auto_max: self.auto_max,
            manual_max: self.manual_max,
            auto_interval: self.auto_interval,
            ignore_files: self.ignore_files,
            without_watcher: self.no_watch,
        }
    }
}

/// End the process that watches a workspace
///
/// It stores what has changed first. The checkpoints stay, and every command works on.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace stop ./project")]
pub(crate) struct WorkspaceStopArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
}

impl WorkspaceStopArgs {
    pub(crate) fn request(&self) -> StopRequest {
        StopRequest { directory: self.directory.clone() }
    }
}

/// Show whether a workspace is watched, and its pools
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace status ./project")]
pub(crate) struct WorkspaceStatusArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
}

impl WorkspaceStatusArgs {
    pub(crate) fn request(&self) -> StatusRequest {
        StatusRequest { directory: self.directory.clone() }
    }
}

/// List the checkpoints of a workspace, the newest first
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace list ./project
  pstore workspace list ./project --json")]
pub(crate) struct WorkspaceListArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
}

impl WorkspaceListArgs {
    pub(crate) fn request(&self) -> ListRequest {
        ListRequest { directory: self.directory.clone() }
    }
}

/// Show what differs between a checkpoint and now
///
/// Prints a sign for each path: + created, M modified, - deleted, m only another mode or time.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace changes ./project
  pstore workspace changes ./project --since before-refactor
  pstore workspace changes ./project src --diff")]
pub(crate) struct WorkspaceChangesArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// Only this file or folder, from the top of the workspace
    pub(crate) path: Option<PathBuf>,
    /// The checkpoint: cp-N or its name [default: the newest]
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) since: Option<String>,
    /// Show the lines that differ in text files
    #[arg(long)]
    pub(crate) diff: bool,
    /// Show so many paths at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
    /// Skip so many paths
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) offset: u64,
}

impl WorkspaceChangesArgs {
    pub(crate) fn request(&self) -> ChangesRequest {
        ChangesRequest {
            directory: self.directory.clone(),
            since: self.since.clone(),
            path: self.path.clone(),
            offset: self.offset,
            limit: self.limit,
        }
    }
}

/// Give a file, a folder or all of a workspace back as a checkpoint has it
///
/// What is overwritten becomes a checkpoint first. Files that the checkpoint does not have are removed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace revert ./project src/main.py
  pstore workspace revert ./project src --to before-refactor
  pstore workspace revert ./project --all --to cp-3 --preview")]
pub(crate) struct WorkspaceRevertArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// The file or folder, from the top of the workspace
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pub(crate) path: Option<PathBuf>,
    /// The whole workspace
    #[arg(long)]
    pub(crate) all: bool,
    /// The checkpoint: cp-N or its name [default: the newest that has the path]
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) to: Option<String>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) preview: bool,
}

impl WorkspaceRevertArgs {
    pub(crate) fn request(&self) -> RevertRequest {
        RevertRequest {
            of: None,
            directory: self.directory.clone(),
            path: self.path.clone(),
            to: self.to.clone(),
            preview: self.preview,
        }
    }
}

/// Show how a path was at every checkpoint, and what happened to it
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace history ./project src/main.py")]
pub(crate) struct WorkspaceHistoryArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// The path, from the top of the workspace
    pub(crate) path: PathBuf,
}

impl WorkspaceHistoryArgs {
    pub(crate) fn request(&self) -> PathHistoryRequest {
        PathHistoryRequest { directory: self.directory.clone(), path: self.path.clone() }
    }
}

/// Delete a checkpoint
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace delete ./project before-refactor
  pstore workspace delete ./project cp-11")]
pub(crate) struct WorkspaceDeleteArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// The checkpoint: cp-N or its name
    pub(crate) checkpoint: String,
}

impl WorkspaceDeleteArgs {
    pub(crate) fn request(&self) -> DeleteCheckpointRequest {
        DeleteCheckpointRequest { directory: self.directory.clone(), checkpoint: self.checkpoint.clone() }
    }
}

/// Make a workspace of its own from a checkpoint
///
/// Writes the checkpoint to a new directory, which gets a profile of its own. The events up to there come along.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace fork ./project ./try-1
  pstore workspace fork ./project ./try-2 acme/agent-8 --from before-refactor")]
pub(crate) struct WorkspaceForkArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// The directory to make, or a --fork mount of the checkpoint
    pub(crate) target: PathBuf,
    #[arg(value_name = "TENANT/PROFILE", help = "The profile of the fork [default: named after both]")]
    pub(crate) profile: Option<ProfileName>,
    /// The checkpoint: cp-N or its name [default: the newest]
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) from: Option<String>,
}

impl WorkspaceForkArgs {
    pub(crate) fn request(&self) -> ForkRequest {
        ForkRequest {
            directory: self.directory.clone(),
            target: self.target.clone(),
            from: self.from.clone(),
            profile: self.profile.clone(),
        }
    }
}

/// Make a workspace what a fork of it has become
///
/// The fork gets a checkpoint, and what the workspace was is in `before-restore`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace promote ./try-2 ./project --preview
  pstore workspace promote ./try-2 ./project")]
pub(crate) struct WorkspacePromoteArgs {
    /// The directory of the fork
    pub(crate) fork: PathBuf,
    /// The directory of the workspace that becomes like it
    pub(crate) directory: PathBuf,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub(crate) preview: bool,
}

impl WorkspacePromoteArgs {
    pub(crate) fn request(&self) -> PromoteRequest {
        PromoteRequest { fork: self.fork.clone(), directory: self.directory.clone(), preview: self.preview }
    }
}

/// Show what happened to files
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore workspace events ./project
  pstore workspace events ./project --checkpoint cp-3
  pstore workspace events ./project --after 120 --limit 50")]
pub(crate) struct WorkspaceEventsArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// Only the events of this checkpoint's range: cp-N or its name
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) checkpoint: Option<String>,
    /// Only events after this number
    #[arg(long, value_name = "ID", default_value_t = 0, hide_default_value = true)]
    pub(crate) after: u64,
    /// Show so many at most
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<u64>,
}

impl WorkspaceEventsArgs {
    pub(crate) fn request(&self) -> EventsRequest {
        EventsRequest {
            directory: self.directory.clone(),
            checkpoint: self.checkpoint.clone(),
            after: self.after,
            limit: self.limit,
        }
    }
}

/// Take a checkpoint of a workspace
///
/// Without --trigger it is kept until it is deleted. With --trigger it goes into the ring, at most one per interval; the
/// watcher takes it while this returns, and whatever goes wrong is counted and does not fail.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore checkpoint ./project --name before-refactor
  pstore checkpoint ./project --trigger before_action --run-id run-42 --description 'edit main.py'")]
pub(crate) struct CheckpointArgs {
    /// The directory of the workspace
    pub(crate) directory: PathBuf,
    /// A name to find it by
    #[arg(long, value_name = "NAME", conflicts_with = "trigger")]
    pub(crate) name: Option<String>,
    /// What led to it
    #[arg(long, value_enum)]
    pub(crate) trigger: Option<TriggerArg>,
    /// The run of the agent
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    pub(crate) run_id: String,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) description: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum TriggerArg {
    /// Somebody asks for it; it is kept until it is deleted
    Manual,
    /// A run of the agent begins
    RunStart,
    /// A run of the agent has ended
    RunEnd,
    /// The agent is about to do something
    BeforeAction,
    /// The agent has done something
    AfterAction,
}

impl From<TriggerArg> for Trigger {
    fn from(trigger: TriggerArg) -> Self {
        match trigger {
            TriggerArg::Manual => Self::Manual,
            TriggerArg::RunStart => Self::RunStart,
            TriggerArg::RunEnd => Self::RunEnd,
            TriggerArg::BeforeAction => Self::BeforeAction,
            TriggerArg::AfterAction => Self::AfterAction,
        }
    }
}

impl CheckpointArgs {
    /// Whether a trigger asks for it, which must not keep an agent from going on.
    pub(crate) fn is_automatic(&self) -> bool {
        !matches!(self.trigger, None | Some(TriggerArg::Manual))
    }

    pub(crate) fn request(&self) -> CheckpointRequest {
        CheckpointRequest {
            directory: self.directory.clone(),
            name: self.name.clone(),
            trigger: self.trigger.map_or(Trigger::Manual, Trigger::from),
            description: self.description.clone(),
            run_id: self.run_id.clone(),
        }
    }
}
