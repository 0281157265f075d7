//! `Placed` and `Pinned` are a reader's own pin: placed, confirmed by a second look at the record, renewed, released.

use std::time::Duration;

use tokio::sync::Mutex;

use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy, put_unique},
    catalog::{
        clock,
        records::{self, deleted},
        rules::Rules,
    },
    content::TenantStore,
    format::{
        layout,
        pin::Pin,
        record::{Record, State},
    },
    id::RecordId,
    name::Lineage,
};

/// A deletion that finds the pin takes its first step back; that is waited for.
const ATTEMPTS: u32 = 5;

/// A pin that was placed, before the second look at the record.
#[derive(Debug)]
pub struct Placed {
    store: TenantStore,
    lineage: Lineage,
    ttl: Duration,
    rules: Rules,
    mark: Mark,
}

/// One pin and its target.
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
    rules: Rules,
    /// Held across a whole renewal or release, so that neither sees the other half done.
    mark: Mutex<Option<Mark>>,
}

/// The outcome of a renewal.
#[derive(Clone, Debug)]
pub enum Renewal {
    /// The pin holds on.
    Held,
    /// The snapshot's chunks were moved; this is where the pin is now. Chunks may have to be
    /// looked for by this record's table.
    Moved(Box<Record>),
}

impl Placed {
    /// Pins `record`, which was just read and must be live.
    pub async fn on(
        store: &TenantStore,
        lineage: &Lineage,
        record: &Record,
        ttl: Duration,
        rules: Rules,
    ) -> Result<Self> {
        if record.state != State::Live {
            return Err(deleted(lineage, record.record));
        }
        let mark = write(store, record, ttl).await?;
        Ok(Self { store: store.clone(), lineage: lineage.clone(), ttl, rules, mark })
    }

    /// The second look. `None` if the record is no longer as it was: then the pin is removed,
    /// and one starts over.
    pub async fn confirm(self) -> Result<Option<Pinned>> {
        let Self { store, lineage, ttl, rules, mark } = self;
        let held = |store, lineage| Pinned { store, lineage, ttl, rules, mark: Mutex::new(Some(mark)) };
        if !rules.look_after_pinning {
            return Ok(Some(held(store, lineage)));
        }
        let looked = look(&store, &lineage, mark.record).await;
        let same = matches!(&looked, Ok(Some(record)) if record.generation == mark.generation);
        if !same {
            remove(&store, mark.name).await;
        }
        looked?;
        Ok(same.then(|| held(store, lineage)))
    }
}

impl Pinned {
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
            if !self.rules.look_after_pinning {
                return Ok(Renewal::Held);
            }
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
