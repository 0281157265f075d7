//! `CaptureOptions` say how a profile is captured.

use std::{collections::BTreeMap, time::Duration};

use capture::{examination::Isolation, examiner::Policy, sqlite::Depth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    Error,
    format::record::{Geo, Mode, Reason},
    ops::write::snapshot::HoldBack,
};

use crate::{engine::threads, failure::Failure, names::ActorName};

/// The page about captures while the browser runs.
pub const HOT_MODE_PAGE: &str = "docs/hot-mode.md";

/// How a profile is captured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureOptions {
    /// Whether the browser is ended first.
    pub mode: CaptureMode,
    /// End the browser, instead of refusing if one runs.
    pub allow_stop: bool,
    /// How long the browser may take to end before it is killed.
    pub stop_wait: Duration,
    /// The checks before the snapshot becomes current.
    pub checks: CheckOptions,
    /// Make it the current one though the session had started with an empty profile.
    pub replace_after_fallback: bool,
    /// Read every file again, even if it looks unchanged.
    pub rescan: bool,
    /// Remarks to find it by. No key may stand there twice.
    pub labels: Vec<(String, String)>,
    /// Why it is taken.
    pub reason: Reason,
    /// Free text for the record.
    pub notes: String,
    /// The actor.
    pub actor: ActorName,
    /// The region the host is in; as configured if it is not said.
    pub host_region: Option<String>,
    /// Where the browser's requests came from; as configured if it is not said.
    pub egress_geo: Option<Geo>,
}

/// Whether the browser is ended before a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CaptureMode {
    /// The browser is ended first.
    #[default]
    Cold,
    /// The browser runs on.
    Hot,
}

/// The checks before a snapshot becomes current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckOptions {
    /// How thoroughly databases that are new or changed are checked.
    pub depth: CheckDepth,
    /// How many per cent of the cookies may be gone; any number if nothing is said.
    pub max_shrink_percent: Option<u64>,
    /// Make it the current one though a database is damaged.
    pub allow_damaged: bool,
    /// Make it the current one though something is missing that is expected of the profile.
    pub allow_logged_out: bool,
}

/// The refusal to capture `of` while the browser runs.
pub fn refused_hot(of: &str) -> Failure {
    let what = format!("--mode hot, a capture while the browser runs, of {of}");
    Error::NotImplemented { what, page: HOT_MODE_PAGE.to_owned() }.into()
}

impl CaptureMode {
    /// The word for it in a record.
    pub fn word(self) -> Mode {
        match self {
            Self::Cold => Mode::Cold,
            Self::Hot => Mode::Hot,
        }
    }
}

/// How thoroughly databases are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckDepth {
    /// All pages and rows.
    Quick,
    /// Also whether indexes agree with their tables.
    #[default]
    Full,
    /// Not at all.
    None,
}

impl CheckDepth {
    /// The depth that databases are checked with; `None` if they are not.
    pub fn depth(self) -> Option<Depth> {
        match self {
            Self::Quick => Some(Depth::Quick),
            Self::Full => Some(Depth::Full),
            Self::None => None,
        }
    }
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            depth: CheckDepth::default(),
            max_shrink_percent: Some(50),
            allow_damaged: false,
            allow_logged_out: false,
        }
    }
}

impl CheckOptions {
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            depth: self.depth.depth(),
            isolation: Isolation::own_cell(),
            threads: threads(),
            max_shrink_percent: self.max_shrink_percent,
            allow_damaged: self.allow_damaged,
            allow_logged_out: self.allow_logged_out,
        }
    }
}

impl CaptureOptions {
    /// The browser is ended, everything is checked, and nothing is written down but the reason.
    pub fn new(reason: Reason) -> Self {
        Self {
            mode: CaptureMode::default(),
            allow_stop: true,
            stop_wait: Duration::from_secs(8),
            checks: CheckOptions::default(),
            replace_after_fallback: false,
            rescan: false,
            labels: Vec::new(),
            reason,
            notes: String::new(),
            actor: ActorName::default(),
            host_region: None,
            egress_geo: None,
        }
    }

    /// Refuses what is wrong with the options alone, before anything is touched.
    pub fn check(&self) -> Result<(), Failure> {
        self.label_map()?;
        self.actor.check()?;
        if self.reason.word().is_none() {
            return Err(Failure::usage(format!(
                "{:?} is no reason to take a snapshot",
                self.reason.as_str()
            )));
        }
        if self.checks.max_shrink_percent.is_some_and(|percent| percent > 100) {
            return Err(Failure::usage("no more than 100 per cent of the cookies can be gone"));
        }
        Ok(())
    }

    /// Refuses a capture while the browser runs, of what nobody can capture so.
    pub fn require_cold(&self, of: &str) -> Result<(), Failure> {
        if self.mode == CaptureMode::Cold {
            return Ok(());
        }
        Err(refused_hot(of))
    }

    /// The reason to hold a snapshot back whose session had started empty for the reason `fallback`: it must
    /// not replace the snapshot that could not be loaded.
    pub fn fallback_hold_back(&self, fallback: Option<&str>) -> Option<HoldBack> {
        fallback.filter(|_| !self.replace_after_fallback).map(|reason| {
            let reason =
                format!("the session had started afresh ({reason}), and would replace a good snapshot");
            HoldBack { word: "fallback", reason }
        })
    }

    pub(super) fn label_map(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut labels = BTreeMap::new();
        for (key, value) in &self.labels {
            if key.is_empty() {
                return Err(Failure::usage("a label has no key").hint("write it as KEY=VALUE"));
            }
            if labels.insert(key.clone(), value.clone()).is_some() {
                return Err(Failure::usage(format!("the label {key:?} is given twice")));
            }
        }
        Ok(labels)
    }
}
