//! Gives a run's work in progress a name, puts the next in its place, and ends it when the run has ended.
//!
//! The order of a replacement keeps one of the two at every moment: the new snapshot is live, then the hint names it, then the
//! one before is deleted. Whoever is killed in between leaves one too many, which retention removes.

use crate::{
    Error, ErrorKind, Result,
    catalog::{
        lineage_handle::LineageHandle,
        records,
        work_in_progress::{self, Hint},
    },
    format::{record::Record, work_in_progress::WorkInProgress},
    id::RecordId,
    name::WIP,
    ops::tag,
};

const REASON: &str = "a later state of the same work is stored";

/// Names `record`, which is live, as the work in progress of its lineage. What the same run has saved `before` is deleted;
/// what another run has left stays as an ordinary snapshot.
pub async fn replace(
    handle: &LineageHandle,
    record: RecordId,
    session: Option<RecordId>,
    saved_at_ms: u64,
    before: &[RecordId],
) -> Result<()> {
    let (store, lineage) = (handle.store(), handle.lineage());
    let left = work_in_progress::read(store, lineage).await?.map(|hint| hint.wip.record);
    let wip = WorkInProgress::new(lineage, record, session, saved_at_ms, handle.actor().clone());
    work_in_progress::name(store, lineage, &wip).await?;
    for before in before {
        delete(handle, *before).await?;
    }
    match left.filter(|left| *left != record && !before.contains(left)) {
        Some(left) => keep(handle, left).await,
        None => Ok(()),
    }
}

/// The work in progress of this run is stored otherwise, or nobody wants it: deletes what it has saved, `own`. What another run
/// has left stays as an ordinary snapshot: somebody has gone on without it.
pub async fn end(handle: &LineageHandle, own: &[RecordId]) -> Result<()> {
    let (store, lineage) = (handle.store(), handle.lineage());
    let hint = work_in_progress::read(store, lineage).await?;
    let left = hint.as_ref().map(|hint: &Hint| hint.wip.record).filter(|left| !own.contains(left));
    for own in own {
        delete(handle, *own).await?;
    }
    if let Some(left) = left {
        keep(handle, left).await?;
    }
    match hint {
        Some(hint) => work_in_progress::forget(store, lineage, &hint).await,
        None => Ok(()),
    }
}

/// The same for a session whose own work in progress is known by the hint alone; another's is left as it is.
pub async fn end_of_session(handle: &LineageHandle, session: RecordId) -> Result<()> {
    let hint = work_in_progress::read(handle.store(), handle.lineage()).await?;
    match hint.filter(|hint| hint.wip.session == Some(session)) {
        Some(hint) => end(handle, &[hint.wip.record]).await,
        None => Ok(()),
    }
}

/// All that whoever acts has saved in the lineage. This lists its records: for whoever was interrupted, and does not know.
pub async fn saved_by(handle: &LineageHandle) -> Result<Vec<RecordId>> {
    let live = records::live(handle.store(), handle.lineage()).await?;
    let is_own = |record: &&Record| record.tags.get(WIP).is_some_and(|tag| tag.by == *handle.actor());
    Ok(live.iter().filter(is_own).map(|record| record.record).collect())
}

/// Deletes a work in progress that was never named.
pub async fn discard(handle: &LineageHandle, record: RecordId) -> Result<()> {
    delete(handle, record).await
}

/// Makes a work in progress an ordinary snapshot.
pub async fn keep(handle: &LineageHandle, record: RecordId) -> Result<()> {
    match tag::untag(handle, record, WIP).await {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Deletes the snapshot, unless somebody needs it or has made it something else.
async fn delete(handle: &LineageHandle, record: RecordId) -> Result<()> {
    let deleted = handle.delete_while(record, REASON, |record| record.is_work_in_progress()).await;
    match deleted {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        // A reader has it, or an operator has made it current: it is an ordinary snapshot from now on.
        Err(Error::SnapshotNeeded { .. }) => keep(handle, record).await,
        Err(error) => Err(error),
    }
}
