//! `pstore reap`

use engine::{Engine, failure::Failure, text::size::plural, turns::Turns};
use serde_json::{Value, json};
use store::{format::event::Actor, name::Tenant, ops::reap};

use crate::{answer::Answer, args::ReapArgs};

pub(super) async fn run(engine: Engine, args: &ReapArgs) -> Result<Answer, Failure> {
    let actor = engine.actor(&args.actor.name());
    let mut turns = Turns::of(&engine, args.tenant.as_ref(), "reap").await?;
    let mut report = reap::Report::default();
    for tenant in turns.tenants() {
        let swept = sweep(&engine, &tenant, &actor, args).await;
        let Some(swept) = turns.took(&tenant, swept)? else { continue };
        for (lineage, error) in swept.failed {
            turns.pass_over(&tenant, format!("the lock of {lineage}"), error.into());
        }
        report.evicted.extend(swept.evicted);
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
    let document = json!({
        "outcome": "swept",
        "tenants": turns.tenants().len(),
        "evicted": evicted.collect::<Vec<Value>>(),
        "left": report.left,
        "free": report.free,
        "failed": turns.failed(),
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
    Ok(Answer {
        verdict: turns.verdict().map(|failure| (failure.kind, failure.message)),
        ..Answer::new(document, text)
    })
}

async fn sweep(
    engine: &Engine,
    tenant: &Tenant,
    actor: &Actor,
    args: &ReapArgs,
) -> Result<reap::Report, Failure> {
    let store = engine.tenant_to_change(tenant).await?;
    Ok(reap::reap(&store, actor, args.grace).await?)
}
