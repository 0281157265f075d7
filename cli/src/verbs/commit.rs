//! `commit` turns the arguments of `pstore commit` into a request, and its outcome into text.

use engine::{
    captures::StoreChange,
    failure::Failure,
    settings::Settings,
    text::size,
    verbs::commit::{self, CommitOutcome, CommitRequest},
};

use crate::{answer::Answer, args::CommitArgs};

pub(super) async fn run(settings: &Settings, args: &CommitArgs) -> Result<Answer, Failure> {
    let request = CommitRequest {
        mountpoint: args.mountpoint.clone(),
        other: args.other.clone(),
        force: args.force,
        capture: args.capture.options(),
    };
    answer(&commit::commit(settings, &request).await?)
}

pub(super) fn answer(outcome: &CommitOutcome) -> Result<Answer, Failure> {
    let brief = Some(format!("{}\n", outcome.captured.snapshot_id));
    Ok(Answer { brief, ..Answer::of(outcome, text(outcome))? })
}

/// The word of a capture beside a browser.
const RUNNING: &str = "running";

/// For how long writers had to wait, in words.
pub(super) fn frozen(frozen_ms: f64) -> String {
    format!("changes waited {frozen_ms:.1} ms\n")
}

pub(super) fn text(outcome: &CommitOutcome) -> String {
    let captured = &outcome.captured;
    let mut text = match captured.outcome {
        StoreChange::Unchanged => format!("nothing has changed since {}\n", captured.sha256_prefix),
        StoreChange::Stored => format!(
            "{} {}: {} of {} files changed, {} stored\n",
            captured.lineage.lineage().name,
            captured.sha256_prefix,
            captured.read_files,
            captured.files,
            size::bytes(captured.stored_bytes)
        ),
    };
    if captured.ended.as_deref() == Some(RUNNING) {
        text.push_str(&frozen(outcome.frozen_ms));
    }
    text.extend(outcome.replaced.iter().map(|replaced| format!("it replaces {replaced}\n")));
    text
}
