//! `Inventory` lists the packs and indexes in the bucket.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::spill_map::{Line, Room, SpillMap, number};
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
#[derive(Debug)]
pub(super) struct Inventory {
    pub packs: SpillMap<Pack>,
    pub indexes: Vec<Entry>,
}

impl Inventory {
    /// Indexes first: packs that one of them names were there before it, so they are found.
    pub(super) async fn take(store: &TenantStore, room: Room) -> Result<Self> {
        let mut inventory = Self { packs: SpillMap::new(room), indexes: Vec::new() };
        let mut listed = Ok(());
        let bucket = &*store.bucket;
        each(bucket, &layout::indexes(&store.tenant), |entry| inventory.indexes.push(entry)).await?;
        each(bucket, &layout::packs(&store.tenant), |entry| {
            if let (Ok(id), true) = (entry.key.name().parse(), listed.is_ok()) {
                listed = inventory.packs.add(id, Pack { bytes: entry.size, modified: entry.modified });
            }
        })
        .await?;
        listed.map(|()| inventory)
    }

    /// As if it had just been stored.
    pub(super) fn imagine(&mut self, pack: PackId, bytes: u64, now: SystemTime) -> Result<()> {
        self.packs.add(pack, Pack { bytes, modified: now })
    }
}

impl Line for Pack {
    const LEN: usize = 16;

    fn put(&self, out: &mut Vec<u8>) {
        let since = self.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&(since.as_nanos() as u64).to_le_bytes());
    }

    fn take(bytes: &[u8]) -> Self {
        let modified = UNIX_EPOCH + Duration::from_nanos(number(bytes, 8));
        Self { bytes: number(bytes, 0), modified }
    }

    /// A listing may show the same object twice.
    fn and(self, other: Self) -> Self {
        other
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
