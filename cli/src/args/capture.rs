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
    /// cold: end the browser first; hot: capture a mount while its browser runs
    #[arg(long, value_enum, default_value = "cold")]
    pub(crate) mode: ModeArg,
    /// Refuse if a browser runs, instead of ending it
    #[arg(long)]
    pub(crate) no_stop: bool,
    /// Time for the browser to end before pstore kills it
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "8")]
    pub(crate) stop_wait: Duration,
    #[command(flatten)]
    pub(crate) checks: ChecksArgs,
    /// Make the snapshot current even if the session had started with an empty profile
    #[arg(long)]
    pub(crate) replace_after_fallback: bool,
    /// Read every file again, even if it looks unchanged
    #[arg(long)]
    pub(crate) rescan: bool,
    /// A label of the snapshot; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The reason of the snapshot; retention rules use it
    #[arg(long, value_enum, default_value = "manual")]
    pub(crate) reason: ReasonArg,
    /// Free text for the record
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub(crate) notes: String,
    #[command(flatten)]
    pub(crate) actor: ActorArgs,
    /// The region of the host
    #[arg(long, value_name = "REGION")]
    pub(crate) host_region: Option<String>,
    /// The origin of the browser's requests, as US or US/NY
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

/// The checks before a snapshot becomes current.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChecksArgs {
    /// How thoroughly to check new and changed databases
    #[arg(long, value_enum, default_value = "full")]
    pub(crate) check: CheckArg,
    /// Hold the snapshot back if more than this share of the cookies is gone
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "50")]
    max_shrink: u64,
    /// Make the snapshot current however many cookies are gone
    #[arg(long)]
    allow_shrink: bool,
    /// Make the snapshot current even if a database is damaged
    #[arg(long)]
    allow_damaged: bool,
    /// Make the snapshot current even if an expectation of `pstore expect` is missing
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
    /// The Chrome that will use the profile, as 131.0.6778.85: refuse a snapshot of a newer one
    #[arg(long, value_name = "VERSION", value_parser = chrome_version)]
    pub(crate) chrome_version: Option<String>,
    /// If this Chrome has no snapshot yet, start from that of this older Chrome, which stays
    #[arg(long, value_name = "N")]
    pub(crate) upgrade_from: Option<ChromeMajor>,
    /// Fail instead of starting with an empty profile
    #[arg(long)]
    pub(crate) require: bool,
    /// Mark the profile as cleanly closed, so that the browser does not offer to restore pages
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
    /// Check all pages and rows
    Quick,
    /// Also check that indexes agree with their tables
    Full,
    /// Check nothing
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
