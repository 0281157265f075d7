//! Loads the tenant's indexes, newest first, as far as a budget allows.

use std::collections::HashSet;

use bytes::Bytes;
use futures::{StreamExt, stream};

use super::{cas, clock, records::list_all};
use crate::{
    Result,
    bucket::{BucketError, Depth, Entry, Key, put_unique},
    content::{TenantStore, cache::CacheKind, chunk::Locations},
    format::{index::Index, layout, limits},
    id::RecordId,
};

const REQUESTS_AT_ONCE: usize = 8;
/// Many tiny indexes are many requests: the newest will do until a collection merges them.
const MAX_INDEXES: usize = 256;

/// How much of the tenant's indexes is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexBudget {
    /// Indexes beyond so many bytes are left out.
    pub most_bytes: u64,
    /// Nor is more read than this: it would cost more than it can save.
    pub worth_bytes: u64,
}

impl IndexBudget {
    /// Whatever it may save.
    pub const fn of(most_bytes: u64) -> Self {
        Self { most_bytes, worth_bytes: u64::MAX }
    }
}

/// The use that was made of the tenant's indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexUse {
    /// How many indexes were read.
    pub indexes: u64,
    /// Left out because the budget was spent, though they might have been worth reading.
    pub left_out: u64,
}

/// The contents of the indexes that were read, and their names.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Where each chunk lies.
    pub locations: Locations,
    /// How much was read for it.
    pub used: IndexUse,
    seen: HashSet<(Key, u64)>,
}

/// Loads indexes within the budget. Unreadable ones are passed over: they are hints.
pub async fn load(store: &TenantStore, budget: IndexBudget) -> Result<Loaded> {
    of_entries(store, list(store).await?, budget).await
}

/// Loads them again if one that was `loaded` has changed, or is gone: a repair may have taken lost chunks
/// out. A change of an index changes its length.
///
/// Called once a write has its lease: a repair takes lost chunks out of the indexes before it
/// looks for writes that it has to revoke. So one that missed the lease was done with the indexes.
pub async fn load_again(store: &TenantStore, loaded: &Loaded, budget: IndexBudget) -> Result<Option<Loaded>> {
    let entries = list(store).await?;
    let now: HashSet<(&Key, u64)> = entries.iter().map(|entry| (&entry.key, entry.size)).collect();
    if loaded.seen.iter().all(|(key, size)| now.contains(&(key, *size))) {
        return Ok(None);
    }
    of_entries(store, entries, budget).await.map(Some)
}

async fn list(store: &TenantStore) -> Result<Vec<Entry>> {
    Ok(list_all(&*store.bucket, &layout::indexes(&store.tenant), Depth::All).await?.0)
}

async fn of_entries(store: &TenantStore, entries: Vec<Entry>, budget: IndexBudget) -> Result<Loaded> {
    let mut entries = entries;
    // Names begin with the time of writing.
    entries.sort_unstable_by(|a, b| b.key.cmp(&a.key));
    let total = entries.len();
    let allowed = within(&entries, budget.most_bytes);
    entries.truncate(within(&entries[..allowed], budget.worth_bytes));
    let chosen = entries;
    let used = IndexUse { indexes: chosen.len() as u64, left_out: (total - allowed) as u64 };
    let seen = chosen.iter().map(|entry| (entry.key.clone(), entry.size)).collect();
    let mut indexes = stream::iter(chosen).map(|entry| one(store, entry)).buffered(REQUESTS_AT_ONCE);
    let mut locations = Locations::new();
    while let Some(index) = indexes.next().await {
        let Some(index) = index.filter(|index| index.key == *store.key()) else { continue };
        locations.reserve(index.packs.iter().map(|pack| pack.chunks.len()).sum());
        for (id, location) in index.packs.iter().flat_map(|pack| pack.locations()) {
            locations.entry(id).or_insert(location);
        }
    }
    Ok(Loaded { locations, used, seen })
}

/// How many of the first entries have no more than `bytes` together.
fn within(entries: &[Entry], bytes: u64) -> usize {
    let mut spent = 0_u64;
    let fits = |entry: &&Entry| {
        spent = spent.saturating_add(entry.size);
        spent <= bytes
    };
    entries.iter().take(MAX_INDEXES).take_while(fits).count()
}

/// Changes an index by compare-and-swap for as long as `change` says that it did so. One that
/// is gone, or cannot be read, is left alone: it is a hint.
pub(crate) async fn amend(store: &TenantStore, key: &Key, change: impl Fn(&mut Index) -> bool) -> Result<()> {
    loop {
        let object = match store.bucket.get(key, limits::INDEX).await {
            Ok(object) => object,
            Err(BucketError::NotFound { .. }) => return Ok(()),
            // No reader takes it, so nothing of it is of use to anybody.
            Err(BucketError::TooLarge { .. }) => return Ok(store.bucket.delete(key).await?),
            Err(error) => return Err(error.into()),
        };
        let Ok(mut index) = Index::decode(&object.bytes) else { return Ok(()) };
        if !change(&mut index) {
            return Ok(());
        }
        let bytes = Bytes::from(index.encode());
        match cas::replace(&*store.bucket, key, bytes.clone(), object.version).await {
            Ok(Some(_)) => return Ok(()),
            // Somebody else was faster; some of it may be left to do.
            Ok(None) => {}
            // A directory cannot replace a very large one: it gets another name.
            Err(crate::Error::Bucket(BucketError::Rejected { .. })) => {
                let another = layout::index(&store.tenant, clock::new_record_id());
                put_unique(&*store.bucket, &another, bytes.into()).await?;
                return Ok(store.bucket.delete(key).await?);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Stores the index of a write, and others beside it if it has too much to tell for one; says how
/// many bytes that took.
pub async fn upload(store: &TenantStore, write: RecordId, index: Index) -> Result<u64> {
    let mut total = 0;
    for (number, part) in index.parts(limits::INDEX).into_iter().enumerate() {
        let name = if number == 0 { write } else { clock::new_record_id() };
        let (key, bytes) = (layout::index(&store.tenant, name), Bytes::from(part.encode()));
        put_unique(&*store.bucket, &key, bytes.clone().into()).await?;
        remember(store, name, &bytes);
        total += bytes.len() as u64;
    }
    Ok(total)
}

/// Keeps an index that this host has just written.
fn remember(store: &TenantStore, write: RecordId, bytes: &[u8]) {
    if let Some(cache) = &store.cache {
        cache.write(CacheKind::Index, &cache_name(&write.to_string(), bytes.len() as u64), bytes);
    }
}

/// A collection that removes entries changes the size, so that the name is another one.
fn cache_name(write: &str, size: u64) -> String {
    format!("{write}-{size}")
}

async fn one(store: &TenantStore, entry: Entry) -> Option<Index> {
    let name = cache_name(entry.key.name(), entry.size);
    if let Some(bytes) = store.cache.as_ref().and_then(|cache| cache.read(CacheKind::Index, &name))
        && let Ok(index) = Index::decode(&bytes)
    {
        return Some(index);
    }
    let object = store.bucket.get(&entry.key, limits::INDEX).await;
    let decoded = object.map_err(crate::Error::from).and_then(|object| {
        let index = Index::decode(&object.bytes).map_err(|error| error.of(&entry.key))?;
        if let Some(cache) = &store.cache {
            cache.write(CacheKind::Index, &name, &object.bytes);
        }
        Ok(index)
    });
    decoded.inspect_err(|error| tracing::warn!(key = %entry.key, %error, "an index is passed over")).ok()
}
