//! `pstore reap`

use serde_json::{Value, json};
use store::{ErrorKind, ops::reap};

use super::Context;
use crate::{answer::Answer, args::ReapArgs, failure::Failure, location::Purpose, size::plural};

pub(super) async fn run(context: Context, args: &ReapArgs) -> Result<Answer, Failure> {
    let actor = context.actor(&args.actor);
    let tenants = match &args.tenant {
        Some(tenant) => vec![tenant.clone()],
        None => context.answer(context.store(Purpose::Read).await?.tenants()).await?,
    };
    let mut report = reap::Report::default();
    for tenant in &tenants {
        let store = context.tenant_to_change(tenant).await?;
        let swept = reap::reap(&store, &actor, args.grace).await?;
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
    let failed = report
        .failed
        .iter()
        .map(|(lineage, error)| json!({ "profile": lineage.to_string(), "message": error.to_string() }));
    let document = json!({
        "outcome": "swept",
        "tenants": tenants.len(),
        "evicted": evicted.collect::<Vec<Value>>(),
        "left": report.left,
        "free": report.free,
        "failed": failed.collect::<Vec<Value>>(),
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
    let verdict = report.failed.first().map(|(lineage, error)| {
        let more = report.failed.len() - 1;
        let rest = if more == 0 { String::new() } else { format!(", and {more} more") };
        (error.kind(), format!("the lock of {lineage} cannot be judged: {error}{rest}"))
    });
    let verdict = verdict
        .map(|(kind, text)| (if kind == ErrorKind::NotFound { ErrorKind::Damaged } else { kind }, text));
    Ok(Answer { verdict, ..Answer::new(document, text) })
}
