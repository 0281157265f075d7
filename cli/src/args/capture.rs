//! `capture` defines the arguments of captures and loads.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};
use engine::{
    captures::{CaptureMode, CaptureOptions, CheckDepth, CheckOptions},
    loads::LoadOptions,
    names::SnapshotName,
};
use store::{format::record::Geo, name::ChromeMajor, ops::read::resolve::Reference};

use super::{
    catalog::ActorArgs,
    mount::DivergedArgs,
    value::{ReasonArg, chrome_version, geo, label, percent, seconds, sha_prefix},
};

/// How a profile is captured.
#[derive(Clone, Debug, Args)]
pub(crate) struct CaptureArgs {
    /// cold: the browser is ended first; hot: while it runs
    #[arg(long, value_enum, default_value = "cold")]
    pub(crate) mode: ModeArg,
    /// Refuse if a browser runs, instead of ending it
    #[arg(long)]
    pub(crate) no_stop: bool,
    /// How long the browser may take to end before it is killed
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "8")]
    pub(crate) stop_wait: Duration,
    #[command(flatten)]
    pub(crate) checks: ChecksArgs,
    /// Make it the current one though the session had started afresh
    #[arg(long)]
    pub(crate) replace_after_fallback: bool,
    /// Read every file again, even if it looks unchanged
    #[arg(long)]
    pub(crate) rescan: bool,
    /// A remark to find it by; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// Why it is taken
    #[arg(long, value_enum, default_value = "manual")]
    pub(crate) reason: ReasonArg,
    /// Free text for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) notes: String,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// The region the host is in
    #[arg(long, value_name = "REGION")]
    pub(crate) host_region: Option<String>,
    /// Where the browser's requests came from, as US or US/NY
    #[arg(long, value_name = "COUNTRY[/REGION]", value_parser = geo)]
    pub(crate) egress_geo: Option<Geo>,
}

impl CaptureArgs {
    pub(crate) fn options(&self) -> CaptureOptions {
        CaptureOptions {
            mode: self.mode.mode(),
            allow_stop: !self.no_stop,
            stop_wait: self.stop_wait,
            checks: self.checks.options(),
            replace_after_fallback: self.replace_after_fallback,
            rescan: self.rescan,
            labels: self.labels.clone(),
            reason: self.reason.0.clone(),
            notes: self.notes.clone(),
            actor: self.actor.name(),
            host_region: self.host_region.clone(),
            egress_geo: self.egress_geo.clone(),
        }
    }
}

/// What is looked at before a snapshot becomes the current one.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChecksArgs {
    /// How thoroughly databases that are new or changed are checked
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) check: CheckArg,
    /// How many per cent of the cookies may be gone
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "50")]
    max_shrink: u64,
    /// Make it the current one however many cookies are gone
    #[arg(long)]
    allow_shrink: bool,
    /// Make it the current one though a database is damaged
    #[arg(long)]
    allow_damaged: bool,
    /// Make it the current one though something is missing that `pstore expect` names
    #[arg(long)]
    allow_logged_out: bool,
}

impl ChecksArgs {
    pub(crate) fn options(&self) -> CheckOptions {
        CheckOptions {
            depth: self.check.depth(),
            max_shrink_percent: Some(self.max_shrink).filter(|_| !self.allow_shrink),
            allow_damaged: self.allow_damaged,
            allow_logged_out: self.allow_logged_out,
        }
    }
}

/// How a profile is loaded.
#[derive(Clone, Debug, Args)]
pub(crate) struct LoadArgs {
    /// The Chrome that will use it, as 131.0.6778.85: a newer one's snapshot is refused
    #[arg(long, value_name = "VERSION", value_parser = chrome_version)]
    pub(crate) chrome_version: Option<String>,
    /// If there is no snapshot of this Chrome yet, start from this older one's; the older ones stay
    #[arg(long, value_name = "N")]
    pub(crate) upgrade_from: Option<ChromeMajor>,
    /// Fail instead of starting with an empty profile
    #[arg(long)]
    pub(crate) require: bool,
    /// Say in the profile that the browser had ended well, so that it offers no pages
    #[arg(long)]
    pub(crate) normalise_exit: bool,
}

impl LoadArgs {
    pub(crate) fn options(&self) -> LoadOptions {
        LoadOptions {
            chrome_version: self.chrome_version.clone(),
            upgrade_from: self.upgrade_from,
            require: self.require,
            normalise_exit: self.normalise_exit,
        }
    }
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    Cold,
    Hot,
}

impl ModeArg {
    fn mode(self) -> CaptureMode {
        match self {
            Self::Cold => CaptureMode::Cold,
            Self::Hot => CaptureMode::Hot,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckArg {
    /// All pages and rows
    Quick,
    /// Also whether indexes agree with their tables
    Full,
    /// Not at all
    None,
}

impl CheckArg {
    pub(crate) fn depth(self) -> CheckDepth {
        match self {
            Self::Quick => CheckDepth::Quick,
            Self::Full => CheckDepth::Full,
            Self::None => CheckDepth::None,
        }
    }
}
