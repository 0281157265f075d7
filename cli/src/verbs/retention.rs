//! `retention` turns the arguments of `pstore retention` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::{size::plural, time},
    verbs::retention::{Retention, RetentionOutcome, RetentionRequest},
};

use crate::{
    answer::Answer,
    args::{RetentionArgs, RetentionVerb},
    table::{Align::Left, Table},
};

pub(super) async fn run(engine: Engine, args: &RetentionArgs) -> Result<Answer, Failure> {
    let request = match &args.verb {
        RetentionVerb::Plan(args) => RetentionRequest { scope: args.scope.clone(), apply: None },
        RetentionVerb::Apply(args) => {
            RetentionRequest { scope: args.scope.clone(), apply: Some(args.actor.name()) }
        }
    };
    let outcome = engine.retention(&request).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &RetentionOutcome) -> String {
    let mut table = Table::new(&[
        ("PROFILE", Left),
        ("SNAPSHOT", Left),
        ("STORED (UTC)", Left),
        ("DECISION", Left),
        ("BECAUSE", Left),
    ]);
    for snapshot in &outcome.snapshots {
        table.row(vec![
            snapshot.lineage.lineage().to_string(),
            snapshot.sha256_prefix.clone(),
            time::utc(snapshot.stored_at_ms),
            snapshot.decision.as_str().to_owned(),
            snapshot.because.clone(),
        ]);
    }
    let done = match outcome.outcome {
        Retention::Applied => "removed",
        Retention::Planned => "would be removed",
    };
    format!("{}\n{} {done}\n", table.render(), plural(outcome.removed, "snapshot", "snapshots"))
}
