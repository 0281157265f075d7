//! What lies in the bucket.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use crate::{
    Result,
    bucket::{Bucket, Depth, Entry, Key, Prefix},
    content::TenantStore,
    format::layout,
    id::PackId,
};

/// A pack that exists.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pack {
    pub bytes: u64,
    modified: SystemTime,
}

/// Packs and indexes. Objects with other names are not ours.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    pub packs: HashMap<PackId, Pack>,
    pub indexes: Vec<Entry>,
}

impl Inventory {
    /// Indexes first: what one of them names was there before it, so it is found.
    pub(super) async fn take(store: &TenantStore) -> Result<Self> {
        let mut inventory = Self::default();
        let bucket = &*store.bucket;
        each(bucket, &layout::indexes(&store.tenant), |entry| inventory.indexes.push(entry)).await?;
        each(bucket, &layout::packs(&store.tenant), |entry| {
            if let Ok(id) = entry.key.name().parse() {
                inventory.packs.insert(id, Pack { bytes: entry.size, modified: entry.modified });
            }
        })
        .await?;
        Ok(inventory)
    }
}

impl Pack {
    pub(super) fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.modified).unwrap_or_default()
    }
}

/// Shows every object below a prefix, page by page.
pub(super) async fn each(bucket: &dyn Bucket, prefix: &Prefix, mut show: impl FnMut(Entry)) -> Result<()> {
    let mut cursor = None;
    loop {
        let page = bucket.list(prefix, Depth::All, cursor).await?;
        page.entries.into_iter().for_each(&mut show);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

/// Keys below a prefix that were written longer ago than `age`.
pub(super) async fn older(
    store: &TenantStore,
    prefix: &Prefix,
    age: Duration,
    now: SystemTime,
) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    each(&*store.bucket, prefix, |entry| {
        if now.duration_since(entry.modified).unwrap_or_default() > age {
            keys.push(entry.key);
        }
    })
    .await?;
    Ok(keys)
}
