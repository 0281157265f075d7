//! Makes every move of the pointer, after publishing the snapshot's archive if that is wanted.
//!
//! Every move is made here, so none can forget it: a pointer that names an archive names one
//! that is there. Where the pointer is there already, it may be so from before archives were
//! wanted; then only its other fields are brought up to date.

use std::sync::Arc;

use super::{
    archive::publish::{PublishJob, live, store},
    tag,
};
use crate::{
    Error, ErrorKind, Result,
    catalog::{
        lineage_handle::LineageHandle,
        lock::{Hold, LockAndPointer},
        pointer::{Flip, Move, VerifiedFlip},
    },
    format::{
        event::{Event, EventKind},
        record::Record,
    },
    id::FlipId,
    name::WIP,
    progress::Progress,
};

impl PublishJob {
    /// Whether the pointer's next or present target must have an archive.
    fn is_wanted(&self, contract_only_seen: bool) -> bool {
        self.always || contract_only_seen
    }
}

/// Moves the pointer to `record` as the holder of the lock, by a flip of this id. One that was held
/// back before is so no longer. The record as it is then.
pub async fn flip(
    hold: &Hold,
    record: Record,
    flip_id: FlipId,
    job: Option<&PublishJob>,
    progress: Arc<dyn Progress>,
) -> Result<(Record, Flip)> {
    let (record, flip, event) = flip_verified(hold, record, flip_id, None, job, progress).await?;
    if let Some(event) = event {
        hold.tell(&event).await;
    }
    Ok((record, flip))
}

/// As [`flip`], with the checks made while the record became live. The event is still to be told.
pub async fn flip_verified(
    hold: &Hold,
    record: Record,
    flip_id: FlipId,
    verified: Option<VerifiedFlip>,
    job: Option<&PublishJob>,
    progress: Arc<dyn Progress>,
) -> Result<(Record, Flip, Option<Event>)> {
    let seen = hold.pointer().await.contract_only_seen();
    let job = job.filter(|job| job.is_wanted(seen));
    // A record that an archive was published for is another than the one that was made live.
    let verified = verified.filter(|_| job.is_none());
    let mut untold = None;
    let flip = async |record: &Record| {
        let (flip, event) = hold.flip_verified(record.record, flip_id, verified).await?;
        untold = event;
        Ok(flip)
    };
    let (record, flip) = moved(hold.handle(), record, job, progress, flip).await?;
    Ok((decided(hold.handle(), record).await, flip, untold))
}

/// How operators move a pointer.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Why; it is written into the log.
    pub reason: String,
    /// Even while somebody holds the lock, and even over a pointer that is damaged.
    pub force: bool,
    /// The `active_sha256_prefix` that the pointer must have until it is moved; any if it is not said.
    pub only_from: Option<String>,
}

/// Moves the pointer to `record` without the lock, as operators do: if it was held back, somebody
/// has decided about it now. The record as it is then.
pub async fn point(
    handle: &LineageHandle,
    record: Record,
    kind: EventKind,
    how: How,
    job: &PublishJob,
    progress: Arc<dyn Progress>,
) -> Result<(Record, Flip)> {
    let readable = |read: Result<LockAndPointer>| match read {
        // What it said is about to go, or cannot be known. The other says what it says.
        Err(Error::Damaged { .. }) if how.force => Ok(false),
        read => read.map(|survey| survey.contract_only_seen()),
    };
    let (lock, pointer) = futures::future::join(handle.lock(), handle.pointer()).await;
    let seen = readable(lock.map(|lock| LockAndPointer { lock, pointer: None }))?
        | readable(pointer.map(|pointer| LockAndPointer { lock: None, pointer }))?;
    let job = Some(job).filter(|job| job.is_wanted(seen));
    let How { reason, force, only_from } = how;
    let wanted = Move { target: record.record, reason, force, only_from };
    let (record, flip) =
        moved(handle, record, job, progress, async |_| handle.point_for(kind, &wanted).await).await?;
    Ok((decided(handle, record).await, flip))
}

/// The record of a target that somebody chose: it is held back no longer, nor work in progress.
async fn decided(handle: &LineageHandle, record: Record) -> Record {
    if record.held_back.is_none() && !record.is_work_in_progress() {
        return record;
    }
    let end =
        |record: &mut Record, _| Ok(record.held_back.take().is_some() | record.tags.remove(WIP).is_some());
    match tag::change(handle, record.record, end).await {
        Ok(changed) => changed.record,
        // The pointer was moved all the same, and only retention would have heard of it.
        Err(error) => {
            tracing::warn!(%error, "the current snapshot still says that it was held back, or is work in progress");
            record
        }
    }
}

/// Publishes `record`, which nobody moves the pointer to because that names it.
pub async fn named_already(
    handle: &LineageHandle,
    contract_only_seen: bool,
    record: Record,
    job: Option<&PublishJob>,
    progress: Arc<dyn Progress>,
) -> Result<Record> {
    let job = job.filter(|job| job.is_wanted(contract_only_seen));
    match moved(handle, record.clone(), job, progress, async |_| Ok(Flip::Unchanged)).await {
        Ok((record, _)) => Ok(record),
        // The snapshot is stored and current all the same; the next attempt tries again.
        Err(error) if error.kind() == ErrorKind::PointerNotFlipped => {
            tracing::warn!(%error, "the current snapshot could not be published");
            Ok(record)
        }
        Err(error) => Err(error),
    }
}

/// Publishes `record` as `job` says, then makes the move.
async fn moved(
    handle: &LineageHandle,
    record: Record,
    job: Option<&PublishJob>,
    progress: Arc<dyn Progress>,
    make: impl AsyncFnOnce(&Record) -> Result<Flip>,
) -> Result<(Record, Flip)> {
    let Some(job) = job else {
        let flip = make(&record).await?;
        return Ok((record, flip));
    };
    // On the heap: it is large, it is rarely needed, and each move of the pointer would have it on the stack.
    let record = Box::pin(published(handle, record, job, progress)).await?;
    let flip = make(&record).await?;
    if flip == Flip::Unchanged {
        handle.name_archive(record.record).await?;
    }
    Ok((record, flip))
}

async fn published(
    handle: &LineageHandle,
    record: Record,
    job: &PublishJob,
    progress: Arc<dyn Progress>,
) -> Result<Record> {
    let target = record.record;
    let published = async {
        store(handle, target, job, progress).await?;
        live(handle, target).await
    };
    let (record, _) = published.await.map_err(|error| Error::PointerNotFlipped {
        record: target,
        lineage: handle.lineage().to_string(),
        reason: format!("its archive could not be stored: {error}"),
    })?;
    Ok(record)
}
