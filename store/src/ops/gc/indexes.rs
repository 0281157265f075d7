//! Rewrites indexes without packs that are gone, and merges them when there are too many.
//!
//! An index is a hint: its loss costs deduplication, never data.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};

use super::inventory::Inventory;
use crate::{
    Result,
    bucket::{Bucket, BucketError, Entry, put_unique},
    catalog::{clock, index::amend},
    content::TenantStore,
    format::{
        WRITER,
        index::{self, Index},
        layout, limits,
    },
    id::PackId,
};

const REQUESTS_AT_ONCE: usize = 16;
/// Where the packs of most indexes are named.
const HEAD_BYTES: u64 = 4096;
/// Small ones are merged when there are more than this.
const MOST_SMALL: usize = 64;
const SMALL_BYTES: u64 = 1 << 20;
/// The size of a merged index, small enough to be replaced in any store.
const MERGED_BYTES: u64 = 4 << 20;

/// Takes packs that go or are gone out of all indexes, and merges small ones. How many were
/// rewritten, removed and merged.
pub(super) async fn tidy(
    store: &TenantStore,
    inventory: &Inventory,
    doomed: &HashSet<PackId>,
    act: bool,
) -> Result<(u64, u64, u64)> {
    let mut heads = stream::iter(&inventory.indexes)
        .map(|entry| async move { (head(store, entry).await, entry) })
        .buffered(REQUESTS_AT_ONCE);
    let (mut rewritten, mut removed) = (0, 0);
    let mut small = Vec::new();
    while let Some((packs, entry)) = heads.next().await {
        let Some(packs) = packs? else { continue };
        let mut gone = HashSet::new();
        for pack in &packs {
            if doomed.contains(pack) || !inventory.packs.has(pack)? {
                gone.insert(*pack);
            }
        }
        if gone.len() == packs.len() {
            removed += 1;
            if act {
                store.bucket.delete(&entry.key).await?;
            }
        } else if !gone.is_empty() {
            rewritten += 1;
            if act {
                rewrite(store, entry, &gone).await?;
            }
        } else if entry.size <= SMALL_BYTES {
            small.push(entry);
        }
    }
    drop(heads);
    let merged = if small.len() > MOST_SMALL { small.len() as u64 } else { 0 };
    if merged > 0 && act {
        merge(store, &small, doomed).await?;
    }
    Ok((rewritten, removed, merged))
}

/// The packs an index names; `None` if it cannot be read, or is gone.
async fn head(store: &TenantStore, entry: &Entry) -> Result<Option<Vec<PackId>>> {
    let mut len = entry.size.min(HEAD_BYTES);
    loop {
        let bytes = match store.bucket.get_range(&entry.key, 0..len).await {
            Ok(bytes) => bytes,
            Err(BucketError::NotFound { .. } | BucketError::Truncated { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        match index::packs_of(&bytes) {
            Ok(index::Head::Packs(packs)) => return Ok(Some(packs)),
            Ok(index::Head::Needs(more)) if more <= entry.size.min(limits::INDEX) && more > len => len = more,
            Ok(index::Head::Needs(_)) => return Ok(None),
            Err(error) => {
                tracing::warn!(key = %entry.key, %error, "an index cannot be read and is left as it is");
                return Ok(None);
            }
        }
    }
}

async fn rewrite(store: &TenantStore, entry: &Entry, gone: &HashSet<PackId>) -> Result<()> {
    amend(store, &entry.key, |index| {
        let before = index.packs.len();
        index.packs.retain(|pack| !gone.contains(&pack.pack));
        index.packs.len() < before
    })
    .await
}

/// The merged index first, then the parts go: between the two, some of it is there twice.
async fn merge(store: &TenantStore, small: &[&Entry], doomed: &HashSet<PackId>) -> Result<()> {
    let mut seen = HashSet::new();
    let mut batch = Batch::default();
    let mut read = stream::iter(small)
        .map(|entry| async move { (store.bucket.get(&entry.key, limits::INDEX).await, *entry) })
        .buffered(REQUESTS_AT_ONCE);
    while let Some((object, entry)) = read.next().await {
        let object = match object {
            Err(BucketError::NotFound { .. } | BucketError::TooLarge { .. }) => continue,
            object => object?,
        };
        let Ok(index) = Index::decode(&object.bytes) else { continue };
        if index.key != *store.key() {
            continue;
        }
        batch.bytes += entry.size;
        batch.parts.push(entry);
        batch.packs.extend(
            index.packs.into_iter().filter(|pack| !doomed.contains(&pack.pack) && seen.insert(pack.pack)),
        );
        if batch.bytes >= MERGED_BYTES {
            std::mem::take(&mut batch).finish(store).await?;
        }
    }
    batch.finish(store).await
}

#[derive(Default)]
struct Batch<'a> {
    bytes: u64,
    parts: Vec<&'a Entry>,
    packs: Vec<index::IndexPack>,
}

impl Batch<'_> {
    async fn finish(self, store: &TenantStore) -> Result<()> {
        if self.parts.len() < 2 {
            return Ok(());
        }
        let bucket: &dyn Bucket = &*store.bucket;
        let merged = Index { key: *store.key(), writer: WRITER.to_owned(), packs: self.packs };
        let key = layout::index(&store.tenant, clock::new_record_id());
        put_unique(bucket, &key, merged.encode().into()).await?;
        stream::iter(self.parts)
            .map(|part| bucket.delete(&part.key))
            .buffer_unordered(REQUESTS_AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }
}
