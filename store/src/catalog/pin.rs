//! Placing a pin: how a reader without a lock keeps a snapshot from being deleted under it.
//!
//! Order: the record is read, the pin is written with the generation found, the record is
//! read again. Whoever deletes or moves a snapshot changes its record first and looks for
//! pins after, so one of the two always sees the other. If the second look finds the record
//! as it was, everything it names stays for as long as the pin is kept.
//!
//! A renewal is a new pin and then the same look again, so it is right however long its owner
//! slept and whatever became of the old pin meanwhile; no clock is asked.

#[cfg(test)]
pub(crate) mod tests;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    task::JoinHandle,
};

use super::{clock, records};
use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy, put_unique},
    content::TenantStore,
    format::{
        layout,
        pin::Pin,
        record::{Record, State},
    },
    id::RecordId,
    name::Lineage,
};

/// How long a pin holds after it was written.
pub const DEFAULT_TTL: Duration = Duration::from_secs(900);
/// How often it is renewed.
pub const DEFAULT_RENEW_EVERY: Duration = Duration::from_secs(240);
/// A deletion that finds the pin takes its first step back; that is waited for.
const ATTEMPTS: u32 = 5;

/// A pin that was placed, before the second look at the record.
#[derive(Debug)]
pub struct Placed {
    store: TenantStore,
    lineage: Lineage,
    ttl: Duration,
    mark: Mark,
}

/// One pin and what it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    name: RecordId,
    record: RecordId,
    generation: u64,
}

/// A snapshot that stays while this is renewed. Dropped without being released, the pin
/// expires by itself.
#[derive(Debug)]
pub struct Pinned {
    store: TenantStore,
    lineage: Lineage,
    ttl: Duration,
    /// Held across a whole renewal or release, so that neither sees the other half done.
    mark: Mutex<Option<Mark>>,
}

/// What a renewal found.
#[derive(Clone, Debug)]
pub enum Renewal {
    Held,
    /// The snapshot's chunks were moved; this is where the pin is now. Chunks may have to be
    /// looked for by this record's table.
    Moved(Box<Record>),
}

impl Placed {
    /// Pins `record`, which was just read and must be live.
    pub async fn on(store: &TenantStore, lineage: &Lineage, record: &Record, ttl: Duration) -> Result<Self> {
        if record.state != State::Live {
            return Err(deleted(lineage, record.record));
        }
        let mark = write(store, record, ttl).await?;
        Ok(Self { store: store.clone(), lineage: lineage.clone(), ttl, mark })
    }

    /// The second look. `None` if the record is no longer as it was: then the pin is removed,
    /// and one starts over.
    pub async fn confirm(self) -> Result<Option<Pinned>> {
        let Self { store, lineage, ttl, mark } = self;
        let looked = look(&store, &lineage, mark.record).await;
        let same = matches!(&looked, Ok(Some(record)) if record.generation == mark.generation);
        if !same {
            remove(&store, mark.name).await;
        }
        looked?;
        Ok(same.then(|| Pinned { store, lineage, ttl, mark: Mutex::new(Some(mark)) }))
    }
}

impl Pinned {
    /// Reads the record, pins it, and reads it again, until nothing has changed between.
    pub async fn place(
        store: &TenantStore,
        lineage: &Lineage,
        record: RecordId,
        ttl: Duration,
    ) -> Result<(Self, Record)> {
        for attempt in 1..=ATTEMPTS {
            if let Some(found) = look(store, lineage, record).await? {
                let placed = Placed::on(store, lineage, &found, ttl).await?;
                if let Some(pinned) = placed.confirm().await? {
                    return Ok((pinned, found));
                }
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(deleted(lineage, record))
    }

    /// Writes the pin anew and looks again.
    ///
    /// Fails with [`Error::NotFound`] if the snapshot was deleted: then the pin had lapsed.
    pub async fn renew(&self) -> Result<Renewal> {
        let mut held = self.mark.lock().await;
        let Some(mut mark) = *held else { return Ok(Renewal::Held) };
        let before = mark.generation;
        for attempt in 1..=ATTEMPTS {
            let pin = Pin::new(mark.record, mark.generation, self.ttl);
            let name = put(&self.store, &pin).await?;
            let old = std::mem::replace(&mut mark.name, name);
            *held = Some(mark);
            // Only now: at no moment is there none.
            remove(&self.store, old).await;
            match look(&self.store, &self.lineage, mark.record).await? {
                Some(record) if record.generation == mark.generation => {
                    let moved = record.generation != before;
                    return Ok(if moved { Renewal::Moved(Box::new(record)) } else { Renewal::Held });
                }
                Some(record) => mark.generation = record.generation,
                None => tokio::time::sleep(RetryPolicy::default().pause(attempt)).await,
            }
        }
        Err(deleted(&self.lineage, mark.record))
    }

    /// Gives the snapshot up.
    pub async fn release(&self) {
        if let Some(mark) = self.mark.lock().await.take() {
            remove(&self.store, mark.name).await;
        }
    }

    /// Renews the pin every so often until the keeper is dropped.
    pub fn keep(self: &Arc<Self>, every: Duration) -> PinKeeper {
        let (sender, lost) = watch::channel(None);
        let pinned = Arc::clone(self);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                match pinned.renew().await {
                    // Who misses what was moved looks where it is by then.
                    Ok(Renewal::Held | Renewal::Moved(_)) => {}
                    Err(error @ Error::NotFound { .. }) => {
                        tracing::warn!(%error, "a snapshot was deleted while it was read");
                        sender.send_replace(Some(Arc::new(error)));
                        return;
                    }
                    Err(error) => tracing::warn!(%error, "a pin could not be renewed"),
                }
            }
        });
        PinKeeper { task, lost }
    }
}

/// Keeps a pin renewed while it exists.
#[derive(Debug)]
pub struct PinKeeper {
    task: JoinHandle<()>,
    /// Why there is nothing left to pin.
    lost: watch::Receiver<Option<Arc<Error>>>,
}

impl PinKeeper {
    /// Renews no more.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Waits until the snapshot is gone, perhaps for ever.
    pub async fn lost(&self) -> Arc<Error> {
        let mut lost = self.lost.clone();
        loop {
            if let Some(error) = lost.borrow_and_update().clone() {
                return error;
            }
            if lost.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for PinKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The record if it is live; `None` while somebody is about to delete it.
async fn look(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<Option<Record>> {
    match records::get(store, lineage, id).await {
        Ok((record, _)) => match record.state {
            State::Live => Ok(Some(record)),
            State::Trashed => Ok(None),
            State::Writing | State::Tombstone | State::Revoked => Err(deleted(lineage, id)),
        },
        Err(Error::Bucket(BucketError::NotFound { .. })) => Err(deleted(lineage, id)),
        Err(error) => Err(error),
    }
}

async fn write(store: &TenantStore, record: &Record, ttl: Duration) -> Result<Mark> {
    let name = put(store, &Pin::new(record.record, record.generation, ttl)).await?;
    Ok(Mark { name, record: record.record, generation: record.generation })
}

/// Under a name of its own, so that it may be sent again and removed without a condition.
async fn put(store: &TenantStore, pin: &Pin) -> Result<RecordId> {
    let name = clock::new_record_id();
    put_unique(&*store.bucket, &layout::pin(&store.tenant, name), pin.encode().into()).await?;
    Ok(name)
}

/// A pin that stays expires.
async fn remove(store: &TenantStore, name: RecordId) {
    let key = layout::pin(&store.tenant, name);
    if let Err(error) = store.bucket.delete(&key).await {
        tracing::debug!(%key, %error, "a pin could not be removed; it will expire");
    }
}

/// What whoever reads a snapshot is told when it is gone: that is no damage.
pub(crate) fn deleted(lineage: &Lineage, record: RecordId) -> Error {
    Error::NotFound { what: format!("snapshot {record} of {lineage}, which was deleted,") }
}
