//! `rollback` turns the arguments of `pstore rollback` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::{escape, size, time},
    verbs::rollback::{PointedAt, Rollback, RollbackOutcome, RollbackRequest},
};

use crate::{answer::Answer, args::RollbackArgs};

pub(super) async fn run(engine: Engine, args: &RollbackArgs) -> Result<Answer, Failure> {
    let request = RollbackRequest {
        snapshot: args.snapshot.choice(),
        actor: args.actor.name(),
        reason: args.reason.clone(),
        confirm: args.confirm,
        force: args.force,
        only_from: None,
    };
    let outcome = engine.rollback(&request).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &RollbackOutcome) -> String {
    let lineage = outcome.lineage.lineage();
    let to = outcome.to_sha256_prefix.as_deref().unwrap_or_default();
    if outcome.outcome == Rollback::Unchanged {
        return format!("{to} is the current snapshot of {lineage} already\n");
    }
    let change = escape::fields(&[
        ("profile", lineage.to_string()),
        ("from", pointed_at(&outcome.flipped_from_sha256_prefix, &outcome.from)),
        ("to", pointed_at(to, &outcome.to)),
    ]);
    let done = match (outcome.outcome, &outcome.to) {
        (Rollback::Planned, PointedAt::Archive { .. }) => {
            "nothing was written; add --confirm to take the archive in and move the pointer"
        }
        (Rollback::Planned, _) => "nothing was written; add --confirm to move the pointer",
        _ => "the pointer was moved",
    };
    format!("{change}{done}\n")
}

fn pointed_at(prefix: &str, at: &PointedAt) -> String {
    match at {
        PointedAt::Nothing => "nothing".to_owned(),
        PointedAt::Damaged => "a pointer that is damaged".to_owned(),
        PointedAt::Unreadable => format!("{prefix}  a snapshot whose record cannot be read"),
        PointedAt::Unknown => format!("{prefix}  put there by another program"),
        PointedAt::Snapshot { captured_at_ms, size_bytes, reason } => format!(
            "{prefix}  captured {} UTC, {}, {reason}",
            time::utc(*captured_at_ms),
            size::bytes(*size_bytes)
        ),
        PointedAt::Archive { captured_at_ms, size_bytes } => format!(
            "{prefix}  captured {} UTC, {}, archive of another program",
            time::utc(*captured_at_ms),
            size::bytes(*size_bytes)
        ),
    }
}
