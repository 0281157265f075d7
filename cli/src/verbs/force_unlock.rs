//! `force_unlock` turns the arguments of `pstore force-unlock` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    verbs::force_unlock::{ForceUnlockOutcome, ForceUnlockRequest, Unlocking},
};
use store::error::Holder;

use crate::{answer::Answer, args::ForceUnlockArgs};

pub(super) async fn run(engine: Engine, args: &ForceUnlockArgs) -> Result<Answer, Failure> {
    let request = ForceUnlockRequest {
        lineage: args.lineage.name(),
        actor: args.actor.name(),
        reason: args.reason.clone(),
        confirm: args.confirm,
    };
    let outcome = engine.force_unlock(&request).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &ForceUnlockOutcome) -> String {
    let lineage = outcome.lineage.lineage();
    let holder = outcome.holder.clone().unwrap_or_default();
    match outcome.outcome {
        Unlocking::Free => format!("nobody holds the lock of {lineage}\n"),
        Unlocking::OperatorForce => {
            format!("the lock of {lineage} was taken away from {}\n", named(&holder))
        }
        Unlocking::Planned => {
            let holder = if holder == Holder::default() { named(&holder) } else { holder.to_string() };
            format!("{lineage} is locked by {holder}\nnothing was written; add --confirm to take it away\n")
        }
    }
}

/// Who it was, without how long the lock would have held.
fn named(holder: &Holder) -> String {
    match (holder.run_id.as_str(), holder.host.as_str()) {
        _ if *holder == Holder::default() => "a holder that cannot be read".to_owned(),
        (run, "") => format!("run {run:?}"),
        (run, host) => format!("run {run:?} on {host:?}"),
    }
}
