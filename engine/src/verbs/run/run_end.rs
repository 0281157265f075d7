//! `RunEnd` holds how the load, the command and the capture of a run ended.

use capture::load::{Loaded, Outcome};
use store::{name::Lineage, ops::write::snapshot::Report};

use crate::{
    failure::Failure,
    host::supervise::CommandEnd,
    mount::{Notes, Published},
};

/// How a run ended.
pub(super) struct RunEnd {
    pub(super) lineage: Lineage,
    pub(super) mounted: bool,
    pub(super) load: Load,
    pub(super) command_end: CommandEnd,
    /// `None` if there was no capture, because the lock was lost.
    pub(super) captured: Option<Result<Captured, Failure>>,
    /// The session that holds the changes that were not captured.
    pub(super) session: Option<String>,
}

/// How the profile was found.
pub(super) struct Load {
    pub(super) outcome: Outcome,
    pub(super) reason: Option<String>,
    pub(super) warnings: Vec<String>,
}

impl From<Loaded> for Load {
    fn from(loaded: Loaded) -> Self {
        Self { outcome: loaded.outcome, reason: loaded.reason, warnings: loaded.warnings }
    }
}

impl From<Notes> for Load {
    fn from(notes: Notes) -> Self {
        Self { outcome: notes.outcome, reason: notes.reason, warnings: notes.warnings }
    }
}

/// The snapshot that a run has left.
pub(super) struct Captured {
    pub(super) report: Report,
    /// Remarks about the directory where the command had it.
    pub(super) remarks: Vec<String>,
}

impl From<Published> for Captured {
    fn from(published: Published) -> Self {
        Self { report: published.report, remarks: published.remarks }
    }
}
