//! `gc` turns the arguments of `pstore gc` into a request, and its outcome into text.

mod render_collection;
mod render_explanation;

use engine::{
    Engine,
    failure::Failure,
    verbs::gc::{GcExplainRequest, GcRequest},
};

use crate::{answer::Answer, args::GcArgs};

pub(super) async fn run(engine: Engine, args: &GcArgs) -> Result<Answer, Failure> {
    if let (Some(subject), Some(tenant)) = (&args.explain, &args.tenant) {
        let request = GcExplainRequest { tenant: tenant.clone(), subject: subject.clone() };
        let outcome = engine.gc_explain(&request).await?;
        let text = outcome.explanation.as_ref().map(render_explanation::text).unwrap_or_default();
        return Answer::of(&outcome, text);
    }
    let request = GcRequest {
        tenant: args.tenant.clone(),
        is_plan: args.dry_run,
        grace: args.grace,
        max_unused_percent: args.max_unused,
        memory_bytes: args.memory,
        waits: args.wait,
    };
    let outcome = engine.gc(&request).await?;
    Answer::of(&outcome, render_collection::text(&outcome.tenants, args.dry_run))
}
