//! `pstore delete`

use serde_json::json;
use store::{Error, catalog::controls::Controls, error::Needed};

use super::{Context, force_unlock::checked_reason};
use crate::{answer::Answer, args::DeleteArgs, failure::Failure, size, time};

pub(super) async fn run(context: Context, args: &DeleteArgs) -> Result<Answer, Failure> {
    let reason = checked_reason(&args.reason)?;
    let (tenant, lineage) = context.lineage_to_change(&args.lineage).await?;
    let record = context.snapshot(&tenant, &lineage, Some(&args.sha)).await?;
    let controls = Controls::new(tenant, lineage.clone(), context.actor(&args.actor));
    let deleted = controls.delete(record.record, &reason).await.map_err(|error| match &error {
        Error::SnapshotNeeded { needed, .. } => {
            let hint = match needed {
                Needed::Latest => format!(
                    "`pstore rollback {} --sha OTHER --confirm` makes another one current",
                    lineage.name
                ),
                Needed::Only => "a profile keeps at least one snapshot".to_owned(),
                Needed::Mounted => "unmount it first".to_owned(),
                Needed::Session { id, host } => format!(
                    "on {host}, `pstore unmount` if it is mounted, else `pstore sessions rescue {id}` or `discard {id} --confirm`; if that host is gone for ever, `pstore sessions discard {id} --remote {} --confirm` here",
                    lineage.name.tenant
                ),
            };
            Failure::from(error).hint(hint)
        }
        _ => error.into(),
    })?;
    let document = json!({
        "outcome": "deleted",
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "sha256_prefix": deleted.sha256_prefix(),
        "snapshot_id": deleted.content.as_ref().map(|content| content.snapshot_id),
        "record": deleted.record,
        "captured_at_ms": deleted.captured_at_ms,
        "reason": reason,
    });
    let text = format!(
        "deleted snapshot {} of {lineage}, captured {} UTC, {}\n",
        deleted.sha256_prefix(),
        time::utc(deleted.captured_at_ms),
        size::bytes(deleted.uncompressed_size_bytes)
    );
    Ok(Answer::new(document, text))
}
