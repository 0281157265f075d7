//! `reap` turns the arguments of `pstore reap` into a request, and its outcome into text.

use std::time::Duration;

use engine::{
    Engine,
    failure::Failure,
    host::signals,
    text::size::plural,
    verbs::reap::{EvictedLock, ReapOutcome, ReapRequest, Sweep},
};

use crate::{answer::Answer, args::ReapArgs};

pub(super) async fn run(engine: Engine, args: &ReapArgs) -> Result<Answer, Failure> {
    let request = ReapRequest {
        tenant: args.tenant.clone(),
        actor: args.actor.name(),
        grace: args.grace,
        is_plan: args.dry_run,
    };
    let outcome = match args.every {
        Some(every) => engine.reap_every(&request, every, signals::told_to_end()).await?,
        None => engine.reap(&request).await?,
    };
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &ReapOutcome) -> String {
    let (one, all) = match outcome.outcome {
        Sweep::Swept => ("evicted", "evicted"),
        Sweep::Planned => ("would evict", "would be evicted"),
    };
    let line = |lock: &EvictedLock| {
        format!(
            "{one} {}: run {:?} on {:?}, expired {} s ago\n",
            lock.lineage.lineage(),
            lock.holder_run_id,
            lock.holder_host,
            Duration::from_millis(lock.expired_for_ms).as_secs()
        )
    };
    let lines: String = outcome.evicted.iter().map(line).collect();
    let evicted = plural(outcome.evicted.len() as u64, "lock", "locks");
    format!("{lines}{evicted} {all}, {} held\n", outcome.left)
}
