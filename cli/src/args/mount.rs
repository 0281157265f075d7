//! `mount` defines the arguments of the commands that are about mounts.

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
    value::seconds,
};

/// Mount a profile: lazily read, writable, ready when this returns
///
/// What is changed is kept on this host until `pstore commit` makes it the next snapshot. A
/// mount that was cut short is found and continued.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore mount acme/alice /chrome-data
  pstore mount --read-only acme/alice@latest~1 /mnt/old
  pstore mount --fork acme/alice /mnt/try")]
pub(crate) struct MountArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "Whose profile; with @DIGITS of an id, @TAG, @latest~2 or @2026-11-15T10:00, that snapshot"
    )]
    pub(crate) source: SnapshotName,
    /// An empty directory
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
    /// The major version of the Chrome that will use it [default: the newest there is]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// Without a lock, and without changes
    #[arg(long, conflicts_with = "fork")]
    pub(crate) read_only: bool,
    /// Without a lock; what is changed cannot become a snapshot of this profile
    #[arg(long)]
    pub(crate) fork: bool,
    /// Fail unless there is an unfinished session to continue
    #[arg(long)]
    pub(crate) resume: bool,
    /// Leave this session alone, whatever it holds; the first digits of its id
    #[arg(long, value_name = "SESSION")]
    pub(crate) ignore_session: Vec<String>,
    #[command(flatten)]
    pub(crate) diverged: DivergedArgs,
    /// Let other users use it
    #[arg(long)]
    pub(crate) allow_other: bool,
    /// Give all files to this user and this group, and let no other user in
    #[arg(long, hide = true, value_name = "UID:GID", value_parser = owner)]
    pub(crate) owner: Option<MountOwner>,
    /// What to do when somebody else has taken the lock
    #[arg(long, value_enum, default_value = "warn")]
    pub(crate) on_lock_lost: LossArg,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// The region the host is in
    #[arg(long, value_name = "REGION")]
    pub(crate) host_region: Option<String>,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// How long to wait for another holder of the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    /// Stay until it is unmounted
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Serve the mount, and tell on stdout when it is ready
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
            owner: self.owner,
        }
    }
}

fn owner(text: &str) -> Result<MountOwner, String> {
    let ids = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    let (uid, gid) = ids.ok_or("it takes the numbers of a user and of a group, as 1000:1000")?;
    Ok(MountOwner { uid, gid })
}

/// What becomes of a session that cannot be continued.
#[derive(Clone, Debug, Args)]
pub(crate) struct DivergedArgs {
    /// What to do with changes that were not committed here, if somebody has gone on elsewhere since:
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
    /// Say so; the mount goes on, but cannot be committed
    Warn,
    /// Refuse all changes from then on
    Freeze,
    /// End the browser
    Kill,
}

/// Make what was changed in a mount the profile's next snapshot
///
/// The browser is ended first, as `pstore snapshot` does it; the mount stays.
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("commit")))]
#[command(after_help = "Example:
  pstore commit /chrome-data
  pstore commit /mnt/try --as acme/alice-fork")]
pub(crate) struct CommitArgs {
    #[arg(value_name = "MOUNTPOINT")]
    pub(crate) mountpoint: PathBuf,
    /// Make it a snapshot of this profile instead
    #[arg(long = "as", value_name = "TENANT/PROFILE")]
    pub(crate) other: Option<ProfileName>,
    /// With --as its own profile: replace the current snapshot, though the mount is of another
    #[arg(long, requires = "other")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// Unmount, with or without a commit
///
/// Changes that were not committed are an error, unless it is said what to do with them.
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
    /// Throw away what was changed
    #[arg(long, conflicts_with = "keep")]
    pub(crate) discard: bool,
    /// Leave what was changed for another mount to continue
    #[arg(long)]
    pub(crate) keep: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// List what is mounted on this host
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore mounts
  pstore mounts --json")]
pub(crate) struct MountsArgs {}

/// List sessions that were cut short; rescue or discard one
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
    /// Those of any host for whose sake this tenant's snapshots are kept
    #[arg(long, value_name = "TENANT")]
    pub(crate) remote: Option<Tenant>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsVerb {
    Rescue(Box<RescueArgs>),
    Discard(DiscardArgs),
    SetAside(SetAsideArgs),
}

/// Make what an unfinished session holds a snapshot
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("commit")))]
#[command(after_help = "Example:
  pstore sessions rescue 01KA2ZQ3 --as acme/alice-rescued")]
pub(crate) struct RescueArgs {
    /// The first digits of the session's id
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Of this profile [default: of its own, if nobody has moved its pointer]
    #[arg(long = "as", value_name = "TENANT/PROFILE")]
    pub(crate) other: Option<ProfileName>,
    /// With --as its own profile: replace the current snapshot, though the session builds on another
    #[arg(long, requires = "other")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
}

/// Throw an unfinished session away
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore sessions discard 01KA2ZQ3 --confirm")]
pub(crate) struct DiscardArgs {
    /// The first digits of the session's id
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
    /// Of a host that is gone for ever: what this tenant's snapshots are kept for no longer
    #[arg(long, value_name = "TENANT")]
    pub(crate) remote: Option<Tenant>,
    /// Really: what was not committed is gone
    #[arg(long)]
    pub(crate) confirm: bool,
}

/// Put a session where no mount looks for it; nothing in it is changed
///
/// It stays listed, and can be rescued or discarded.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pstore sessions set-aside 01KA2ZQ3")]
pub(crate) struct SetAsideArgs {
    /// The first digits of the session's id
    #[arg(value_name = "SESSION")]
    pub(crate) session: String,
}
