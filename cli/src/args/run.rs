//! `run` defines the arguments of `pstore run`.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::Args;
use engine::names::SnapshotName;
use store::{name::ChromeMajor, ops::read::resolve::Reference};

use super::{
    capture::{CaptureArgs, LoadArgs},
    mount::{DivergedArgs, ProgressArgs, WritingArgs},
    value::{seconds, sha_prefix},
};

/// Lock a profile, mount it, run a command on it, capture it, unlock it
///
/// Copies the profile if this host cannot mount, and with --copy, @REF, --sha or --directory. The
/// next run continues the changes that an interrupted run has left on its mount.
///
/// pstore replaces {profile} in the command's arguments by the path of the profile; without
/// {profile} it adds --user-data-dir. pstore ends with the command's exit code. The command's
/// stdout is pstore's stdout, or its stderr with --json. If the lock is lost, pstore stops the
/// command, and the pointer stays.
///
/// The command does not get the variables AWS_* and PSTORE_*, which carry the credentials of the
/// store; PSTORE_RUN_ID and PSTORE_PROFILE are set. As the same user it could still read
/// credential files; --user prevents that.
#[derive(Debug, Args)]
#[command(mut_arg("reason", |reason| reason.default_value("run_end")))]
#[command(after_help = "Example:
  pstore run acme/alice --chrome-major 131 -- chromium --user-data-dir={profile} --headless=new
  pstore run acme/alice --user agent -- chromium --headless=new")]
pub(crate) struct RunArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "The profile; with @DIGITS of an id, @TAG, @latest~2 or @2026-11-15T10:00, a copy of that snapshot"
    )]
    pub(crate) source: SnapshotName,
    /// The major version of the Chrome that will use it [default: of --chrome-version, or the newest that has snapshots]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    #[command(flatten)]
    pub(crate) capture: CaptureArgs,
    /// Copy the profile instead of mounting it
    #[arg(long)]
    pub(crate) copy: bool,
    /// Ignore this session and its changes; the first digits of its id
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
    /// Wait so long for another holder of the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0", hide_default_value = true)]
    pub(crate) wait: Duration,
    #[command(flatten)]
    pub(crate) progress: ProgressArgs,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
    /// Pass this variable to the command, even if it carries credentials; NAME* for a prefix
    #[arg(long, value_name = "NAME")]
    pub(crate) pass_env: Vec<String>,
    /// Start the command as this user, who gets the profile; needs root
    #[arg(long, value_name = "NAME|UID[:GID]", conflicts_with = "directory")]
    pub(crate) user: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
