//! Names a run's work in progress, puts the next in its place, and ends it when the run has ended.
//!
//! The order of a replacement keeps one of the two at every moment: the new snapshot is live, then the hint
//! names it, then the one before is deleted. A process that is killed in between leaves one too many: the
//! newest counts, and retention removes the rest.
//!
//! Work keeps its tag for as long as it is never made current, so nobody takes it for a snapshot that was.

use crate::{
    Error, ErrorKind, Result,
    catalog::{lineage_handle::LineageHandle, work_in_progress},
    format::work_in_progress::WorkInProgress,
    id::RecordId,
};

const REASON: &str = "a later state of the same work is stored";

/// Names `record`, which is live, as the work in progress of its lineage. What the same run has saved `before` is deleted.
pub async fn replace(
    handle: &LineageHandle,
    record: RecordId,
    session: Option<RecordId>,
    saved_at_ms: u64,
    before: &[RecordId],
) -> Result<()> {
    let (store, lineage) = (handle.store(), handle.lineage());
    let wip = WorkInProgress::new(lineage, record, session, saved_at_ms, handle.actor().clone());
    work_in_progress::name(store, lineage, &wip).await?;
    for before in before.iter().filter(|before| **before != record) {
        delete(handle, *before).await?;
    }
    Ok(())
}

/// Ends this run's work in progress, which is stored otherwise, or which nobody wants: deletes the saved
/// snapshots, `own`. A process that has gone on without the work that another run has `left` is not told of
/// that again.
pub async fn end(handle: &LineageHandle, own: &[RecordId], left: Option<RecordId>) -> Result<()> {
    let (store, lineage) = (handle.store(), handle.lineage());
    let hint = work_in_progress::read(store, lineage).await?;
    for own in own {
        delete(handle, *own).await?;
    }
    let is_over = |record: RecordId| own.contains(&record) || left == Some(record);
    match hint.filter(|hint| is_over(hint.wip.record)) {
        Some(hint) => work_in_progress::forget(store, lineage, &hint).await,
        None => Ok(()),
    }
}

/// The same for a session whose own work in progress is known by the hint alone; another's is left as it is.
pub async fn end_of_session(handle: &LineageHandle, session: RecordId) -> Result<()> {
    let hint = work_in_progress::read(handle.store(), handle.lineage()).await?;
    match hint.filter(|hint| hint.wip.session == Some(session)) {
        Some(hint) => end(handle, &[hint.wip.record], None).await,
        None => Ok(()),
    }
}

/// Deletes a work in progress. One that somebody needs, or has made something else, stays.
pub async fn delete(handle: &LineageHandle, record: RecordId) -> Result<()> {
    match handle.delete_superseded(record, REASON).await {
        Ok(_) | Err(Error::SnapshotNeeded { .. } | Error::Conflict { .. }) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}
