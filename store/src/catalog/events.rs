//! The log of a lineage: one object for each event, so that two hosts that write at once
//! lose nothing.

use futures::{StreamExt, stream};

use super::{controls::Controls, pointer::Read, records::list_all};
use crate::{
    Error, Result,
    bucket::{BucketError, Depth, put_unique},
    content::TenantStore,
    format::{
        event::{Event, EventKind},
        layout,
        pointer::Target,
    },
    id::EventId,
    name::Lineage,
};

const REQUESTS_AT_ONCE: usize = 16;
/// How many of the newest events are searched for the last move of the pointer.
const LOOK_BACK: usize = 16;

impl Controls {
    /// Stores an event that has happened. If that fails it is only told: an event of the
    /// pointer or the lock is still written there, and is stored by whoever writes next.
    pub(super) async fn store_event(&self, event: &Event) {
        let key = layout::event(&self.lineage, event.id);
        if let Err(error) = put_unique(&*self.store.bucket, &key, event.encode().into()).await {
            tracing::warn!(%key, %error, kind = event.kind.as_str(), "an event could not be stored yet");
        }
    }

    /// Makes sure that `event`, which is about to be overwritten, is stored.
    pub(super) async fn settle(&self, event: Option<&Event>) -> Result<()> {
        let Some(event) = event.filter(|_| self.rules.settle_events) else { return Ok(()) };
        let key = layout::event(&self.lineage, event.id);
        match self.store.bucket.get(&key).await {
            Ok(_) => Ok(()),
            Err(BucketError::NotFound { .. }) => {
                Ok(put_unique(&*self.store.bucket, &key, event.encode().into()).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Writes down that a program which knows only the contract has moved the pointer.
    pub(super) async fn notice_foreign(&self, read: Option<&Read>) {
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

/// What the pointer named after the last move that is known, whoever made it.
async fn last_move(store: &TenantStore, lineage: &Lineage) -> Result<Option<String>> {
    let events = log(store, lineage, Some(LOOK_BACK)).await?;
    Ok(events.into_iter().filter_map(|event| event.ok()?.to_sha256_prefix).last())
}

/// The newest `most` events, oldest first, with those that have not been stored yet. One
/// that cannot be read comes as an error and takes no other with it.
pub async fn log(store: &TenantStore, lineage: &Lineage, most: Option<usize>) -> Result<Vec<Result<Event>>> {
    let (entries, _) = list_all(&*store.bucket, &layout::events(lineage), Depth::All).await?;
    let mut ids: Vec<EventId> = entries.iter().filter_map(|entry| layout::event_of(&entry.key)).collect();
    ids.sort_unstable();
    let mut events: Vec<(EventId, Result<Event>)> = unstored(store, lineage)
        .await?
        .into_iter()
        .filter(|event| ids.binary_search(&event.id).is_err())
        .map(|event| (event.id, Ok(event)))
        .collect();
    let skip = most.map_or(0, |most| ids.len().saturating_sub(most));
    let stored: Vec<(EventId, Result<Event>)> = stream::iter(ids.into_iter().skip(skip))
        .map(|id| async move { (id, get(store, lineage, id).await) })
        .buffered(REQUESTS_AT_ONCE)
        .collect()
        .await;
    events.extend(stored);
    events.sort_by_key(|(id, _)| *id);
    let skip = most.map_or(0, |most| events.len().saturating_sub(most));
    Ok(events.into_iter().skip(skip).map(|(_, event)| event).collect())
}

async fn get(store: &TenantStore, lineage: &Lineage, id: EventId) -> Result<Event> {
    let key = layout::event(lineage, id);
    let object = store.bucket.get(&key).await?;
    let event = Event::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if event.id != id {
        return Err(Error::damaged(&key, "it is another event"));
    }
    Ok(event)
}

/// Events that so far are written only where they happened.
async fn unstored(store: &TenantStore, lineage: &Lineage) -> Result<Vec<Event>> {
    let controls = Controls::new(store.clone(), lineage.clone(), Default::default());
    let (pointer, lock) = futures::future::join(controls.pointer(), controls.lock()).await;
    let of_pointer = pointer.ok().flatten().and_then(|read| read.pointer.block()?.event.clone());
    let of_lock = lock.ok().flatten().and_then(|read| read.lock.block()?.event.clone());
    Ok(of_pointer.into_iter().chain(of_lock).collect())
}
