//! `Verb` lists the commands, with the arguments of each. A new one starts here, and goes on in `verbs`,
//! in `engine/src/verbs` and in `engine/src/schemas.rs`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use clap_complete::Shell;
use engine::names::{Further, Scope, SnapshotName, Subject};
use store::{
    format::config::Chunking,
    id::Nonce,
    name::{ChromeMajor, ProfileName, Tenant},
    ops::read::resolve::Reference,
};

use super::{
    browse::{CatArgs, FindArgs, LsArgs},
    capture::{CaptureArgs, CheckArg, LoadArgs},
    catalog::{
        DeleteArgs, ForceUnlockArgs, GcArgs, LockArgs, LockVerb, LogArgs, ReapArgs, RetentionArgs,
        RollbackArgs, TagArgs,
    },
    container::{ContainerArgs, ContainerVerb},
    expect::ExpectArgs,
    export::ExportArgs,
    import::ImportArgs,
    mcp::McpArgs,
    mount::{CommitArgs, MountArgs, MountsArgs, SessionsArgs, UnmountArgs},
    profile_ref::ChosenArgs,
    project::{ProjectArgs, ProjectVerb},
    run::RunArgs,
    serve::{ServeArgs, TokenArgs},
    top::TopArgs,
    value::{seconds, sha_prefix, share},
    workspace::{CheckpointArgs, WorkspaceArgs, WorkspaceVerb},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Init(InitArgs),
    Snapshot(SnapshotArgs),
    List(ListArgs),
    Show(ShowArgs),
    Ls(LsArgs),
    Cat(CatArgs),
    Find(FindArgs),
    Diff(DiffArgs),
    History(HistoryArgs),
    Restore(RestoreArgs),
    Export(ExportArgs),
    Mount(MountArgs),
    Commit(CommitArgs),
    Unmount(UnmountArgs),
    Mounts(MountsArgs),
    Sessions(SessionsArgs),
    Run(Box<RunArgs>),
    Container(ContainerArgs),
    Stats(StatsArgs),
    Verify(VerifyArgs),
    Lock(LockArgs),
    Reap(ReapArgs),
    ForceUnlock(ForceUnlockArgs),
    Rollback(RollbackArgs),
    Delete(DeleteArgs),
    Retention(RetentionArgs),
    Gc(GcArgs),
    /// Tag a snapshot, so that it is kept
    Tag(TagArgs),
    /// Remove a tag from a snapshot
    Untag(TagArgs),
    Expect(ExpectArgs),
    Project(ProjectArgs),
    Workspace(WorkspaceArgs),
    Checkpoint(CheckpointArgs),
    Import(ImportArgs),
    Log(LogArgs),
    Serve(ServeArgs),
    Mcp(McpArgs),
    Token(TokenArgs),
    Metrics(MetricsArgs),
    Top(TopArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Verb {
    /// Whether it can wait for another holder of a lock.
    pub(crate) fn waits(&self) -> bool {
        let acquires = |verb: &LockVerb| matches!(verb, LockVerb::Acquire(_) | LockVerb::Hold(_));
        match self {
            Self::Run(_) | Self::Snapshot(_) | Self::Mount(_) => true,
            Self::Container(ContainerArgs { verb }) => matches!(verb, ContainerVerb::Snapshot(_)),
            Self::Lock(LockArgs { verb }) => acquires(verb),
            Self::Project(ProjectArgs { verb }) => {
                matches!(verb, ProjectVerb::Save(_) | ProjectVerb::Restore(_))
            }
            _ => false,
        }
    }

    /// Whether it handles signals itself: it runs a command of the user's, draws on a terminal, or serves a
    /// mount or callers.
    pub(crate) fn sees_to_signals(&self) -> bool {
        match self {
            Self::Run(_)
            | Self::Serve(_)
            | Self::Mcp(_)
            | Self::Top(_)
            | Self::Lock(LockArgs { verb: LockVerb::Hold(_) }) => true,
            Self::Mount(args) => args.foreground || args.daemon,
            Self::Workspace(WorkspaceArgs { verb: WorkspaceVerb::Start(args) }) => args.daemon,
            Self::Reap(args) => args.every.is_some(),
            _ => false,
        }
    }
}

/// Make the store
///
/// The first snapshot also makes the store; this makes it ahead of time and fails early if
/// the place cannot hold one.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore init
  pstore init --store s3://profiles/prod --endpoint http://127.0.0.1:9000
  pstore init --chunk-kib 16 --level 9")]
pub(crate) struct InitArgs {
    /// Average length of a chunk: a power of two, fixed once a tenant exists
    #[arg(long, value_name = "KIB", default_value_t = Chunking::default().average_bytes >> 10)]
    pub(crate) chunk_kib: u32,
    /// The zstd level, from 1 to 22
    #[arg(long, value_name = "LEVEL", default_value_t = Chunking::default().zstd_level)]
    pub(crate) level: i32,
}

impl InitArgs {
    /// The chunking of new tenants.
    pub(crate) fn chunking(&self) -> Chunking {
        let average = self.chunk_kib.saturating_mul(1024);
        Chunking {
            min_bytes: average / 4,
            average_bytes: average,
            max_bytes: average.saturating_mul(4),
            zstd_level: self.level,
            ..Chunking::default()
        }
    }
}

/// Store a directory as the profile's next snapshot
///
/// Stores only new chunks. If nothing changed since the current snapshot, it says so and
/// stores nothing.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore snapshot ./udd acme/alice --chrome-major 131 --label task=checkout")]
pub(crate) struct SnapshotArgs {
    /// The directory, for Chrome its user-data-dir
    pub(crate) directory: PathBuf,
    #[arg(value_name = "TENANT/PROFILE", help = "The profile of the new snapshot")]
    pub(crate) profile: ProfileName,
    /// The major version of the Chrome that wrote it [default: from its `Last Version`]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// Store it under --chrome-major even if its `Last Version` is another Chrome's; and store the copy
    /// of an interrupted run even if others have stored a snapshot since
    #[arg(long, requires = "chrome_major")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    /// The token of a lock that you hold, from `pstore lock acquire` [env: PSTORE_LOCK_TOKEN]
    #[arg(long, value_name = "TOKEN")]
    pub(crate) lock_token: Option<Nonce>,
    /// Wait so long for another holder of the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
}

/// List the snapshots of a profile, the profiles of a tenant, or the tenants
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore list acme/alice
  pstore list acme
  pstore list acme --expiry")]
pub(crate) struct ListArgs {
    #[arg(value_name = "TENANT[/PROFILE]", help = "A profile or a tenant; without it, all tenants")]
    pub(crate) scope: Option<Scope>,
    /// The major version of Chrome [default: the newest that has snapshots]
    #[arg(long, value_name = "N", requires = "scope")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// Show for each profile when the first cookie of `pstore expect` lapses
    #[arg(long, requires = "scope", conflicts_with = "chrome_major")]
    pub(crate) expiry: bool,
}

/// Show the record of one snapshot
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore show acme/alice
  pstore show acme/alice@latest~1 --json")]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
}

/// Show the changes between two snapshots
///
/// Prints a sign for each path: + added, - removed, M other content, m only other metadata,
/// T another type. Fetches only metadata, except with --profile.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore diff acme/alice@latest~1
  pstore diff acme/alice@before-migration 8c01de --stat
  pstore diff acme/alice@latest~1 --profile")]
pub(crate) struct DiffArgs {
    #[arg(value_name = "TENANT/PROFILE[@A]", help = "The profile, and the earlier snapshot")]
    pub(crate) name: SnapshotName,
    /// The earlier snapshot, unless given with @A, and the later one [default: the current one]
    #[arg(value_name = "REF", num_args = 0..=2)]
    pub(crate) references: Vec<Further>,
    /// The major version of Chrome [default: the newest that has snapshots]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// Print only the totals
    #[arg(long)]
    pub(crate) stat: bool,
    /// Show the changes of the browser profile instead of its files: cookies by site, extensions,
    /// origins that keep something, settings; never their values. Fetches the files it needs
    #[arg(long, conflicts_with = "stat")]
    pub(crate) profile: bool,
}

/// Show the chain of snapshots that led to one
///
/// Each was captured on top of the next. The last line says why the chain ends there.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore history acme/alice
  pstore history acme/alice@3f2a91 --json")]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
}

/// Write a snapshot to a directory
///
/// Verifies every byte. The directory appears when it is complete, or not at all.
///
/// With --chrome-major it loads the snapshot for that Chrome: if the snapshot is of another one,
/// or is not whole, it makes an empty profile instead, with a warning; --require fails instead.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore restore acme/alice ./out
  pstore restore acme/alice ./udd --chrome-major 131 --normalise-exit
  pstore restore acme/alice@2026-11-15T10:00 ./out --force
  pstore restore acme/alice@latest~1 --path Default/Cookies ./out")]
pub(crate) struct RestoreArgs {
    #[command(flatten)]
    pub(crate) snapshot: ChosenArgs,
    /// The directory to make
    pub(crate) target: PathBuf,
    /// Restore only this file or directory, at its place in the profile; may be repeated
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<OsString>,
    /// Replace the directory if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Restore the owners of files; needs root
    #[arg(long)]
    pub(crate) same_owner: bool,
    /// Keep set-user-id and set-group-id bits, and attributes other than user.*: the author of the
    /// snapshot then decides about the rights of its files here
    #[arg(long)]
    pub(crate) preserve_special: bool,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// How thoroughly to check its databases, if it is loaded for a Chrome
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) check: CheckArg,
}

/// Count snapshots, objects and bytes
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore stats
  pstore stats acme --json")]
pub(crate) struct StatsArgs {
    #[arg(value_name = "TENANT", help = "Only this tenant")]
    pub(crate) tenant: Option<Tenant>,
}

/// Check that everything a profile, a tenant or the store needs is stored and whole
///
/// Reads the pointer, the records, the trees, the directories of all packs and every byte
/// of content; with --structure all but the content. @REF or --sha checks that snapshot alone.
/// For a tenant it checks all profiles, and reads shared content once. If it cannot check a
/// tenant, it goes on with the others.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore verify acme/alice
  pstore verify acme
  pstore verify --read-data=1/7
  pstore verify acme/alice --structure
  pstore verify acme/alice@before-migration
  pstore verify acme/alice --read-data=1/7
  pstore verify acme/alice --repair")]
pub(crate) struct VerifyArgs {
    #[arg(
        value_name = "TENANT[/PROFILE[@REF]]",
        help = "A tenant, one of its profiles, or one snapshot: @DIGITS of its id, @TAG, @latest~2 or @2026-11-15T10:00; without it, all tenants"
    )]
    pub(crate) subject: Option<Subject>,
    /// The major version of Chrome [default: of a profile, the newest that has snapshots]
    #[arg(long, value_name = "N", requires = "subject")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id or its archive's
    #[arg(long, value_name = "PREFIX", value_parser = sha_prefix, requires = "subject")]
    pub(crate) sha: Option<Reference>,
    /// Fetch and check every chunk, as without --structure; or a share of them, another one
    /// each day, so that 1/7 every night covers all in a week
    #[arg(
        long,
        value_name = "SHARE",
        value_parser = share,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100%",
        conflicts_with = "structure"
    )]
    pub(crate) read_data: Option<u64>,
    /// Check that everything exists, without reading content
    #[arg(long)]
    pub(crate) structure: bool,
    /// Restore damaged chunks from other copies, and mark the snapshots that have lost chunks
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Print what the commands of this host have counted, for Prometheus
///
/// Prints what `metrics_textfile` holds, and needs no store. Without that setting all counts are 0.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore metrics | promtool check metrics
  PSTORE_METRICS_TEXTFILE=/var/lib/prometheus/node-exporter pstore metrics")]
pub(crate) struct MetricsArgs {}

/// Check this host and the store, and say what to do
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore doctor --store s3://profiles/prod --endpoint http://127.0.0.1:9000
  pstore doctor acme")]
pub(crate) struct DoctorArgs {
    #[arg(value_name = "TENANT", help = "Use a credential that is limited to this tenant")]
    pub(crate) tenant: Option<Tenant>,
}

/// Show the settings in force
///
/// Reads flags, the environment and the configuration file, but not the store.
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    after_help = "Example:
  pstore config show
  pstore config show acme --json"
)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigVerb {
    Show(ConfigShowArgs),
}

/// Show every setting, its value and its source
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore config show
  pstore config show acme --json
  pstore config show acme/alice")]
pub(crate) struct ConfigShowArgs {
    #[arg(value_name = "TENANT[/PROFILE]", help = "The settings of this tenant, or of one of its profiles")]
    pub(crate) scope: Option<Scope>,
}

/// Print a script that completes commands
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore completions bash > ~/.local/share/bash-completion/completions/pstore")]
pub(crate) struct CompletionsArgs {
    pub(crate) shell: Shell,
}

/// Print the manual page, or write all of them to a directory
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore man | man -l -
  pstore man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    pub(crate) directory: Option<PathBuf>,
}
