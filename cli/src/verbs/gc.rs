//! `pstore gc`

mod explained;
mod told;

use engine::{
    Engine,
    failure::{self, Failure},
    location::Purpose,
    text::size,
    turns::Turns,
};
use serde_json::{Value, json};
use store::{
    Error,
    name::Tenant,
    ops::gc::{Collector, Options, Plan, Stopped},
};

use crate::{answer::Answer, args::GcArgs};

pub(super) async fn run(engine: Engine, args: &GcArgs) -> Result<Answer, Failure> {
    if let (Some(subject), Some(tenant)) = (&args.explain, &args.tenant) {
        return explained::run(&engine, tenant, subject).await;
    }
    let mut turns = Turns::of(&engine, args.tenant.as_ref(), "gc").await?;
    let mut plans: Vec<Plan> = Vec::new();
    for tenant in turns.tenants() {
        let collected = collect(&engine, &tenant, args).await;
        plans.extend(turns.took(&tenant, collected)?);
    }
    let document = json!({
        "outcome": if args.dry_run { "planned" } else { "collected" },
        "tenants": plans.iter().map(told::document).collect::<Vec<Value>>(),
        "failed": turns.failed(),
        "explanation": Value::Null,
    });
    Ok(Answer {
        verdict: turns.verdict().map(|failure| (failure.kind, failure.message)),
        ..Answer::new(document, told::text(&plans, args.dry_run))
    })
}

async fn collect(engine: &Engine, tenant: &Tenant, args: &GcArgs) -> Result<Plan, Failure> {
    let quota_bytes = engine.settings.tenant(tenant).quota_bytes;
    let options = Options {
        max_unused_percent: args.max_unused,
        quota_bytes,
        memory_bytes: args.memory,
        ..Options::after(args.grace)
    };
    let scratch = engine.cache_root.clone().unwrap_or_else(std::env::temp_dir);
    if args.dry_run {
        let collector = Collector::new(engine.tenant_or_tombstone(tenant, Purpose::Read).await?, options)
            .with_scratch(scratch);
        return collector.plan().await.map_err(|error| stopped(tenant, error, 0));
    }
    let store = engine.tenant_or_tombstone(tenant, Purpose::Change).await?;
    let collector = Collector::new(store, options).with_scratch(scratch);
    let plan = if args.wait { collector.run_through().await } else { collector.run().await };
    plan.map_err(|Stopped { error, condemned }| stopped(tenant, error, condemned.packs))
}

/// Why a tenant's collection ended before its time; it had condemned so many packs by then.
fn stopped(tenant: &Tenant, error: Error, condemned: u64) -> Failure {
    let remedy = match &error {
        Error::Damaged { object, .. } => failure::record_remedy(object),
        _ => None,
    };
    let remedy = remedy.unwrap_or_else(|| format!("`pstore verify {tenant}` says what is damaged"));
    let hint = format!("{}; {remedy}", done(tenant, condemned));
    Failure::from(error).hint(hint)
}

fn done(tenant: &Tenant, condemned: u64) -> String {
    match condemned {
        0 => format!("nothing was condemned in {tenant}"),
        packs => {
            let packs = size::plural(packs, "pack was", "packs were");
            format!("{packs} condemned in {tenant} before it stopped, and the next run goes on")
        }
    }
}
