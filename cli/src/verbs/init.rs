//! `init` turns the arguments of `pstore init` into a request, and its outcome into text.

use engine::{
    Engine,
    failure::Failure,
    text::time,
    verbs::init::{InitChange, InitOutcome, InitRequest},
};

use crate::{answer::Answer, args::InitArgs};

pub(super) async fn run(engine: Engine, args: &InitArgs) -> Result<Answer, Failure> {
    let outcome = engine.init(&InitRequest { chunking: args.chunking() }).await?;
    let InitOutcome { store, created_at_ms, .. } = &outcome;
    let text = match outcome.outcome {
        InitChange::Created => format!("Made a store at {store}\n"),
        InitChange::Existing => {
            format!("There is a store at {store} since {} UTC\n", time::utc(*created_at_ms))
        }
    };
    Answer::of(&outcome, text)
}
