//! `pstore force-unlock`

use engine::failure::Failure;
use serde_json::json;
use store::{catalog::lineage_handle::LineageHandle, error::Holder, format::event::MAX_REASON_BYTES};

use super::Engine;
use crate::{answer::Answer, args::ForceUnlockArgs};

pub(super) async fn run(engine: Engine, args: &ForceUnlockArgs) -> Result<Answer, Failure> {
    let reason = checked_reason(&args.reason)?;
    if reason.is_empty() {
        return Err(Failure::usage("--reason is empty").hint("say why: it is written into the log"));
    }
    let (tenant, lineage) = engine.lineage_to_change(&args.lineage.name()).await?;
    let controls = LineageHandle::new(tenant, lineage.clone(), engine.actor(&args.actor.name()));
    let mut document = json!({
        "outcome": "planned",
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "reason": reason,
    });
    let found = match controls.lock().await {
        Ok(read) => read.filter(|read| !read.lock.is_free()).map(|read| Holder::from(&read)),
        // It can be taken away all the same.
        Err(error) => {
            engine.warn(&format!("the lock cannot be read: {error}"));
            Some(Holder::default())
        }
    };
    let taken = match args.confirm {
        true => controls.force_unlock(&reason).await?.map(|eviction| eviction.holder),
        false => found,
    };
    let known = taken.as_ref().filter(|holder| **holder != Holder::default());
    document["holder_run_id"] = json!(known.map(|holder| &holder.run_id));
    document["holder_host"] = json!(known.map(|holder| &holder.host));
    document["holder_host_run_id"] = json!(known.map(|holder| &holder.host_run_id));
    let text = match (taken, args.confirm) {
        (None, _) => {
            document["outcome"] = json!("free");
            format!("nobody holds the lock of {lineage}\n")
        }
        (Some(holder), true) => {
            document["outcome"] = json!("operator_force");
            format!("the lock of {lineage} was taken away from {}\n", told(&holder))
        }
        (Some(holder), false) => {
            let holder = if holder == Holder::default() { told(&holder) } else { holder.to_string() };
            format!("{lineage} is locked by {holder}\nnothing was written; add --confirm to take it away\n")
        }
    };
    Ok(Answer::new(document, text))
}

/// Who it was, without how long the lock would have held.
fn told(holder: &Holder) -> String {
    match (holder.run_id.as_str(), holder.host.as_str()) {
        _ if *holder == Holder::default() => "a holder that cannot be read".to_owned(),
        (run, "") => format!("run {run:?}"),
        (run, host) => format!("run {run:?} on {host:?}"),
    }
}

/// A reason as it can be kept.
pub(super) fn checked_reason(reason: &str) -> Result<String, Failure> {
    let reason = reason.trim();
    if reason.len() > MAX_REASON_BYTES {
        return Err(Failure::usage(format!("--reason is longer than {MAX_REASON_BYTES} bytes")));
    }
    Ok(reason.to_owned())
}
