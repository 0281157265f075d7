//! `ProjectArgs` defines the arguments of `pstore project`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use volumes::project::metadata::Reason;

use super::{
    actor::ActorArgs,
    container::DockerArgs,
    value::{label, seconds},
};

/// Save and restore the files, volumes and databases of a project
///
/// A project file says what belongs to it. A save takes ten steps, and is complete or leaves
/// nothing; services go on as they were found.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Example:
  pstore project save shop.toml --reason before-upgrade --label ticket=42
  pstore project list shop.toml
  pstore project restore shop.toml@latest~1"
)]
pub(crate) struct ProjectArgs {
    #[command(subcommand)]
    pub(crate) verb: ProjectVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProjectVerb {
    Save(ProjectSaveArgs),
    List(ProjectListArgs),
    Show(ProjectShowArgs),
    Restore(ProjectRestoreArgs),
    Delete(ProjectDeleteArgs),
}

/// Why a state is saved.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SaveReasonArg {
    Manual,
    Autosave,
    BeforeUpgrade,
    BeforeRestore,
}

impl SaveReasonArg {
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Manual => Reason::Manual,
            Self::Autosave => Reason::Autosave,
            Self::BeforeUpgrade => Reason::BeforeUpgrade,
            Self::BeforeRestore => Reason::BeforeRestore,
        }
    }
}

/// Save the state of a project
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore project save shop.toml
  pstore project save shop.toml --reason before-upgrade --label ticket=42")]
pub(crate) struct ProjectSaveArgs {
    /// The project file
    pub(crate) file: PathBuf,
    /// The reason of the save
    #[arg(long, value_enum, default_value = "manual")]
    pub(crate) reason: SaveReasonArg,
    /// A label of the state; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Wait so long for another save or restore of the project
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
}

/// List the saved states of a project
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore project list shop.toml")]
pub(crate) struct ProjectListArgs {
    /// The project file
    pub(crate) file: PathBuf,
}

/// Show one saved state
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore project show shop.toml
  pstore project show shop.toml@latest~1 --json")]
pub(crate) struct ProjectShowArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Put a saved state in the place of the project's own, or write it to a folder
///
/// Without --to it saves the state of now first (reason before-restore), then replaces files and
/// volumes: all of them, or none. Verifies the digest of the state either way.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore project restore shop.toml --to ./look
  pstore project restore shop.toml --to ./look --into orders=postgresql:///postgres
  pstore project restore shop.toml@latest~1")]
pub(crate) struct ProjectRestoreArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,
    /// Write it to this folder instead, and leave the project as it is
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
    /// Replace the folder if it exists
    #[arg(long, requires = "to")]
    pub(crate) force: bool,
    /// Restore the databases of a Postgres volume into this server, or the one in this container:NAME; it must not have
    /// them or have them empty; may be repeated
    #[arg(long, value_name = "VOLUME=URL", value_parser = label)]
    pub(crate) into: Vec<(String, String)>,
    /// Keep set-user-id and set-group-id bits, and attributes other than user.*
    #[arg(long)]
    pub(crate) preserve_special: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Wait so long for another save or restore of the project
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
}

/// Delete one saved state that is not the current one
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore project delete shop.toml@3f2a91 --reason old")]
pub(crate) struct ProjectDeleteArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,
    /// The reason, for the log
    #[arg(long, value_name = "WHY", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

/// A project file, and perhaps which of the saved states is meant.
#[derive(Debug, Args)]
pub(crate) struct StateArgs {
    #[arg(
        value_name = "FILE[@REF]",
        help = "The project file, and the state: @DIGITS or @UUID of its id, @TAG, @latest~2 or @2026-11-15T10:00 [default: the current one]"
    )]
    pub(crate) state: OsString,
}
