//! Puts old events together, so that a long history is few objects.
//!
//! Merged events are stored under a new name before their parts are removed, and a process removes only
//! parts whose events it has stored. So nothing is lost wherever a process ends, and two that merge at once
//! only store some events twice; readers go by the ids of events.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use futures::{StreamExt, TryStreamExt, stream};

use super::{REQUESTS_AT_ONCE, get, get_merged};
use crate::{
    Error, ErrorKind, Result,
    bucket::{BucketError, Entry, Key, put_unique},
    catalog::{clock, rules::Rules},
    content::TenantStore,
    format::{
        layout,
        merged_events::{MergedEvents, StoredEvent},
    },
    id::EventId,
    name::Lineage,
};

/// No document gets larger, unless a single event is.
const DOCUMENT_BYTES: usize = 256 << 10;
/// A document that is larger is left as it is.
const FULL_BYTES: u64 = 128 << 10;

/// The age at which events are merged, and the age at which they are removed.
#[derive(Clone, Copy, Debug)]
pub struct MergeTerms {
    /// Younger ones stay as they are: people look at them, and writers are about to
    /// make sure of them.
    pub after: Duration,
    /// Fewer are not worth it.
    pub fewest: usize,
    /// Older ones are removed.
    pub kept_for: Duration,
}

impl Default for MergeTerms {
    fn default() -> Self {
        let day = Duration::from_secs(86_400);
        Self { after: day, fewest: 8, kept_for: 400 * day }
    }
}

/// The changes to a lineage's events, made or planned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Events that were objects of their own.
    pub merged: u64,
    /// Objects whose time was over.
    pub removed: u64,
}

/// Merges the listed events of a lineage. Without `act` it only counts.
pub async fn merge(
    store: &TenantStore,
    lineage: &Lineage,
    listed: &[Entry],
    now: SystemTime,
    terms: MergeTerms,
    (rules, act): (Rules, bool),
) -> Result<Merged> {
    let age = |entry: &&Entry| now.duration_since(entry.modified).unwrap_or_default();
    let (over, rest): (Vec<&Entry>, Vec<&Entry>) =
        listed.iter().partition(|entry| age(entry) > terms.kept_for);
    let over: Vec<&Entry> = over.into_iter().filter(|entry| is_ours(&entry.key)).collect();
    if act {
        remove(store, over.iter().map(|entry| &entry.key)).await?;
    }
    let removed = over.len() as u64;
    let single = |entry: &&&Entry| layout::event_of(&entry.key).is_some() && age(entry) >= terms.after;
    let singles: Vec<&Entry> = rest.iter().filter(single).copied().collect();
    if singles.len() < terms.fewest.max(1) {
        return Ok(Merged { merged: 0, removed });
    }
    let small =
        rest.iter().filter(|entry| layout::merged_events_of(&entry.key).is_some() && entry.size < FULL_BYTES);
    let parts: Vec<&Entry> = singles.iter().chain(small).copied().collect();
    let (read, together) = read(store, lineage, parts).await?;
    let merged = read.iter().filter(|key| layout::event_of(key).is_some()).count() as u64;
    if !act || read.is_empty() {
        return Ok(Merged { merged, removed });
    }
    let is_over = |stored: &StoredEvent| {
        let since = Duration::from_millis(clock::to_unix_ms(now).saturating_sub(stored.stored_at_ms));
        since > terms.kept_for
    };
    let kept: Vec<StoredEvent> = together.into_values().filter(|stored| !is_over(stored)).collect();
    if rules.merge_before_removing {
        put(store, lineage, kept).await?;
        remove(store, &read).await?;
    } else {
        remove(store, &read).await?;
        put(store, lineage, kept).await?;
    }
    Ok(Merged { merged, removed })
}

/// Objects with other names are not ours.
fn is_ours(key: &Key) -> bool {
    layout::event_of(key).is_some() || layout::merged_events_of(key).is_some()
}

/// The parts that could be read, and all their events. Another process has merged a part that is gone; a
/// part that is damaged, or of a newer pstore, stays.
async fn read(
    store: &TenantStore,
    lineage: &Lineage,
    parts: Vec<&Entry>,
) -> Result<(Vec<Key>, BTreeMap<EventId, StoredEvent>)> {
    let mut looks = stream::iter(parts)
        .map(|part| async move { (part, read_part(store, lineage, part).await) })
        .buffered(REQUESTS_AT_ONCE);
    let (mut read, mut together) = (Vec::new(), BTreeMap::new());
    while let Some((part, found)) = looks.next().await {
        let events = match found {
            Err(Error::Bucket(BucketError::NotFound { .. })) => continue,
            Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat) => {
                tracing::warn!(key = %part.key, %error, "an event cannot be read and is left as it is");
                continue;
            }
            found => found?,
        };
        read.push(part.key.clone());
        for stored in events {
            let known: &mut StoredEvent = together.entry(stored.event.id).or_insert_with(|| stored.clone());
            known.stored_at_ms = known.stored_at_ms.min(stored.stored_at_ms);
        }
    }
    Ok((read, together))
}

async fn read_part(store: &TenantStore, lineage: &Lineage, part: &Entry) -> Result<Vec<StoredEvent>> {
    match (layout::event_of(&part.key), layout::merged_events_of(&part.key)) {
        (Some(id), _) => {
            let event = get(store, lineage, id).await?;
            Ok(vec![StoredEvent::new(event, clock::to_unix_ms(part.modified))])
        }
        (None, Some(id)) => Ok(get_merged(store, lineage, id).await?.events),
        (None, None) => Ok(Vec::new()),
    }
}

/// In as many documents as it takes.
async fn put(store: &TenantStore, lineage: &Lineage, events: Vec<StoredEvent>) -> Result<()> {
    let (mut document, mut bytes) = (Vec::new(), 0);
    for stored in events {
        // Alone in a document it is longer than it is among others.
        let alone = MergedEvents::new(stored.event.id, vec![stored.clone()]).encode().len();
        if bytes + alone > DOCUMENT_BYTES && !document.is_empty() {
            put_one(store, lineage, std::mem::take(&mut document)).await?;
            bytes = 0;
        }
        bytes += alone;
        document.push(stored);
    }
    if document.is_empty() { Ok(()) } else { put_one(store, lineage, document).await }
}

async fn put_one(store: &TenantStore, lineage: &Lineage, events: Vec<StoredEvent>) -> Result<()> {
    let document = MergedEvents::new(clock::new_event_id(clock::unix_ms()), events);
    let key = layout::merged_events(lineage, document.id);
    Ok(put_unique(&*store.bucket, &key, document.encode().into()).await?)
}

async fn remove(store: &TenantStore, keys: impl IntoIterator<Item = &Key>) -> Result<()> {
    stream::iter(keys)
        .map(|key| async move { store.bucket.delete(key).await })
        .buffer_unordered(REQUESTS_AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}
