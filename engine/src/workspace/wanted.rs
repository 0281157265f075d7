//! `Wanted` is a checkpoint that somebody wants, and what the record of its snapshot says of that.

use std::path::Path;

use serde::{Deserialize, Serialize};
use store::{
    format::{
        WRITER,
        record::{CapturedBy, CapturedIn, Mode, Reason},
    },
    ops::write::snapshot::About,
};

use super::{outcome::Origin, request::Trigger};
use crate::settings::Settings;

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
        ("workspace", directory.display().to_string()),
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
