//! `pstore reap`

use serde_json::{Value, json};
use store::{ErrorKind, format::event::Actor, name::Tenant, ops::reap};

use super::Context;
use crate::{answer::Answer, args::ReapArgs, failure::Failure, location::Purpose, size::plural};

pub(super) async fn run(context: Context, args: &ReapArgs) -> Result<Answer, Failure> {
    let actor = context.actor(&args.actor);
    let tenants = match &args.tenant {
        Some(tenant) => vec![tenant.clone()],
        None => context.answer(context.store(Purpose::Read).await?.tenants()).await?,
    };
    let mut report = reap::Report::default();
    let mut skipped: Vec<(&Tenant, Failure)> = Vec::new();
    for tenant in &tenants {
        let swept = match sweep(&context, tenant, &actor, args).await {
            Ok(swept) => swept,
            // One tenant that cannot be read keeps no other from being swept.
            Err(failure) if args.tenant.is_none() && failure.kind != ErrorKind::Unavailable => {
                skipped.push((tenant, failure));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        report.evicted.extend(swept.evicted);
        report.failed.extend(swept.failed);
        report.left += swept.left;
        report.free += swept.free;
    }
    let evicted = report.evicted.iter().map(|(lineage, eviction)| {
        json!({
            "tenant_id": lineage.name.tenant,
            "profile_id": lineage.name.profile,
            "chrome_major_version": lineage.chrome_major,
            "holder_run_id": eviction.holder.run_id,
            "holder_host": eviction.holder.host,
            "holder_host_run_id": eviction.holder.host_run_id,
            "reason": eviction.reason,
            "expired_for_ms": eviction.expired_for.as_millis() as u64,
        })
    });
    let mut failed: Vec<(ErrorKind, String, String)> =
        skipped.into_iter().map(|(tenant, why)| (why.kind, tenant.to_string(), why.message)).collect();
    failed.extend(
        report.failed.iter().map(|(lineage, error)| (error.kind(), lineage.to_string(), error.to_string())),
    );
    let document = json!({
        "outcome": "swept",
        "tenants": tenants.len(),
        "evicted": evicted.collect::<Vec<Value>>(),
        "left": report.left,
        "free": report.free,
        "failed": failed
            .iter()
            .map(|(_, profile, message)| json!({ "profile": profile, "message": message }))
            .collect::<Vec<Value>>(),
    });
    let mut text: String = report
        .evicted
        .iter()
        .map(|(lineage, eviction)| {
            format!(
                "evicted {lineage}: run {:?} on {:?}, expired {} s ago\n",
                eviction.holder.run_id,
                eviction.holder.host,
                eviction.expired_for.as_secs()
            )
        })
        .collect();
    text.push_str(&format!(
        "{} evicted, {} held\n",
        plural(report.evicted.len() as u64, "lock", "locks"),
        report.left
    ));
    let verdict = failed.first().map(|(kind, profile, message)| {
        let rest = if failed.len() == 1 { String::new() } else { format!(", and {} more", failed.len() - 1) };
        let kind = if *kind == ErrorKind::NotFound { ErrorKind::Damaged } else { *kind };
        (kind, format!("locks of {profile} cannot be judged: {message}{rest}"))
    });
    Ok(Answer { verdict, ..Answer::new(document, text) })
}

async fn sweep(
    context: &Context,
    tenant: &Tenant,
    actor: &Actor,
    args: &ReapArgs,
) -> Result<reap::Report, Failure> {
    let store = context.tenant_to_change(tenant).await?;
    Ok(reap::reap(&store, actor, args.grace).await?)
}
