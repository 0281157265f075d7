//! `feed` tells the events of tenants, in the order in which the store has learnt of them.
//!
//! Events are named by the clocks of the hosts that wrote them, which may be wrong: one that is stored now
//! may have an older name than one that was read before. So the feed orders them by the time at which the
//! store has them, in whole seconds of its own clock, and by their names within a second. It leaves out the
//! last two seconds: by then a listing shows all events of a second, and a reader that goes on after an event
//! misses nothing.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{StreamExt, stream};

use super::{clock, events, records::list_all, store::Store};
use crate::{
    Error, Result,
    bucket::{Bucket, Depth, Entry, Key, Prefix},
    content::TenantStore,
    format::{event::Event, layout, limits},
    id::EventId,
    name::{Lineage, Tenant},
};

const REQUESTS_AT_ONCE: usize = 16;
/// How often it is looked anew because collections put events together meanwhile.
const LOOKS: u32 = 8;
/// How long it takes until all is seen that belongs to a second.
const SETTLED: u64 = 2;
/// Collections merge events that are a day old. What is younger than this is by itself.
const BY_ITSELF: u64 = 20 * 3600;
/// How long the events of tenants and of the store are kept.
pub const KEPT_FOR: Duration = Duration::from_secs(400 * 86_400);

/// The owner of an event: a lineage, a tenant, or the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Something has happened to a pointer or a lock.
    Lineage(Lineage),
    /// A server has changed something of a tenant.
    Tenant(Tenant),
    /// A server has done something for all.
    Store,
}

/// An event, with its owner.
#[derive(Clone, Debug)]
pub struct OwnedEvent {
    /// The owner of the event.
    pub of: Subject,
    /// The event itself.
    pub event: Event,
}

/// A part of the feed.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// In the order of the feed.
    pub events: Vec<OwnedEvent>,
    /// The last event that was looked at, to go on after it; `None` if there was none.
    pub last: Option<EventId>,
    /// How many could not be read.
    pub unreadable: u64,
    /// Whether there is more already.
    pub has_more: bool,
}

/// Where an event is in the feed: the second in which the store has it, and its name.
type Position = (u64, EventId);

/// An event that is listed, or that was read with others.
#[derive(Clone, Debug)]
struct Listed {
    position: Position,
    of: Subject,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Object(Arc<dyn Bucket>, Key),
    Read(Box<Event>),
}

/// The events of these tenants that follow `after`, or all; and those of the whole `store`, if it is given.
pub async fn read(
    tenants: &[TenantStore],
    store: Option<&Store>,
    after: Option<EventId>,
    most: usize,
) -> Result<Page> {
    for _ in 0..LOOKS {
        if let Some(page) = look(tenants, store, after, most).await? {
            return Ok(page);
        }
    }
    Err(Error::Conflict { what: "the events".to_owned() })
}

/// `None` if something that was listed was put together with others before it was read.
async fn look(
    tenants: &[TenantStore],
    store: Option<&Store>,
    after: Option<EventId>,
    most: usize,
) -> Result<Option<Page>> {
    let mut listed = listed(tenants, store).await?;
    let now = now(tenants, store).await;
    let begin = after.map(|after| position_of(&listed, after));
    if begin.is_none_or(|begin| begin.is_none_or(|(second, _)| second + BY_ITSELF < now)) {
        for tenant in tenants {
            read_merged(tenant, &mut listed).await?;
        }
    }
    let begin = after.map(|after| position_of(&listed, after).unwrap_or((after.unix_ms() / 1000, after)));
    let mut seen = HashSet::new();
    listed.sort_unstable_by_key(|listed| listed.position);
    listed.retain(|listed| {
        let (second, id) = listed.position;
        begin.is_none_or(|begin| listed.position > begin) && second + SETTLED <= now && seen.insert(id)
    });
    let has_more = listed.len() > most;
    listed.truncate(most);
    let last = listed.last().map(|listed| listed.position.1);
    let mut page = Page { events: Vec::with_capacity(listed.len()), last, unreadable: 0, has_more };
    let mut found = stream::iter(listed).map(fetched).buffered(REQUESTS_AT_ONCE);
    while let Some(told) = found.next().await {
        match told {
            Ok(told) => page.events.push(told),
            Err(error) if events::is_gone(&error) => return Ok(None),
            Err(error) => {
                tracing::warn!(%error, "an event cannot be read and is passed over");
                page.unreadable += 1;
            }
        }
    }
    Ok(Some(page))
}

/// The last event of the feed, if there is one: a reader that goes on after it learns all later ones.
pub async fn newest(tenants: &[TenantStore], store: Option<&Store>) -> Result<Option<EventId>> {
    let listed = listed(tenants, store).await?;
    let now = now(tenants, store).await;
    let settled = listed.iter().map(|listed| listed.position).filter(|(second, _)| second + SETTLED <= now);
    Ok(settled.max().map(|(_, id)| id))
}

async fn listed(tenants: &[TenantStore], store: Option<&Store>) -> Result<Vec<Listed>> {
    let mut listed = Vec::new();
    for tenant in tenants {
        list_tenant(tenant, &mut listed).await?;
    }
    if let Some(store) = store {
        let of = |_: &Key| Some(Subject::Store);
        list(store.bucket(), &layout::store_events(), of, &mut listed).await?;
    }
    Ok(listed)
}

/// The second that it is by the store's clock. A store that does not tell its time is a directory of this host.
async fn now(tenants: &[TenantStore], store: Option<&Store>) -> u64 {
    let now = match (tenants.first(), store) {
        (Some(tenant), _) => clock::of_store(tenant).await,
        (None, Some(store)) => store.now().await.map(clock::to_unix_ms),
        (None, None) => None,
    };
    now.unwrap_or_else(clock::unix_ms) / 1000
}

fn position_of(listed: &[Listed], id: EventId) -> Option<Position> {
    listed.iter().map(|listed| listed.position).find(|(_, known)| *known == id)
}

async fn list_tenant(store: &TenantStore, listed: &mut Vec<Listed>) -> Result<()> {
    let tenant = &store.tenant;
    let of_lineage = |key: &Key| layout::lineage_of_event(tenant, key).map(Subject::Lineage);
    list(&store.bucket, &layout::snapshots(tenant), of_lineage, listed).await?;
    let of_tenant = |_: &Key| Some(Subject::Tenant(tenant.clone()));
    list(&store.bucket, &layout::tenant_events(tenant), of_tenant, listed).await
}

async fn list(
    bucket: &Arc<dyn Bucket>,
    prefix: &Prefix,
    of: impl Fn(&Key) -> Option<Subject>,
    listed: &mut Vec<Listed>,
) -> Result<()> {
    let (entries, _) = list_all(&**bucket, prefix, Depth::All).await?;
    for entry in entries {
        let (Some(id), Some(of)) = (layout::event_of(&entry.key), of(&entry.key)) else { continue };
        let position = (second(entry.modified), id);
        listed.push(Listed { position, of, source: Source::Object(Arc::clone(bucket), entry.key) });
    }
    Ok(())
}

/// The events that collections have put together.
async fn read_merged(store: &TenantStore, listed: &mut Vec<Listed>) -> Result<()> {
    let (entries, _) = list_all(&*store.bucket, &layout::snapshots(&store.tenant), Depth::All).await?;
    for Entry { key, .. } in entries {
        let named = layout::merged_events_of(&key).zip(layout::lineage_of_event(&store.tenant, &key));
        let Some((id, lineage)) = named else { continue };
        match events::get_merged(store, &lineage, id).await {
            Ok(merged) => listed.extend(merged.events.into_iter().map(|stored| Listed {
                position: (stored.stored_at_ms / 1000, stored.event.id),
                of: Subject::Lineage(lineage.clone()),
                source: Source::Read(Box::new(stored.event)),
            })),
            Err(error) => tracing::warn!(%key, %error, "old events cannot be read and are passed over"),
        }
    }
    Ok(())
}

async fn fetched(listed: Listed) -> Result<OwnedEvent> {
    let Listed { of, source, .. } = listed;
    let event = match source {
        Source::Read(event) => *event,
        Source::Object(bucket, key) => {
            let object = bucket.get(&key, limits::EVENT).await?;
            Event::decode(&object.bytes).map_err(|error| error.of(&key))?
        }
    };
    Ok(OwnedEvent { of, event })
}

fn second(time: SystemTime) -> u64 {
    clock::to_unix_ms(time) / 1000
}

/// Removes events of a tenant, or of the store, whose time is over.
pub async fn sweep(bucket: &Arc<dyn Bucket>, tenant: Option<&Tenant>, now: SystemTime) -> Result<()> {
    let prefix = tenant.map_or_else(layout::store_events, layout::tenant_events);
    let (entries, _) = list_all(&**bucket, &prefix, Depth::All).await?;
    for entry in entries.iter().filter(|entry| layout::event_of(&entry.key).is_some()) {
        if now.duration_since(entry.modified).is_ok_and(|age| age > KEPT_FOR) {
            bucket.delete(&entry.key).await?;
        }
    }
    Ok(())
}
