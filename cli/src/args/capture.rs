//! `capture` defines the arguments of captures and loads.

use std::time::Duration;

use clap::{Args, ValueEnum};
use engine::{
    captures::{CaptureMode, CaptureOptions, CheckDepth, CheckOptions},
    loads::LoadOptions,
};
use store::{format::record::Geo, name::ChromeMajor};

use super::{
    actor::ActorArgs,
    value::{ReasonArg, chrome_version, geo, label, percent, seconds},
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
