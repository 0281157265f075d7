//! `pstore rollback`

use engine::{
    failure::Failure,
    foreign::Meant,
    text::{escape, reason, size, time},
};
use serde_json::{Value, json};
use store::{
    catalog::{lineage_handle::LineageHandle, pointer::Flip},
    format::{event::EventKind, pointer::Target, record::Record},
    name::Lineage,
    ops::pointer_move,
};

use super::{Engine, foreign};
use crate::{answer::Answer, args::RollbackArgs};

const UNREADABLE: &str = "a pointer that is damaged";

pub(super) async fn run(engine: Engine, args: &RollbackArgs) -> Result<Answer, Failure> {
    let reason = reason::checked(&args.reason)?;
    let reference = args.snapshot.required("rollback")?;
    let (tenant, lineage) = engine.lineage_to_change(&args.snapshot.lineage()).await?;
    let meant = engine.meant(&tenant, &lineage, Some(reference)).await?;
    let controls = LineageHandle::new(tenant.clone(), lineage.clone(), engine.actor(&args.actor.name()));
    let (pointer, is_damaged) = engine.pointer_to_move(&controls, args.force).await?;
    let target = match meant {
        Meant::Ours(record) => *record,
        Meant::Anothers(manifest) if !args.confirm => {
            let active = pointer.as_ref().map_or("", |pointer| pointer.active_sha256_prefix.as_str());
            return Ok(foreign::planned_rollback(&lineage, &manifest, active, &reason));
        }
        Meant::Anothers(manifest) => engine.take_in(&tenant, &lineage, *manifest).await?,
    };
    let is_ours = matches!(pointer.as_ref().map(|pointer| pointer.target()), Some(Target::Record(_)));
    let from = match is_ours {
        true => engine.snapshot(&tenant, &lineage, None).await.ok(),
        false => None,
    };
    let active = pointer.as_ref().map_or("", |pointer| pointer.active_sha256_prefix.as_str()).to_owned();
    let already = pointer.as_ref().is_some_and(|pointer| pointer.target() == Target::Record(target.record));
    let document = |outcome: &str, to: &Record| document(outcome, &lineage, &active, to, &reason);
    let (job, told) = (super::export::policy(&engine, &lineage.name.tenant), engine.progress());
    if let Some(pointer) = pointer.as_ref().filter(|_| already) {
        let target = match args.confirm {
            true => {
                let seen = pointer.contract_only_seen();
                pointer_move::named_already(&controls, seen, target, Some(&job), told).await?
            }
            false => target,
        };
        let text = format!("{} is the current snapshot of {lineage} already\n", target.sha256_prefix());
        return Ok(Answer::new(document("unchanged", &target), text));
    }
    let change = escape::fields(&[
        (
            "from",
            match &from {
                _ if is_damaged => UNREADABLE.to_owned(),
                None if is_ours => format!("{active}  a snapshot whose record cannot be read"),
                from => line(&active, from.as_ref()),
            },
        ),
        ("to", line(&target.sha256_prefix(), Some(&target))),
    ]);
    if !args.confirm {
        let text =
            format!("profile   {lineage}\n{change}nothing was written; add --confirm to move the pointer\n");
        return Ok(Answer::new(document("planned", &target), text));
    }
    let how = (reason.clone(), args.force);
    let (target, flip) = pointer_move::point(&controls, target, EventKind::Rollback, how, &job, told).await?;
    let outcome = match flip {
        Flip::Flipped { .. } => "rolled_back",
        Flip::Unchanged => "unchanged",
    };
    Ok(Answer::new(
        document(outcome, &target),
        format!("profile   {lineage}\n{change}the pointer was moved\n"),
    ))
}

fn document(outcome: &str, lineage: &Lineage, from: &str, to: &Record, reason: &str) -> Value {
    json!({
        "outcome": outcome,
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "active_sha256_prefix": if outcome == "planned" { from.to_owned() } else { to.sha256_prefix() },
        "flipped_from_sha256_prefix": from,
        "to_sha256_prefix": to.sha256_prefix(),
        "record": to.record,
        "snapshot_id": to.content.as_ref().map(|content| content.snapshot_id),
        "captured_at_ms": to.captured_at_ms,
        "reason": reason,
    })
}

fn line(prefix: &str, record: Option<&Record>) -> String {
    match record {
        Some(record) => format!(
            "{prefix}  captured {} UTC, {}, {}",
            time::utc(record.captured_at_ms),
            size::bytes(record.uncompressed_size_bytes),
            record.reason.as_str()
        ),
        None if prefix.is_empty() => "nothing".to_owned(),
        None => format!("{prefix}  put there by another program"),
    }
}
