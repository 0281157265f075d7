//! `pstore gc`

mod explained;
mod told;

use serde_json::{Value, json};
use store::ops::gc::{Collector, Options, Plan};

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
    let options = Options { grace: args.grace };
    let mut plans: Vec<Plan> = Vec::new();
    for tenant in &tenants {
        let plan = if args.dry_run {
            Collector::new(context.tenant(tenant).await?, options).plan().await
        } else {
            let collector = Collector::new(context.tenant_to_change(tenant).await?, options);
            if args.wait { collector.run_through().await } else { collector.run().await }
        };
        plans.push(plan.map_err(|error| {
            Failure::from(error).hint(format!(
                "nothing was condemned in {tenant}; `pstore verify` says what is damaged there"
            ))
        })?);
    }
    let document = json!({
        "outcome": if args.dry_run { "planned" } else { "collected" },
        "tenants": plans.iter().map(told::document).collect::<Vec<Value>>(),
        "explanation": Value::Null,
    });
    Ok(Answer::new(document, told::text(&plans, args.dry_run)))
}
