//! `Wanted` describes a checkpoint that somebody asked for: its name, its trigger, and how long its caller waits.
//!
//! This file also says what the snapshot's record tells of the checkpoint, and builds the answer if none is taken.

use std::{path::Path, time::Duration};

use serde::{Deserialize, Serialize};
use store::{
    format::{
        WRITER,
        record::{CapturedBy, CapturedIn, Mode, Reason},
    },
    ops::write::snapshot::{About, SecondLook},
};

use super::{
    outcome::{CheckpointOutcome, CheckpointResult, Method, Origin},
    request::Trigger,
};
use crate::{failure::Failure, settings::Settings};

/// The label with the directory that a checkpoint is of.
pub(crate) const DIRECTORY_LABEL: &str = "workspace";

/// A checkpoint that is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wanted {
    pub origin: Origin,
    pub name: Option<String>,
    pub trigger: Trigger,
    pub description: String,
    pub run_id: String,
    /// A slot that must not be overwritten.
    pub spared: Option<u64>,
    /// Of one that somebody waits for who must not wait for others: how long he may wait for a lock, in milliseconds.
    #[serde(default)]
    pub patience_ms: Option<u64>,
    /// Of one that follows right after another: what matters this time. A mount knows by itself what has changed.
    #[serde(skip)]
    pub again: Option<Again>,
}

/// A checkpoint that follows right after another, for the sake of some paths.
#[derive(Clone, Debug)]
pub(crate) struct Again {
    /// When the other one began: what was changed since may be in neither.
    pub began_ms: u64,
    pub look: SecondLook,
}

/// How long somebody else's lock of the lineage is waited for.
const LOCK_PATIENCE: Duration = Duration::from_secs(30);

impl Wanted {
    /// The same for somebody who waits no longer than this for somebody else.
    pub fn within(self, patience: Duration) -> Self {
        let patience_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        Self { patience_ms: Some(patience_ms), ..self }
    }

    /// How long somebody else's lock of the lineage is waited for.
    pub fn lock_patience(&self) -> Duration {
        self.patience_ms.map_or(LOCK_PATIENCE, |left| Duration::from_millis(left).min(LOCK_PATIENCE))
    }
}

impl CheckpointOutcome {
    /// The answer to a request of which no checkpoint came.
    pub fn nothing(method: Method, outcome: CheckpointResult) -> Self {
        Self {
            outcome,
            checkpoint: None,
            method,
            read_files: 0,
            stored_bytes: 0,
            elapsed_ms: 0,
            pause_ms: None,
            warning: None,
        }
    }

    /// The answer to a trigger whose checkpoint failed: the agent goes on.
    pub fn failed(failure: &Failure) -> Self {
        let warning = Some(format!("no checkpoint was taken: {}", failure.message));
        Self { warning, ..Self::nothing(Method::Directory, CheckpointResult::Failed) }
    }
}

/// What the record of a checkpoint says that only pstore knows. `exclusions` are left out of the directory.
pub(crate) fn record_facts(
    settings: &Settings,
    (directory, exclusions): (&Path, Vec<String>),
    wanted: &Wanted,
    slot: u64,
) -> About {
    let host = settings.host_name().unwrap_or_default();
    let labels = [
        (DIRECTORY_LABEL, directory.display().to_string()),
        ("slot", slot.to_string()),
        ("pool", wanted.origin.word().to_owned()),
        ("name", wanted.name.clone().unwrap_or_default()),
        ("trigger", wanted.trigger.word().to_owned()),
        ("run-id", wanted.run_id.clone()),
    ];
    About {
        captured_by: CapturedBy {
            host,
            host_run_id: String::new(),
            writer_version: WRITER.to_owned(),
            unknown: Default::default(),
        },
        captured_in: Some(CapturedIn {
            host_region: settings.host_region().unwrap_or_default(),
            egress_ip_geo: settings.egress_geo(),
            unknown: Default::default(),
        }),
        // No browser runs in it.
        mode: Mode::Cold,
        reason: match (wanted.origin, wanted.trigger) {
            (_, Trigger::BeforeRestore) => Reason::BeforeRestore,
            (Origin::Manual, _) => Reason::Manual,
            (Origin::Auto, Trigger::RunEnd) => Reason::RunEnd,
            (Origin::Auto, _) => Reason::Autosave,
        },
        labels: labels
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key.to_owned(), value))
            .collect(),
        notes: wanted.description.clone(),
        chrome_last_version: None,
        exit_type: None,
        chrome_uptime_seconds: 0,
        fallback: None,
        transforms: Vec::new(),
        exclusions,
        in_progress: None,
    }
}
