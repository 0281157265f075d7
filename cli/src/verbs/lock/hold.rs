//! `hold` turns the arguments of `pstore lock hold` into a request, and its outcome into an exit code.

use engine::{
    Engine,
    failure::Failure,
    verbs::lock::hold::{HoldEnd, HoldLockRequest},
};

use crate::{answer::Answer, args::HoldArgs};

pub(super) async fn run(engine: Engine, args: &HoldArgs) -> Result<Answer, Failure> {
    let request = HoldLockRequest {
        lineage: args.lineage.name(),
        actor: args.actor.name(),
        wait: args.wait,
        command: args.command.clone(),
    };
    let outcome = engine.hold_lock(&request).await?;
    let exit = (outcome.outcome == HoldEnd::Ended).then_some(outcome.command_exit_code);
    Ok(Answer { exit, ..Answer::of(&outcome, String::new())? })
}
