//! `snapshot` deletes one snapshot, or gives it up because its record cannot be read.

use store::{
    Error, ErrorKind,
    catalog::{lineage_handle::LineageHandle, records},
    content::TenantStore,
    error::Needed,
    format::{manifest::Manifest, record::Record},
    id::RecordId,
    name::Lineage,
    ops::read::resolve::Reference,
};

use super::{DeleteRequest, DeletedSnapshot, SnapshotDeletion};
use crate::{Engine, failure::Failure, foreign::IntendedFlip, names::SnapshotChoice, text::reason};

impl Engine {
    pub(super) async fn delete_snapshot(
        &self,
        request: &DeleteRequest,
        chosen: &SnapshotChoice,
    ) -> Result<DeletedSnapshot, Failure> {
        let reason = reason::checked(&request.reason)?;
        let reference = chosen.required("delete")?;
        let (tenant, lineage) = self.lineage_to_change(&chosen.lineage()).await?;
        let handle = LineageHandle::new(tenant.clone(), lineage.clone(), self.actor(&request.actor));
        if request.damaged {
            return give_up(&tenant, &handle, (reference, request.confirm), reason).await;
        }
        let record = match self.named_snapshot(&tenant, &lineage, Some(reference)).await {
            Ok(IntendedFlip::Anothers(manifest)) => return archive(&handle, &manifest, reason).await,
            Ok(IntendedFlip::Ours(record)) => record,
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
        if !request.tagged {
            require_untagged(&handle, &record).await?;
        }
        // A tag that somebody gives it now keeps it.
        let still = |record: &Record| request.tagged || record.tags.is_empty();
        let deleted = handle.delete_while(record.record, &reason, still).await;
        let deleted = deleted.map_err(|error| refused(&lineage, error))?;
        Ok(DeletedSnapshot {
            outcome: SnapshotDeletion::Deleted,
            lineage: (&lineage).into(),
            sha256_prefix: deleted.sha256_prefix(),
            snapshot_id: deleted.content.as_ref().map(|content| content.snapshot_id),
            record: Some(deleted.record),
            captured_at_ms: deleted.captured_at_ms,
            reason,
            size_bytes: Some(deleted.uncompressed_size_bytes),
            damage: None,
        })
    }
}

/// A user who tagged a snapshot wants to find it again.
async fn require_untagged(handle: &LineageHandle, record: &Record) -> Result<(), Failure> {
    let (lineage, Some(first)) = (handle.lineage(), record.tags.keys().next()) else { return Ok(()) };
    // What keeps it in any case is told first.
    handle.may_delete(record.record).await.map_err(|error| refused(lineage, error))?;
    let (prefix, tags) = (record.sha256_prefix(), record.tags.keys().cloned().collect::<Vec<_>>().join(", "));
    let message = format!("snapshot {prefix} of {lineage} cannot be deleted: it is tagged {tags}");
    Err(Failure::new(ErrorKind::SnapshotNeeded, message).hint(format!(
        "`pstore untag {}@{prefix} {first}` takes the tag away; --tagged deletes the snapshot with its tags",
        lineage.name
    )))
}

async fn give_up(
    tenant: &TenantStore,
    handle: &LineageHandle,
    (reference, confirm): (&Reference, bool),
    reason: String,
) -> Result<DeletedSnapshot, Failure> {
    let lineage = handle.lineage();
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
    let outcome = if confirm { SnapshotDeletion::GivenUp } else { SnapshotDeletion::Planned };
    match confirm {
        // What would be refused is not planned.
        false => handle.may_give_up(id).await.map(drop),
        true => handle.give_up(id, &reason).await.map(drop),
    }
    .map_err(|error| refused(lineage, error))?;
    Ok(DeletedSnapshot {
        outcome,
        lineage: lineage.into(),
        sha256_prefix: String::new(),
        snapshot_id: None,
        record: Some(id),
        // Its id tells when it was made.
        captured_at_ms: id.unix_ms(),
        reason,
        size_bytes: None,
        damage: Some(damage),
    })
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

/// Removes an archive of another program.
async fn archive(
    handle: &LineageHandle,
    manifest: &Manifest,
    reason: String,
) -> Result<DeletedSnapshot, Failure> {
    let (lineage, prefix) = (handle.lineage(), manifest.archive_sha256.prefix());
    if let Some(needed) = handle.delete_foreign(manifest, &reason).await? {
        let Lineage { name, chrome_major } = lineage;
        let why = match needed {
            Needed::Latest => "it is the current one",
            _ => "it is the only one",
        };
        let message = format!("the archive {prefix} of {lineage} is needed: {why}");
        return Err(Failure::new(ErrorKind::SnapshotNeeded, message).hint(match needed {
            Needed::Latest => format!(
                "`pstore list {name}` shows others; `pstore rollback {name} --chrome-major {chrome_major} --sha OTHER --confirm` makes one current"
            ),
            _ => "a profile keeps at least one snapshot".to_owned(),
        }));
    }
    Ok(DeletedSnapshot {
        outcome: SnapshotDeletion::Deleted,
        lineage: lineage.into(),
        sha256_prefix: prefix,
        snapshot_id: None,
        record: None,
        captured_at_ms: manifest.captured_at_ms,
        reason,
        size_bytes: None,
        damage: None,
    })
}
