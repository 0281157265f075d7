//! Writes and reads the log of a lineage: one object for each event, so that two hosts that write at once
//! lose nothing. Collections put old ones together.

mod merge;

pub use merge::{MergeTerms, Merged, merge};

use std::collections::BTreeMap;

use futures::{StreamExt, stream};

use super::{
    clock, lineage_handle::LineageHandle, pointer::VersionedPointer, records::list_all, store::Store,
};
use crate::{
    Error, Result,
    bucket::{BucketError, Depth, put_unique},
    content::TenantStore,
    format::{
        event::{Actor, Event, EventKind, MAX_REASON_BYTES},
        layout, limits,
        merged_events::MergedEvents,
        pointer::Target,
        record::Record,
    },
    id::EventId,
    name::{Lineage, Tenant},
};

const REQUESTS_AT_ONCE: usize = 16;
/// How often the log is read anew because collections put events together meanwhile.
const LOOKS: u32 = 8;
/// How many of the newest events are searched for the last move of the pointer.
const LOOK_BACK: usize = 16;

impl LineageHandle {
    /// Stores an event that has happened. A failure is only logged: an event of the
    /// pointer or the lock is still written there, and the next writer stores it.
    pub(super) async fn store_event(&self, event: &Event) {
        let key = layout::event(&self.lineage, event.id);
        if let Err(error) = put_unique(&*self.store.bucket, &key, event.encode().into()).await {
            tracing::warn!(%key, %error, kind = event.kind.as_str(), "an event could not be stored yet");
        }
    }

    /// Writes down that a snapshot is stored without becoming the current one, before its record is
    /// live: a process that is killed in between leaves an event too many, and none too few. The record
    /// says so too: if the event cannot be stored, nothing is lost but a line of the log.
    pub(crate) async fn tell_held_back(&self, record: &Record, reason: &str) {
        let mut event = self.event(EventKind::HeldBack);
        let end = reason.floor_char_boundary(MAX_REASON_BYTES);
        event.reason = reason[..end].to_owned();
        event.from_sha256_prefix = Some(record.sha256_prefix());
        event.record = Some(record.record);
        self.store_event(&event).await;
    }

    /// Makes sure that `event`, which is about to be overwritten, is stored.
    pub(super) async fn settle(&self, event: Option<&Event>) -> Result<()> {
        let Some(event) = event.filter(|_| self.rules.settle_events) else { return Ok(()) };
        let key = layout::event(&self.lineage, event.id);
        match self.store.bucket.get(&key, limits::EVENT).await {
            Ok(_) | Err(BucketError::TooLarge { .. }) => Ok(()),
            Err(BucketError::NotFound { .. }) => {
                Ok(put_unique(&*self.store.bucket, &key, event.encode().into()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes down that a program which knows only the contract has moved the pointer.
    pub(super) async fn notice_foreign(&self, read: Option<&VersionedPointer>) {
        let Some(pointer) = read.map(|read| &read.pointer).filter(|pointer| pointer.block().is_none()) else {
            return;
        };
        let Target::Foreign(active) = pointer.target() else { return };
        let last = last_move(&self.store, &self.lineage).await.unwrap_or_default();
        let from = &pointer.flipped_from_sha256_prefix;
        let known = last.as_ref().is_none_or(|last| last == from);
        let mut event = self.event(if known { EventKind::ForeignFlip } else { EventKind::ForeignFork });
        event.from_sha256_prefix = Some(from.clone());
        event.to_sha256_prefix = Some(active.to_owned());
        if !known {
            event.reason = format!("the pointer named {} before", last.unwrap_or_default());
        }
        tracing::warn!(lineage = %self.lineage, from, to = active, "another program has moved the pointer");
        self.store_event(&event).await;
    }
}

/// Stores an event of a tenant, or of the store as a whole.
pub async fn tell(store: &Store, tenant: Option<&Tenant>, event: &Event) -> Result<()> {
    let key = layout::event_of_all(tenant, event.id);
    Ok(put_unique(&**store.bucket(), &key, event.encode().into()).await?)
}

/// An event that happens now.
pub fn now(kind: EventKind, by: Actor) -> Event {
    let at_ms = clock::unix_ms();
    Event::new(clock::new_event_id(at_ms), kind, at_ms, by)
}

/// The target of the pointer's last known move, by any program.
async fn last_move(store: &TenantStore, lineage: &Lineage) -> Result<Option<String>> {
    let events = log(store, lineage, Some(LOOK_BACK)).await?;
    Ok(events.into_iter().filter_map(|event| event.ok()?.to_sha256_prefix).last())
}

/// The newest `most` events, oldest first, with those that have not been stored yet. One
/// that cannot be read comes as an error and takes no other with it.
pub async fn log(store: &TenantStore, lineage: &Lineage, most: Option<usize>) -> Result<Vec<Result<Event>>> {
    for _ in 0..LOOKS {
        if let Some(events) = look(store, lineage, most).await? {
            let skip = most.map_or(0, |most| events.len().saturating_sub(most));
            return Ok(events.into_values().skip(skip).collect());
        }
    }
    Err(Error::Conflict { what: format!("the log of {lineage}") })
}

/// `None` if something that was listed was put together with others before it was read.
async fn look(
    store: &TenantStore,
    lineage: &Lineage,
    most: Option<usize>,
) -> Result<Option<BTreeMap<EventId, Result<Event>>>> {
    // First, for it may be stored, and no longer be where it happened, when that is looked at.
    let unstored = unstored(store, lineage).await?;
    let (entries, _) = list_all(&*store.bucket, &layout::events(lineage), Depth::All).await?;
    let mut ids: Vec<EventId> = entries.iter().filter_map(|entry| layout::event_of(&entry.key)).collect();
    ids.sort_unstable();
    // What is by itself is newer than what was put together.
    let documents = entries.iter().filter_map(|entry| layout::merged_events_of(&entry.key));
    let documents: Vec<EventId> =
        if most.is_some_and(|most| ids.len() >= most) { Vec::new() } else { documents.collect() };
    let skip = most.map_or(0, |most| ids.len().saturating_sub(most));
    let mut events: BTreeMap<EventId, Result<Event>> = BTreeMap::new();
    let mut merged = stream::iter(documents)
        .map(|id| async move { (id, get_merged(store, lineage, id).await) })
        .buffered(REQUESTS_AT_ONCE);
    while let Some((id, document)) = merged.next().await {
        match document {
            Ok(document) => {
                events.extend(document.events.into_iter().map(|stored| (stored.event.id, Ok(stored.event))));
            }
            Err(error) if is_gone(&error) => return Ok(None),
            Err(error) => drop(events.insert(id, Err(error))),
        }
    }
    drop(merged);
    let mut stored = stream::iter(ids.into_iter().skip(skip))
        .map(|id| async move { (id, get(store, lineage, id).await) })
        .buffered(REQUESTS_AT_ONCE);
    while let Some((id, event)) = stored.next().await {
        match event {
            Err(error) if is_gone(&error) => return Ok(None),
            event => drop(events.insert(id, event)),
        }
    }
    // What is stored and damaged is told, though its writer still carries it.
    for event in unstored {
        events.entry(event.id).or_insert(Ok(event));
    }
    Ok(Some(events))
}

pub(super) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Bucket(BucketError::NotFound { .. }))
}

pub(super) async fn get_merged(store: &TenantStore, lineage: &Lineage, id: EventId) -> Result<MergedEvents> {
    let key = layout::merged_events(lineage, id);
    let object = store.bucket.get(&key, limits::MERGED_EVENTS).await?;
    let merged = MergedEvents::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if merged.id != id {
        return Err(Error::damaged(&key, "it is another document"));
    }
    Ok(merged)
}

async fn get(store: &TenantStore, lineage: &Lineage, id: EventId) -> Result<Event> {
    let key = layout::event(lineage, id);
    let object = store.bucket.get(&key, limits::EVENT).await?;
    let event = Event::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if event.id != id {
        return Err(Error::damaged(&key, "it is another event"));
    }
    Ok(event)
}

/// Events that so far are written only where they happened.
async fn unstored(store: &TenantStore, lineage: &Lineage) -> Result<Vec<Event>> {
    let handle = LineageHandle::new(store.clone(), lineage.clone(), Default::default());
    let (pointer, lock) = futures::future::join(handle.pointer(), handle.lock()).await;
    let of_pointer = pointer.ok().flatten().and_then(|read| read.pointer.block()?.event.clone());
    let of_lock = lock.ok().flatten().and_then(|read| read.lock.block()?.event.clone());
    Ok(of_pointer.into_iter().chain(of_lock).collect())
}
