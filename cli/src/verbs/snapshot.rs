//! `snapshot` turns the arguments of `pstore snapshot` into a request, and its outcome into text.

use std::fmt::Write;

use engine::{
    Engine,
    captures::{CapturedFields, PointerChange, StoreChange},
    failure::Failure,
    text::size,
    verbs::snapshot::SnapshotRequest,
};

use super::commit;
use crate::{answer::Answer, args::SnapshotArgs};

impl SnapshotArgs {
    fn request(&self) -> SnapshotRequest {
        SnapshotRequest {
            directory: self.directory.clone(),
            profile: self.profile.clone(),
            chrome_major: self.chrome_major,
            force: self.force,
            capture: self.capture.options(),
            lock_token: self.lock_token,
            wait: self.wait,
        }
    }
}

pub(super) async fn run(engine: Engine, args: &SnapshotArgs) -> Result<Answer, Failure> {
    let outcome = engine.snapshot(&args.request()).await?;
    let brief = Some(format!("{}\n", outcome.captured.snapshot_id));
    let mut text = text(&outcome.captured);
    text.extend(outcome.frozen_ms.map(|frozen_ms| format!("  {}", commit::frozen(frozen_ms))));
    Ok(Answer { brief, ..Answer::of(&outcome, text)? })
}

/// A capture in words.
pub(super) fn text(captured: &CapturedFields) -> String {
    let mut text = String::new();
    let elapsed = size::seconds(captured.elapsed);
    let (prefix, lineage) = (&captured.sha256_prefix, captured.lineage.lineage());
    let is_new = captured.outcome == StoreChange::Stored;
    let _ = match is_new {
        true => writeln!(text, "Snapshot {prefix} of {lineage} stored in {elapsed}"),
        false => writeln!(text, "Unchanged: {lineage} is snapshot {prefix} already ({elapsed})"),
    };
    let _ = writeln!(
        text,
        "  files    {} ({} reused, {} read), {}",
        size::count(captured.files),
        size::count(captured.reused_files),
        size::count(captured.read_files),
        size::bytes(captured.uncompressed_size_bytes)
    );
    if is_new {
        let _ = writeln!(
            text,
            "  new      {} in {} of {}",
            size::bytes(captured.new_bytes),
            size::count(captured.new_chunks),
            size::plural(captured.chunks, "chunk", "chunks")
        );
        let _ = writeln!(text, "  stored   {}{}", size::bytes(captured.stored_bytes), saving(captured));
        if captured.taken_over_packs > 0 {
            let _ = writeln!(
                text,
                "  resumed  {} in {}, stored before by a write that was cut short",
                size::bytes(captured.taken_over_bytes),
                size::plural(captured.taken_over_packs, "pack", "packs")
            );
        }
    }
    let from = captured.flipped_from_sha256_prefix.as_deref().unwrap_or_default();
    let _ = match captured.pointer {
        PointerChange::Flipped if from.is_empty() => writeln!(text, "  pointer  set to {prefix}"),
        PointerChange::Flipped => writeln!(text, "  pointer  moved from {from} to {prefix}"),
        PointerChange::Unchanged if captured.held_back.is_some() => writeln!(text, "  pointer  not moved"),
        PointerChange::Unchanged => writeln!(text, "  pointer  still at {prefix}"),
    };
    text
}

fn saving(captured: &CapturedFields) -> String {
    match size::ratio(captured.uncompressed_size_bytes, captured.stored_bytes) {
        Some(ratio) if ratio >= 1.05 => format!(" ({ratio:.1} times less than the profile)"),
        _ => String::new(),
    }
}
