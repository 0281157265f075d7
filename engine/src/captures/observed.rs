//! `observe_capture` tells the observer how a capture or a commit ended.

use std::time::Instant;

use store::{
    name::ProfileName,
    ops::write::snapshot::{Outcome, Report},
};

use super::CaptureMode;
use crate::{
    Engine,
    failure::Failure,
    observer::{CaptureResult, CaptureSource, Captured, Observation},
};

impl Engine {
    /// Waits for a capture, and tells the observer how it ended. `report` finds the report in what it came to.
    pub(crate) async fn observe_capture<T>(
        &self,
        profile: &ProfileName,
        mode: CaptureMode,
        source: CaptureSource,
        capture: impl Future<Output = Result<T, Failure>>,
        report: impl FnOnce(&T) -> &Report,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        // On the heap: the caller would have it on the stack.
        let captured = Box::pin(capture).await;
        let (report, failure) = match &captured {
            Ok(captured) => (Some(report(captured)), None),
            Err(failure) => (None, Some(failure)),
        };
        let outcome = match report.map(|report| report.outcome) {
            Some(Outcome::Stored) => CaptureResult::Success,
            Some(Outcome::Unchanged) => CaptureResult::Skipped,
            None => CaptureResult::Failed,
        };
        self.observer.observe(&Observation::Captured(Captured {
            profile,
            outcome,
            mode: mode.word(),
            phases: report.map(|report| report.phases),
            elapsed: began.elapsed(),
            uncompressed_bytes: report.map(|report| report.uncompressed_bytes),
            stored_bytes: report.map_or(0, |report| report.counts.stored_bytes),
            archive_bytes: None,
            held_back: report.and_then(|report| Some(report.held_back.as_ref()?.word)),
            login_lapses_at_ms: report.and_then(first_lapse),
            source,
            failure,
        }));
        captured
    }
}

/// When the first cookie lapses that is expected of the profile.
fn first_lapse(report: &Report) -> Option<u64> {
    let expected = report.health.as_ref()?.expected.as_ref()?;
    expected.first_lapse().map(|(_, lapses_at_ms)| lapses_at_ms)
}
