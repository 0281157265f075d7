//! `catalog` defines the arguments of the commands for pointers, locks, events, retention and collection.

use std::{ffi::OsString, time::Duration};

use clap::{Args, Subcommand};
use engine::names::{Scope, Subject};
use store::{
    id::Nonce,
    name::{ChromeMajor, Tenant},
    ops::read::resolve::Reference,
};

use super::{
    actor::ActorArgs,
    lineage::LineageArgs,
    profile_ref::ChosenArgs,
    value::{interval, mebibytes, percent, seconds, sha_prefix},
};

/// Hold a profile's lock, so that no other run moves its pointer
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore lock hold acme/alice -- ./run-agent.sh
  pstore lock show acme/alice")]
pub(crate) struct LockArgs {
    #[command(subcommand)]
    pub(crate) verb: LockVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LockVerb {
    Acquire(AcquireArgs),
    /// Renew a lock by its token
    Renew(HeldArgs),
    /// Release a lock by its token
    Release(HeldArgs),
    Show(LockShowArgs),
    Hold(HoldArgs),
}

/// Take the lock and print its token
#[derive(Debug, Args)]
#[command(after_help = "Example:
  token=$(pstore lock acquire acme/alice --chrome-major 131 --wait 60 -q)
  pstore snapshot ./udd acme/alice --lock-token $token
  pstore lock release acme/alice --token $token")]
pub(crate) struct AcquireArgs {
    #[command(flatten)]
    pub(crate) lineage: LineageArgs,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Wait so long for another holder
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    /// How long the lock lasts without a renewal, from 5 to 86400 [default: 300, or as configured]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) ttl: Option<Duration>,
}

// The variants of `LockVerb` say what each does.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore lock renew acme/alice --token $token
  pstore lock release acme/alice --token $token")]
pub(crate) struct HeldArgs {
    #[command(flatten)]
    pub(crate) lineage: LineageArgs,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// The token that `pstore lock acquire` printed [env: PSTORE_LOCK_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Nonce>,
}

/// Show who holds the lock
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore lock show acme/alice")]
pub(crate) struct LockShowArgs {
    #[command(flatten)]
    pub(crate) lineage: LineageArgs,
}

/// Hold the lock while a command runs, and stop the command if the lock is lost
///
/// The command finds the token in PSTORE_LOCK_TOKEN. If the lock is lost it gets SIGTERM,
/// and SIGKILL eight seconds later. pstore ends with the command's exit code. The command's
/// stdout is pstore's stdout, or its stderr with --json.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore lock hold acme/alice -- ./run-agent.sh")]
pub(crate) struct HoldArgs {
    #[command(flatten)]
    pub(crate) lineage: LineageArgs,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Wait so long for another holder
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Remove locks that expired some time ago
///
/// Never touches a lock that is held. May run on many hosts at once.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore reap
  pstore reap acme --grace 300
  pstore reap --every 5m")]
pub(crate) struct ReapArgs {
    #[arg(value_name = "TENANT", help = "Only this tenant")]
    pub(crate) tenant: Option<Tenant>,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Least time since the expiry of a lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
    pub(crate) grace: Duration,
    /// Print the plan, and do nothing
    #[arg(long, conflicts_with = "every")]
    pub(crate) dry_run: bool,
    /// Repeat at this interval, as 5m, 90s or 1h, until SIGTERM or SIGINT
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) every: Option<Duration>,
}

/// Take a profile's lock away from its holder
///
/// The holder can no longer move the pointer. Prints the plan; acts only with --confirm.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore force-unlock acme/alice --reason 'the host is gone' --confirm")]
pub(crate) struct ForceUnlockArgs {
    #[command(flatten)]
    pub(crate) lineage: LineageArgs,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// The reason, for the log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Carry out the plan
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// Make another snapshot the current one
///
/// Prints the plan; acts only with --confirm.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore rollback acme/alice@latest~1
  pstore rollback acme/alice@3f2a91 --reason 'logged out' --confirm")]
pub(crate) struct RollbackArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// The reason, for the log
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Carry out the plan
    #[arg(long)]
    pub(crate) confirm: bool,
    /// Move it even while a run holds the lock, which then can no longer move the pointer, and even
    /// if the pointer is damaged
    #[arg(long)]
    pub(crate) force: bool,
}

/// Delete one snapshot that is not the current one; with --all a profile or a tenant
///
/// The next garbage collection frees the space.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("planned").args(["all", "tombstone", "damaged"]), after_help = "Example:
  pstore delete acme/alice@3f2a91
  pstore delete acme/alice --all --reason 'left the company' --confirm
  pstore delete acme --all
  pstore delete acme/alice --sha 01KA2ZQ3V5H8YJ4T6W9XEN0RBC --damaged --confirm")]
pub(crate) struct DeleteArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "The profile and its snapshot: @DIGITS of its id, @TAG, @latest~2 or @2026-11-15T10:00; with --all a profile, or a TENANT"
    )]
    pub(crate) name: Subject,
    /// The major version of Chrome [default: the newest that has snapshots]
    #[arg(long, value_name = "N", conflicts_with_all = ["all", "tombstone"])]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id or its archive's
    #[arg(long, value_name = "PREFIX", value_parser = sha_prefix, conflicts_with_all = ["all", "tombstone"])]
    pub(crate) sha: Option<Reference>,
    /// Delete everything: each snapshot of each Chrome, archives, tags and the pointer; of a tenant,
    /// each profile. Leaves one tombstone. Prints the plan; acts only with --confirm
    #[arg(long)]
    pub(crate) all: bool,
    /// With --all: give up this session with its changes; the first digits of its id
    #[arg(long, value_name = "SESSION", requires = "all")]
    pub(crate) ignore_session: Vec<String>,
    /// Remove the tombstone of a deleted profile or tenant, so that its name can be used again
    #[arg(long)]
    pub(crate) tombstone: bool,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// The reason, for the log, and with --all for the tombstone
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) reason: String,
    /// Delete it even if it is tagged
    #[arg(long)]
    pub(crate) tagged: bool,
    /// Give up a snapshot whose record cannot be read, so that collections go on; --sha is the
    /// record's whole id, as `pstore verify` prints it. Prints the plan; acts only with --confirm
    #[arg(long)]
    pub(crate) damaged: bool,
    /// Carry out the plan
    #[arg(long, requires = "planned")]
    pub(crate) confirm: bool,
}

// The variants of `Verb` say what each does.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore tag acme/alice before-migration
  pstore untag acme/alice@before-migration before-migration")]
pub(crate) struct TagArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    /// The tag, made of A-Z a-z 0-9 . _ -
    pub(crate) tag: String,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

/// Remove snapshots by the rules of the configuration
///
/// Without rules it removes nothing. The current snapshot, mounted ones, tagged ones and the
/// last one of a profile always stay.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore retention plan acme
  pstore retention apply acme/alice")]
pub(crate) struct RetentionArgs {
    #[command(subcommand)]
    pub(crate) verb: RetentionVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RetentionVerb {
    Plan(RetentionPlanArgs),
    Apply(RetentionApplyArgs),
}

/// Show for each snapshot whether it would stay, and why
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore retention plan
  pstore retention plan acme/alice --json")]
pub(crate) struct RetentionPlanArgs {
    #[arg(value_name = "TENANT[/PROFILE]", help = "A tenant or profile; without it, all tenants")]
    pub(crate) scope: Option<Scope>,
}

/// Delete the snapshots that the plan removes
///
/// The next garbage collection frees the space.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore retention apply acme")]
pub(crate) struct RetentionApplyArgs {
    #[arg(value_name = "TENANT[/PROFILE]", help = "A tenant or profile; without it, all tenants")]
    pub(crate) scope: Option<Scope>,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
}

/// Free the content that no snapshot needs any more
///
/// Works in two steps: one run condemns unneeded packs. A later run deletes them, when the
/// grace is over and all writers of that time have ended. May run at any time, beside any
/// other command, on many hosts at once.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore gc --dry-run
  pstore gc acme
  pstore gc acme --grace 0 --wait
  pstore gc acme --max-unused 20
  pstore gc acme --explain 3f2a91")]
pub(crate) struct GcArgs {
    #[arg(value_name = "TENANT", help = "Only this tenant")]
    pub(crate) tenant: Option<Tenant>,
    /// Print the plan, and do nothing
    #[arg(long, conflicts_with = "wait")]
    pub(crate) dry_run: bool,
    /// Least time between condemning and deleting; 0 if no reader works without a lock or mount
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "3600")]
    pub(crate) grace: Duration,
    /// Limit of unneeded content in packs; beyond it pstore rewrites the worst packs
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "4")]
    pub(crate) max_unused: u64,
    /// Memory limit
    #[arg(long, value_name = "MIB", value_parser = mebibytes, default_value = "256")]
    pub(crate) memory: u64,
    /// Do both steps in this run, and wait for the grace and for writers
    #[arg(long)]
    pub(crate) wait: bool,
    /// Show why this pack or snapshot is kept, and how much its deletion would free
    #[arg(long, value_name = "PACK|SNAPSHOT", conflicts_with_all = ["dry_run", "wait"], requires = "tenant")]
    pub(crate) explain: Option<String>,
}

/// Show the events of a profile's pointer and lock
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore log acme/alice
  pstore log acme/alice --last 0 --json")]
pub(crate) struct LogArgs {
    #[command(flatten)]
    pub(crate) lineage: LineageArgs,
    /// Show only the newest N events; 0 for all
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub(crate) last: usize,
}
