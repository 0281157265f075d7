//! `container` defines the arguments of `pstore container`.

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use engine::names::{Scope, SnapshotName};
use store::name::{ProfileName, Tenant};
use volumes::container::Trigger;

use super::{
    actor::ActorArgs,
    value::{label, seconds},
};

/// Store, restore and list Docker containers
///
/// A snapshot holds the container's file system, its configuration and its named volumes. It can be
/// restored on any host. Each container has a name in the store, as TENANT/NAME.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container snapshot web acme/web -d 'before the agent logs in' --trigger run_start
  pstore container restore acme/web@latest~1
  pstore container list acme")]
pub(crate) struct ContainerArgs {
    #[command(subcommand)]
    pub(crate) verb: ContainerVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContainerVerb {
    Snapshot(ContainerSnapshotArgs),
    Restore(ContainerRestoreArgs),
    List(ContainerListArgs),
    Show(ContainerShowArgs),
    Delete(ContainerDeleteArgs),
    Stats(ContainerStatsArgs),
}

/// Which daemon is meant.
#[derive(Clone, Debug, Args)]
pub(crate) struct DockerArgs {
    /// The address of the Docker daemon [default: unix:///var/run/docker.sock]
    #[arg(long, value_name = "URL", env = "DOCKER_HOST", hide_env_values = true)]
    pub(crate) docker_host: Option<String>,
}

/// Store a container as the next snapshot of its name
///
/// Pauses the container while it is copied; one that was paused or stopped stays so. Content of bind
/// mounts, anonymous volumes, /tmp, /proc, /sys and /dev is not stored.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container snapshot web
  pstore container snapshot web acme/web -d 'before the agent logs in' --trigger run_start
  pstore container snapshot web acme/web --fail-open --timeout 60")]
pub(crate) struct ContainerSnapshotArgs {
    /// The container's name or id
    pub(crate) container: String,
    #[arg(value_name = "TENANT/NAME", help = "The name of its snapshots [default: containers/CONTAINER]")]
    pub(crate) name: Option<ProfileName>,
    /// A description, for people
    #[arg(short, long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) description: String,
    /// The moment of the run
    #[arg(long, value_enum, default_value = "manual")]
    pub(crate) trigger: TriggerArg,
    /// A label of the snapshot; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Wait so long for another holder of the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    /// Give up after so long, with nothing changed [default: no limit]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Make a failure a warning, with exit code 0, so that a run goes on without the snapshot
    #[arg(long)]
    pub(crate) fail_open: bool,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
}

/// Make a container of a snapshot
///
/// Makes a new container with its own name and volumes, and leaves the old one alone. With --replace it
/// stores the old one first, stops it and sets it aside, and puts it back if the new one is not healthy.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container restore acme/web
  pstore container restore acme/web@latest~1 --name web-before
  pstore container restore acme/web@3f2a91 --replace --dry-run")]
pub(crate) struct ContainerRestoreArgs {
    #[arg(value_name = "TENANT/NAME[@REF]", help = "The snapshot [default: the current one]")]
    pub(crate) snapshot: SnapshotName,
    /// The name of the container [default: its own with the time, or its own with --replace]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Put it in the place of the container that has its name
    #[arg(long)]
    pub(crate) replace: bool,
    /// Do not start it
    #[arg(long, conflicts_with = "start")]
    pub(crate) no_start: bool,
    /// Start it even if it did not run when it was stored
    #[arg(long)]
    pub(crate) start: bool,
    /// Time for the container to become healthy
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(crate) health_wait: Duration,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    #[command(flatten)]
    pub(crate) docker: DockerArgs,
}

/// List the snapshots of a container, or of all containers of a tenant
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container list
  pstore container list acme
  pstore container list acme/web --json")]
pub(crate) struct ContainerListArgs {
    #[arg(
        value_name = "TENANT[/NAME]",
        help = "A tenant, or one of its containers",
        default_value = "containers"
    )]
    pub(crate) scope: Scope,
}

/// Show a container as it was when its snapshot was taken
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container show acme/web
  pstore container show acme/web@latest~1 --json")]
pub(crate) struct ContainerShowArgs {
    #[arg(value_name = "TENANT/NAME[@REF]", help = "The snapshot [default: the current one]")]
    pub(crate) snapshot: SnapshotName,
}

/// Delete one snapshot of a container, which is not the current one
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container delete acme/web@3f2a91")]
pub(crate) struct ContainerDeleteArgs {
    #[arg(value_name = "TENANT/NAME@REF", help = "The snapshot")]
    pub(crate) snapshot: SnapshotName,
    /// Why; written into the log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

/// Count the snapshots of containers and their bytes, beside their limits
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore container stats acme")]
pub(crate) struct ContainerStatsArgs {
    #[arg(value_name = "TENANT", help = "The tenant", default_value = "containers")]
    pub(crate) tenant: Tenant,
}

/// The moments of a run at which a snapshot is taken.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum TriggerArg {
    Manual,
    RunStart,
    RunEnd,
    BeforeAction,
    AfterAction,
}

impl TriggerArg {
    pub(crate) fn trigger(self) -> Trigger {
        match self {
            Self::Manual => Trigger::Manual,
            Self::RunStart => Trigger::RunStart,
            Self::RunEnd => Trigger::RunEnd,
            Self::BeforeAction => Trigger::BeforeAction,
            Self::AfterAction => Trigger::AfterAction,
        }
    }
}
