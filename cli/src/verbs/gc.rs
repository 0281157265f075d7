//! `pstore gc`

mod explained;
mod told;

use serde_json::{Value, json};
use store::{
    ErrorKind,
    name::Tenant,
    ops::gc::{Collector, Options, Plan},
};

use super::Context;
use crate::{answer::Answer, args::GcArgs, failure::Failure, location::Purpose};

pub(super) async fn run(context: Context, args: &GcArgs) -> Result<Answer, Failure> {
    if let (Some(subject), Some(tenant)) = (&args.explain, &args.tenant) {
        return explained::run(&context, tenant, subject).await;
    }
    let tenants = match &args.tenant {
        Some(tenant) => vec![tenant.clone()],
        None => context.answer(context.store(Purpose::Read).await?.tenants()).await?,
    };
    let mut plans: Vec<Plan> = Vec::new();
    let mut failed: Vec<(&Tenant, Failure)> = Vec::new();
    for tenant in &tenants {
        match collect(&context, tenant, args).await {
            Ok(plan) => plans.push(plan),
            // One tenant that cannot be read keeps no other from being collected.
            Err(failure) if args.tenant.is_none() && failure.kind != ErrorKind::Unavailable => {
                context.console.warn(&format!("{tenant}: {}", failure.message));
                failed.push((tenant, failure));
            }
            Err(failure) => return Err(failure),
        }
    }
    let told =
        |(tenant, failure): &(&Tenant, Failure)| json!({ "tenant_id": tenant, "message": failure.message });
    let document = json!({
        "outcome": if args.dry_run { "planned" } else { "collected" },
        "tenants": plans.iter().map(told::document).collect::<Vec<Value>>(),
        "failed": failed.iter().map(told).collect::<Vec<Value>>(),
        "explanation": Value::Null,
    });
    let verdict = failed.first().map(|(tenant, failure)| {
        let rest = if failed.len() == 1 { String::new() } else { format!(", and {} more", failed.len() - 1) };
        let kind = if failure.kind == ErrorKind::NotFound { ErrorKind::Damaged } else { failure.kind };
        (kind, format!("nothing was condemned in {tenant}: {}{rest}", failure.message))
    });
    Ok(Answer { verdict, ..Answer::new(document, told::text(&plans, args.dry_run)) })
}

async fn collect(context: &Context, tenant: &Tenant, args: &GcArgs) -> Result<Plan, Failure> {
    let quota_bytes = context.settings.tenant(tenant).quota_bytes;
    let options = Options {
        max_unused_percent: args.max_unused,
        quota_bytes,
        memory_bytes: args.memory,
        ..Options::after(args.grace)
    };
    let scratch = context.cache_root.clone().unwrap_or_else(std::env::temp_dir);
    let plan = if args.dry_run {
        Collector::new(context.tenant(tenant).await?, options).with_scratch(scratch).plan().await
    } else {
        let collector =
            Collector::new(context.tenant_to_change(tenant).await?, options).with_scratch(scratch);
        if args.wait { collector.run_through().await } else { collector.run().await }
    };
    plan.map_err(|error| {
        Failure::from(error)
            .hint(format!("nothing was condemned in {tenant}; `pstore verify` says what is damaged there"))
    })
}
