//! `observe_capture` tells the observer how a capture or a commit ended.

use std::time::Instant;

use store::{
    format::record::Mode,
    name::ProfileName,
    ops::write::snapshot::{Outcome, Report},
};

use crate::{
    Engine,
    failure::Failure,
    observer::{CaptureResult, Captured, Observation},
};

impl Engine {
    /// Waits for a capture, and tells the observer how it ended. `report` finds the report in what it came to.
    pub(crate) async fn observe_capture<T>(
        &self,
        profile: &ProfileName,
        capture: impl Future<Output = Result<T, Failure>>,
        report: impl FnOnce(&T) -> &Report,
    ) -> Result<T, Failure> {
        let began = Instant::now();
        // On the heap: whoever captures would have it on the stack.
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
            mode: Mode::Cold,
            phases: report.map(|report| report.phases),
            elapsed: began.elapsed(),
            uncompressed_bytes: report.map(|report| report.uncompressed_bytes),
            stored_bytes: report.map_or(0, |report| report.counts.stored_bytes),
            is_held_back: report.is_some_and(|report| report.held_back.is_some()),
            failure,
        }));
        captured
    }
}
