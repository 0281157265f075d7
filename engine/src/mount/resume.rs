//! `resume` decides whether a session may still go on, now that others may have moved the pointer.

use fuse::{
    mount::{Mount, Snapshot},
    overlay::checkpoint::Below,
};
use store::{
    ErrorKind,
    catalog::{lock::Hold, pointer::Fate, records},
    content::TenantStore,
    id::RecordId,
    name::Lineage,
    ops::read::open::OpenedTree,
};

use super::sessions::Candidate;
use crate::failure::Failure;

/// What became of a commit of the session that was cut short.
pub(super) async fn fate(candidate: &Candidate, hold: &Hold) -> Option<Fate> {
    match candidate.unfinished.intent() {
        Some(intent) => Some(intent.fate(hold).await),
        None => None,
    }
}

/// The snapshot a session was built on, if the session may still move the pointer, or has moved
/// it.
pub(super) async fn below(
    tenant: &TenantStore,
    lineage: &Lineage,
    candidate: &Candidate,
    fate: Option<Fate>,
    current: Option<OpenedTree>,
) -> Result<Option<Snapshot>, Failure> {
    let wanted: Option<&Below> = candidate.unfinished.below();
    let now = current.as_ref().map(|opened| opened.record.record);
    if now == wanted.map(|below| below.record) {
        return Ok(current.map(|opened| Snapshot { lineage: lineage.clone(), opened }));
    }
    // It had started afresh, and never replaces by itself what could not be loaded.
    if wanted.is_none() && candidate.info.fallback.is_some() {
        return Ok(None);
    }
    // Started from an older Chrome's snapshot, and nobody has stored one of this Chrome's since.
    let is_first = now.is_none() && wanted.is_some_and(|below| below.lineage != *lineage);
    if !is_first && !matches!(fate, Some(Fate::Current | Fate::Passed)) {
        return Err(gone_past(lineage, &candidate.session.id()));
    }
    match wanted {
        None => Ok(None),
        Some(below) => at(tenant, below).await.map(Some),
    }
}

/// Somebody has moved the pointer, and a session has changes on what it named before.
pub(super) fn gone_past(lineage: &Lineage, id: &str) -> Failure {
    let message = format!(
        "{} was changed by somebody else since session {id} began, which has changes that were not committed",
        lineage.name
    );
    let failure = Failure::new(ErrorKind::PointerMoved, message).hint(format!(
        "`pstore sessions rescue {id} --as {name}-rescued` keeps them as another profile, \
         `pstore sessions rescue {id} --as {name} --force` replaces what is current, \
         `pstore sessions discard {id} --confirm` drops them; `--on-diverged` decides it beforehand",
        name = lineage.name
    ));
    Failure { diverged: Some(id.to_owned()), ..failure }
}

pub(super) async fn at(tenant: &TenantStore, below: &Below) -> Result<Snapshot, Failure> {
    let (record, _) = records::get(tenant, &below.lineage, below.record).await?;
    Ok(Snapshot { lineage: below.lineage.clone(), opened: OpenedTree::load(tenant, record).await? })
}

/// Nobody knows whether a commit that was cut short came about.
pub(super) fn in_doubt(mount: &Mount, record: RecordId, sha256_prefix: Option<String>) -> Failure {
    let (id, name) = (mount.session_id(), &mount.lineage.name);
    let message = format!(
        "a commit of session {id} was cut short, and it is not known whether {record} has been the current snapshot of {name}: nothing was moved"
    );
    let current = sha256_prefix.map_or_else(String::new, |sha| {
        format!("`pstore rollback {name} --sha {sha} --confirm` makes it so, and the next mount goes on; ")
    });
    Failure::new(ErrorKind::Conflict, message).hint(format!(
        "`pstore log {name}` tells what was; {current}`pstore sessions rescue {id} --as {name}-rescued` keeps the changes, `pstore sessions discard {id} --confirm` drops them"
    ))
}
