//! `run` defines the arguments of `pstore run`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use engine::names::SnapshotName;
use store::{name::ChromeMajor, ops::read::resolve::Reference};

use super::{
    capture::{CaptureArgs, LoadArgs},
    mount::DivergedArgs,
    value::{seconds, sha_prefix},
};

/// Lock a profile, mount it, run a command on it, capture it, unlock it
///
/// Where nothing can be mounted, and with --copy, @REF, --sha or --directory, it is copied. What a
/// run that was cut short had changed on its mount is continued by the next.
///
/// The command finds the profile at {profile}, wherever that is in its arguments; without
/// it, --user-data-dir is added. Its exit code is passed on, its stdout too, with --json to
/// stderr. Should the lock be lost, the command is stopped and the pointer stays.
///
/// The command does not get the variables AWS_* and PSTORE_*, which carry the credentials of the
/// store; PSTORE_RUN_ID and PSTORE_PROFILE are set. As the same user it could still read the
/// files that hold them: --user keeps it from them.
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("run_end")))]
#[command(after_help = "Example:
  pstore run acme/alice --chrome-major 131 -- chromium --user-data-dir={profile} --headless=new
  pstore run acme/alice --user agent -- chromium --headless=new")]
pub(crate) struct RunArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "Whose profile; with @DIGITS of an id, @TAG, @latest~2 or @2026-11-15T10:00, a copy of that snapshot"
    )]
    pub(crate) source: SnapshotName,
    /// The major version of the Chrome that will use it [default: of --chrome-version, or the newest there is]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    /// Copy the profile instead of mounting it
    #[arg(long)]
    pub(crate) copy: bool,
    /// Leave this session alone, whatever it holds; the first digits of its id
    #[arg(long, value_name = "SESSION")]
    pub(crate) ignore_session: Vec<String>,
    #[command(flatten)]
    pub(crate) diverged: DivergedArgs,
    /// Copy this snapshot instead of the current one
    #[arg(long, value_name = "PREFIX", value_parser = sha_prefix)]
    pub(crate) sha: Option<Reference>,
    /// Copy the profile to this directory, and leave it there
    #[arg(long, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// How long to wait for another holder of the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    /// Let the command have this variable, though it may carry credentials; NAME* for all that begin so
    #[arg(long, value_name = "NAME")]
    pub(crate) pass_env: Vec<String>,
    /// Start the command as this user, and give it the profile; only root can
    #[arg(long, value_name = "NAME|UID[:GID]", conflicts_with = "directory")]
    pub(crate) user: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
