//! `mount` defines the arguments of the commands for mounts and sessions.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use engine::{
    names::SnapshotName,
    verbs::mount::{MountOwner, MountRequest, OnDiverged, OnLockLost},
};
use fuse::mount::info::Mode;
use store::name::{ChromeMajor, ProfileName, Tenant};

use super::{
    actor::ActorArgs,
    capture::{CaptureArgs, LoadArgs},
    value::{interval, seconds},
};

/// Mount a profile: fetched on demand, writable, ready when this returns
///
/// Changes stay on this host until `pstore commit` makes them the next snapshot. A mount
/// continues an interrupted session of the profile.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore mount acme/alice /chrome-data
  pstore mount --read-only acme/alice@latest~1 /mnt/old
  pstore mount --fork acme/alice /mnt/try")]
pub(crate) struct MountArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "The profile; with @DIGITS of an id, @TAG, @latest~2 or @2026-11-15T10:00, that snapshot"
    )]
    pub(crate) source: SnapshotName,
    /// An empty directory
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
    /// The major version of the Chrome that will use it [default: the newest that has snapshots]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// Take no lock, and refuse changes
    #[arg(long, conflicts_with = "fork")]
    pub(crate) read_only: bool,
    /// Take no lock; changes cannot become a snapshot of this profile
    #[arg(long)]
    pub(crate) fork: bool,
    /// Fail unless there is an unfinished session to continue
    #[arg(long)]
    pub(crate) resume: bool,
    /// Ignore this session and its changes; the first digits of its id
    #[arg(long, value_name = "SESSION")]
    pub(crate) ignore_session: Vec<String>,
    #[command(flatten)]
    pub(crate) diverged: DivergedArgs,
    /// Let other users use the mount
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Give all files to this user and this group, and let no other user in
    #[arg(long, hide = true, value_name = "UID:GID", value_parser = owner)]
    pub(crate) owner: Option<MountOwner>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
    /// What to do when the lock is lost
    #[arg(long, value_enum, default_value = "warn")]
    pub(crate) on_lock_lost: LossArg,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The region of the host
    #[arg(long, value_name = "REGION")]
    pub(crate) host_region: Option<String>,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// Wait so long for another holder of the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
    /// Stay in the foreground until it is unmounted
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Serve the mount, and report on stdout when it is ready
    #[arg(long, hide = true, conflicts_with = "foreground")]
    pub(crate) daemon: bool,
}

impl MountArgs {
    pub(crate) fn request(&self) -> MountRequest {
        MountRequest {
            source: self.source.clone(),
            mountpoint: self.mountpoint.clone(),
            chrome_major: self.chrome_major,
            mode: match (self.read_only, self.fork) {
                (true, _) => Mode::ReadOnly,
                (_, true) => Mode::Fork,
                _ => Mode::Locked,
            },
            resume: self.resume,
            ignore_session: self.ignore_session.clone(),
            on_diverged: self.diverged.on_diverged.clone(),
            allow_other: self.allow_other,
            on_lock_lost: match self.on_lock_lost {
                LossArg::Warn => OnLockLost::Warn,
                LossArg::Freeze => OnLockLost::Freeze,
                LossArg::Kill => OnLockLost::Kill,
            },
            load: self.load.options(),
            host_region: self.host_region.clone(),
            actor: self.actor.name(),
            wait: self.wait,
            autosave: self.progress.autosave,
            from_wip: self.progress.from.is_some(),
            owner: self.owner,
            writeback: self.writing.writeback,
        }
    }
}

/// How writes reach the session.
#[derive(Clone, Debug, Args)]
pub(crate) struct WritingArgs {
    /// Let the kernel keep writes for a while: quicker, but what is neither synced nor closed is
    /// lost if the mount's process is killed
    #[arg(long)]
    pub(crate) writeback: bool,
}

/// Work that is saved while it goes on.
#[derive(Clone, Debug, Args)]
pub(crate) struct ProgressArgs {
    /// Save changes so often while a browser runs, as TENANT/PROFILE@wip; needs the mode hot
    #[arg(long, value_name = "TIME", value_parser = interval)]
    pub(crate) autosave: Option<Duration>,
    /// Start from the work in progress that a run has left
    #[arg(long, value_name = "wip", value_enum)]
    pub(crate) from: Option<FromArg>,
}

/// What a mount can start from.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FromArg {
    Wip,
}

fn owner(text: &str) -> Result<MountOwner, String> {
    let ids = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    let (uid, gid) = ids.ok_or("it takes the numbers of a user and of a group, as 1000:1000")?;
    Ok(MountOwner { uid, gid })
}

/// The treatment of a session that cannot be continued.
#[derive(Clone, Debug, Args)]
pub(crate) struct DivergedArgs {
    /// What to do with uncommitted changes here, if another host has continued the profile since:
    /// fail, set-aside, or rescue-as=TENANT/PROFILE
    #[arg(long, value_name = "WHAT", value_parser = on_diverged, default_value = "fail", hide_default_value = true)]
    pub(crate) on_diverged: OnDiverged,
}

fn on_diverged(text: &str) -> Result<OnDiverged, String> {
    match (text, text.strip_prefix("rescue-as=")) {
        ("fail", _) => Ok(OnDiverged::Fail),
        ("set-aside", _) => Ok(OnDiverged::SetAside),
        (_, Some(name)) => name.parse().map(OnDiverged::RescueAs).map_err(|error| format!("{error}")),
        _ => Err("it is `fail`, `set-aside` or `rescue-as=TENANT/PROFILE`".to_owned()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LossArg {
    /// Warn; the mount goes on, but cannot be committed
    Warn,
    /// Refuse all changes from then on
    Freeze,
    /// End the browser
    Kill,
}

/// Store the changes of a mount as the profile's next snapshot
///
/// Ends the browser first, as `pstore snapshot` does; the mount stays.
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("commit")))]
#[command(after_help = "Example:
  pstore commit /chrome-data
  pstore commit /mnt/try --as acme/alice-fork")]
pub(crate) struct CommitArgs {
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
    /// Store them as a snapshot of this profile instead
    #[arg(long = "as", value_name = "TENANT/PROFILE")]
    pub(crate) other: Option<ProfileName>,
    /// With --as its own profile: replace the current snapshot even if the mount is of another
    #[arg(long, requires = "other")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// Unmount, with or without a commit
///
/// Fails if there are uncommitted changes, unless an option says what to do with them.
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("commit")))]
#[command(after_help = "Example:
  pstore unmount /chrome-data --commit
  pstore unmount /chrome-data --discard")]
pub(crate) struct UnmountArgs {
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
    /// Commit first
    #[arg(long, conflicts_with_all = ["discard", "keep"])]
    pub(crate) commit: bool,
    /// Drop the changes
    #[arg(long, conflicts_with = "keep")]
    pub(crate) discard: bool,
    /// Keep the changes, for another mount to continue
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// List the mounts of this host
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore mounts
  pstore mounts --json")]
pub(crate) struct MountsArgs {}

/// List interrupted sessions; rescue or discard one
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Example:
  pstore sessions
  pstore sessions rescue 01KA2ZQ3 --as acme/alice-rescued
  pstore sessions discard 01KA2ZQ3 --confirm"
)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<SessionsVerb>,
    /// List the sessions of all hosts that keep snapshots of this tenant
    #[arg(long, value_name = "TENANT")]
    pub(crate) remote: Option<Tenant>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    Rescue(Box<RescueArgs>),
    Discard(DiscardArgs),
    SetAside(SetAsideArgs),
}

/// Store the changes of an unfinished session as a snapshot
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("commit")))]
#[command(after_help = "Example:
  pstore sessions rescue 01KA2ZQ3 --as acme/alice-rescued")]
pub(crate) struct RescueArgs {
    /// The first digits of the session's id
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// The profile of the snapshot [default: the session's own, if nobody has moved its pointer]
    #[arg(long = "as", value_name = "TENANT/PROFILE")]
    pub(crate) other: Option<ProfileName>,
    /// With --as its own profile: replace the current snapshot even if the session builds on another
    #[arg(long, requires = "other")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// Drop an unfinished session
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore sessions discard 01KA2ZQ3 --confirm")]
pub(crate) struct DiscardArgs {
    /// The first digits of the session's id
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Release the snapshot of this tenant that a session keeps on a host that will not come back
    #[arg(long, value_name = "TENANT")]
    pub(crate) remote: Option<Tenant>,
    /// Drop the uncommitted changes for good
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// Move a session out of the way of mounts, unchanged
///
/// `pstore sessions` still lists it, and can rescue or discard it.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore sessions set-aside 01KA2ZQ3")]
pub(crate) struct SetAsideArgs {
    /// The first digits of the session's id
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}
