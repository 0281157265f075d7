//! `pstore gc`

mod explained;
mod told;

use serde_json::{Value, json};
use store::{
    Error, ErrorKind,
    name::Tenant,
    ops::gc::{Collector, Options, Plan, Stopped},
};

use super::Context;
use crate::{
    answer::Answer,
    args::GcArgs,
    failure::{self, Failure},
    location::Purpose,
    size,
};

pub(super) async fn run(context: Context, args: &GcArgs) -> Result<Answer, Failure> {
    if let (Some(subject), Some(tenant)) = (&args.explain, &args.tenant) {
        return explained::run(&context, tenant, subject).await;
    }
    let tenants = match &args.tenant {
        Some(tenant) => vec![tenant.clone()],
        None => context.answer(context.store(Purpose::Read).await?.tenants()).await?,
    };
    let mut plans: Vec<Plan> = Vec::new();
    let mut failed: Vec<(&Tenant, Halt)> = Vec::new();
    for tenant in &tenants {
        match collect(&context, tenant, args).await {
            Ok(plan) => plans.push(plan),
            // One tenant that cannot be read keeps no other from being collected.
            Err(halt) if args.tenant.is_none() && halt.failure.kind != ErrorKind::Unavailable => {
                context.console.warn(&format!("{tenant}: {}", halt.failure.message));
                failed.push((tenant, halt));
            }
            Err(halt) => return Err(halt.failure),
        }
    }
    let told =
        |(tenant, halt): &(&Tenant, Halt)| json!({ "tenant_id": tenant, "message": halt.failure.message });
    let document = json!({
        "outcome": if args.dry_run { "planned" } else { "collected" },
        "tenants": plans.iter().map(told::document).collect::<Vec<Value>>(),
        "failed": failed.iter().map(told).collect::<Vec<Value>>(),
        "explanation": Value::Null,
    });
    let verdict = failed.first().map(|(tenant, Halt { failure, condemned })| {
        let rest = if failed.len() == 1 { String::new() } else { format!(", and {} more", failed.len() - 1) };
        let kind = if failure.kind == ErrorKind::NotFound { ErrorKind::Damaged } else { failure.kind };
        (kind, format!("{}: {}{rest}", done(tenant, *condemned), failure.message))
    });
    Ok(Answer { verdict, ..Answer::new(document, told::text(&plans, args.dry_run)) })
}

async fn collect(context: &Context, tenant: &Tenant, args: &GcArgs) -> Result<Plan, Halt> {
    let quota_bytes = context.settings.tenant(tenant).quota_bytes;
    let options = Options {
        max_unused_percent: args.max_unused,
        quota_bytes,
        memory_bytes: args.memory,
        ..Options::after(args.grace)
    };
    let scratch = context.cache_root.clone().unwrap_or_else(std::env::temp_dir);
    if args.dry_run {
        let collector = Collector::new(context.tenant(tenant).await?, options).with_scratch(scratch);
        return collector.plan().await.map_err(|error| stopped(tenant, error, 0));
    }
    let collector = Collector::new(context.tenant_to_change(tenant).await?, options).with_scratch(scratch);
    let plan = if args.wait { collector.run_through().await } else { collector.run().await };
    plan.map_err(|Stopped { error, condemned }| stopped(tenant, error, condemned.packs))
}

/// Why a tenant's collection ended before its time, and how many packs it had condemned by then.
struct Halt {
    failure: Failure,
    condemned: u64,
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self { failure, condemned: 0 }
    }
}

fn stopped(tenant: &Tenant, error: Error, condemned: u64) -> Halt {
    let remedy = match &error {
        Error::Damaged { object, .. } => failure::record_remedy(object),
        _ => None,
    };
    let remedy = remedy.unwrap_or_else(|| "`pstore verify` says what is damaged there".to_owned());
    let hint = format!("{}; {remedy}", done(tenant, condemned));
    Halt { failure: Failure::from(error).hint(hint), condemned }
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
