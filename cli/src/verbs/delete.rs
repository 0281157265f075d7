//! `delete` turns the arguments of `pstore delete` into a request, and its outcome into text.

mod receipt;

use engine::{
    Engine,
    failure::Failure,
    text::{size, time},
    verbs::delete::{DeleteOutcome, DeleteRequest, DeletedSnapshot, SnapshotDeletion},
};

use crate::{answer::Answer, args::DeleteArgs};

pub(super) async fn run(engine: Engine, args: &DeleteArgs) -> Result<Answer, Failure> {
    let request = DeleteRequest {
        name: args.name.clone(),
        chrome_major: args.chrome_major,
        sha: args.sha.clone(),
        all: args.all,
        ignore_session: args.ignore_session.clone(),
        tombstone: args.tombstone,
        actor: args.actor.name(),
        reason: args.reason.clone(),
        tagged: args.tagged,
        damaged: args.damaged,
        confirm: args.confirm,
    };
    let outcome = engine.delete(&request).await?;
    Answer::of(&outcome, text(&outcome))
}

/// A deletion in words.
pub(super) fn text(outcome: &DeleteOutcome) -> String {
    match outcome {
        DeleteOutcome::Snapshot(deleted) => snapshot(deleted),
        DeleteOutcome::All(receipt) => receipt::text(receipt),
    }
}

fn snapshot(deleted: &DeletedSnapshot) -> String {
    let (lineage, prefix) = (deleted.lineage.lineage(), &deleted.sha256_prefix);
    let captured = time::utc(deleted.captured_at_ms);
    if let (Some(record), Some(damage)) = (deleted.record, &deleted.damage) {
        let done = match deleted.outcome {
            SnapshotDeletion::GivenUp => {
                "the snapshot was given up; the next collection frees what only it needed"
            }
            _ => {
                "nothing was written; add --confirm to give its snapshot up: a backup of the record \
                 is of no use after the next collection"
            }
        };
        return format!("record    {record} of {lineage}\ndamage    {damage}\n{done}\n");
    }
    match deleted.size_bytes {
        Some(bytes) => format!(
            "deleted snapshot {prefix} of {lineage}, captured {captured} UTC, {}\n",
            size::bytes(bytes)
        ),
        None => format!(
            "deleted the archive {prefix} of {lineage}, which another program had stored, captured {captured} UTC\n"
        ),
    }
}
