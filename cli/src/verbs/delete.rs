//! `pstore delete`

mod all;
pub(super) mod receipt;

use std::fmt;

use engine::{
    failure::Failure,
    foreign::Meant,
    names::Subject as Named,
    text::{reason, size, time},
};
use serde_json::{Value, json};
use store::{
    Error, ErrorKind,
    catalog::{lineage_handle::LineageHandle, records},
    content::TenantStore,
    error::Needed,
    format::record::Record,
    id::{RecordId, SnapshotId},
    name::{Lineage, ProfileName, Tenant},
    ops::read::resolve::Reference,
};

use super::{Engine, foreign};
use crate::{
    answer::Answer,
    args::{ChosenArgs, DeleteArgs},
};

/// What is deleted with all that it has.
pub(super) enum Subject {
    Profile(ProfileName),
    Tenant(Tenant),
}

impl Subject {
    fn tenant(&self) -> &Tenant {
        match self {
            Self::Profile(name) => &name.tenant,
            Self::Tenant(tenant) => tenant,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(name) => name.fmt(f),
            Self::Tenant(tenant) => tenant.fmt(f),
        }
    }
}

pub(super) async fn run(engine: Engine, args: &DeleteArgs) -> Result<Answer, Failure> {
    if args.all && args.tombstone {
        return Err(Failure::usage("--all and --tombstone exclude each other")
            .hint("--all deletes what there is; --tombstone lets what was deleted begin anew"));
    }
    match &args.name {
        Named::Tenant(tenant) if args.all => all::tenant(engine, args, tenant).await,
        Named::Tenant(tenant) if args.tombstone => {
            all::begin_anew(engine, args, &Subject::Tenant(tenant.clone())).await
        }
        Named::Tenant(tenant) => Err(Failure::usage(format!("{tenant} is a tenant, not a snapshot")).hint(
            format!("`pstore delete {tenant}/PROFILE@REF` deletes a snapshot; `pstore delete {tenant} --all` says what the tenant has"),
        )),
        Named::Snapshot(name) if args.all || args.tombstone => {
            if let Some(reference) = name.typed() {
                let (profile, flag) = (&name.profile, if args.all { "--all" } else { "--tombstone" });
                return Err(Failure::usage(format!("{flag} goes with a profile, and @{reference} names a snapshot"))
                    .hint(format!("`pstore delete {profile} {flag}`; or leave {flag} out")));
            }
            match args.all {
                true => all::profile(engine, args, &name.profile).await,
                false => all::begin_anew(engine, args, &Subject::Profile(name.profile.clone())).await,
            }
        }
        Named::Snapshot(name) => {
            let (chrome_major, sha) = (args.chrome_major, args.sha.clone());
            one(engine, args, &ChosenArgs { name: name.clone(), chrome_major, sha }).await
        }
    }
}

async fn one(engine: Engine, args: &DeleteArgs, chosen: &ChosenArgs) -> Result<Answer, Failure> {
    let reason = reason::checked(&args.reason)?;
    let reference = chosen.required("delete")?;
    let (tenant, lineage) = engine.lineage_to_change(&chosen.lineage()).await?;
    let controls = LineageHandle::new(tenant.clone(), lineage.clone(), engine.actor(&args.actor.name()));
    if args.damaged {
        return give_up(&tenant, &controls, (reference, args.confirm), &reason).await;
    }
    let record = match engine.meant(&tenant, &lineage, Some(reference)).await {
        Ok(Meant::Anothers(manifest)) => return foreign::delete(&controls, &manifest, &reason).await,
        Ok(Meant::Ours(record)) => record,
        // Its record may be there, and damaged.
        Err(failure) if failure.kind == ErrorKind::NotFound => match whole_id(reference) {
            Some(id) => match records::get(&tenant, &lineage, id).await {
                Err(error @ Error::Damaged { .. }) => return Err(error.into()),
                _ => return Err(failure),
            },
            None => return Err(failure),
        },
        Err(failure) => return Err(failure),
    };
    if !args.tagged {
        require_untagged(&controls, &record).await?;
    }
    // A tag that somebody gives it now keeps it.
    let still = |record: &Record| args.tagged || record.tags.is_empty();
    let deleted = controls.delete_while(record.record, &reason, still).await;
    let deleted = deleted.map_err(|error| refused(&lineage, error))?;
    let text = format!(
        "deleted snapshot {} of {lineage}, captured {} UTC, {}\n",
        deleted.sha256_prefix(),
        time::utc(deleted.captured_at_ms),
        size::bytes(deleted.uncompressed_size_bytes)
    );
    Ok(Answer::new(document("deleted", &lineage, Told::of(&deleted), &reason), text))
}

/// Whoever gave a snapshot a name wants to find it again.
async fn require_untagged(controls: &LineageHandle, record: &Record) -> Result<(), Failure> {
    let (lineage, Some(first)) = (controls.lineage(), record.tags.keys().next()) else { return Ok(()) };
    // What keeps it in any case is told first.
    controls.may_delete(record.record).await.map_err(|error| refused(lineage, error))?;
    let (prefix, tags) = (record.sha256_prefix(), record.tags.keys().cloned().collect::<Vec<_>>().join(", "));
    let message = format!("snapshot {prefix} of {lineage} cannot be deleted: it is tagged {tags}");
    Err(Failure::new(ErrorKind::SnapshotNeeded, message).hint(format!(
        "`pstore untag {}@{prefix} {first}` takes the tag away; --tagged deletes the snapshot with its tags",
        lineage.name
    )))
}

async fn give_up(
    tenant: &TenantStore,
    controls: &LineageHandle,
    (reference, confirm): (&Reference, bool),
    reason: &str,
) -> Result<Answer, Failure> {
    let lineage = controls.lineage();
    let Some(id) = whole_id(reference) else {
        return Err(Failure::usage(format!(
            "--damaged takes the whole id of a record, and {:?} is none; `pstore verify {}` names those that are damaged",
            reference.to_string(),
            lineage.name
        )));
    };
    let reading = records::get(tenant, lineage, id).await;
    let damage = match reading {
        Err(Error::Damaged { reason, .. }) => reason,
        Err(error) => return Err(error.into()),
        Ok(_) => {
            let message = format!("the record {id} of {lineage} can be read");
            return Err(Failure::usage(message).hint("leave --damaged out to delete its snapshot"));
        }
    };
    let told = format!("record    {id} of {lineage}\ndamage    {damage}\n");
    if !confirm {
        // What would be refused is not planned.
        controls.may_give_up(id).await.map_err(|error| refused(lineage, error))?;
        let text = format!(
            "{told}nothing was written; add --confirm to give its snapshot up: a backup of the record \
             is of no use after the next collection\n"
        );
        return Ok(Answer::new(document("planned", lineage, Told::unread(id), reason), text));
    }
    controls.give_up(id, reason).await.map_err(|error| refused(lineage, error))?;
    let text = format!("{told}the snapshot was given up; the next collection frees what only it needed\n");
    Ok(Answer::new(document("given_up", lineage, Told::unread(id), reason), text))
}

fn whole_id(reference: &Reference) -> Option<RecordId> {
    reference.to_string().to_ascii_uppercase().parse().ok()
}

fn refused(lineage: &Lineage, error: Error) -> Failure {
    let Error::SnapshotNeeded { needed, .. } = &error else { return error.into() };
    let name = &lineage.name;
    let hint = match needed {
        Needed::Latest => format!("`pstore rollback {name}@OTHER --confirm` makes another one current"),
        Needed::Only => {
            format!("a profile keeps at least one snapshot; `pstore delete {name} --all` deletes the profile")
        }
        Needed::Mounted => "unmount it first".to_owned(),
        Needed::Session { id, host } => format!(
            "on {host}, `pstore unmount` if it is mounted, else `pstore sessions rescue {id}` or `discard {id} --confirm`; if that host is gone for ever, `pstore sessions discard {id} --remote {} --confirm` here",
            name.tenant
        ),
    };
    Failure::from(error).hint(hint)
}

/// What is known of a snapshot that goes.
struct Told {
    record: RecordId,
    sha256_prefix: String,
    snapshot_id: Option<SnapshotId>,
    captured_at_ms: u64,
}

impl Told {
    fn of(record: &Record) -> Self {
        Self {
            record: record.record,
            sha256_prefix: record.sha256_prefix(),
            snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
            captured_at_ms: record.captured_at_ms,
        }
    }

    /// Of one whose record cannot be read: its id tells when it was made.
    fn unread(record: RecordId) -> Self {
        Self { record, sha256_prefix: String::new(), snapshot_id: None, captured_at_ms: record.unix_ms() }
    }
}

fn document(outcome: &str, lineage: &Lineage, told: Told, reason: &str) -> Value {
    json!({
        "outcome": outcome,
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "sha256_prefix": told.sha256_prefix,
        "snapshot_id": told.snapshot_id,
        "record": told.record,
        "captured_at_ms": told.captured_at_ms,
        "reason": reason,
    })
}
