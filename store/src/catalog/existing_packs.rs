//! Finds out which packs are there, for a write that is about to refer to them.
//!
//! Asked under the write's lease, and after it has read the condemned documents. A pack that is there
//! then, and that no document names, can only be condemned by a document that waits for the
//! lease. A pack that a live record names, read at such a moment, need not be asked for: to be deleted
//! it would have to be in a document by then. So a write asks only for the packs it knows from
//! elsewhere; all packs are listed only where that is one request.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Result,
    bucket::{BucketError, Depth},
    content::{TenantStore, dedup_index::DedupIndex},
    format::layout,
    id::PackId,
};

const REQUESTS_AT_ONCE: usize = 16;

/// Looks at the first page of all packs. If that is all of them, every other pack is known to be
/// missing.
pub(super) async fn first_page(store: &TenantStore, known: &DedupIndex) -> Result<()> {
    let page = store.bucket.list(&layout::packs(&store.tenant), Depth::All, None).await?;
    let packs = page.entries.iter().filter_map(|entry| entry.key.name().parse().ok());
    match page.next {
        None => known.keep_only(packs),
        Some(_) => known.note_existing(packs),
    }
    Ok(())
}

/// Asks for each of these packs; those that are not there.
pub(super) async fn missing(store: &TenantStore, packs: HashSet<PackId>) -> Result<Vec<PackId>> {
    let asked: Vec<Option<PackId>> = stream::iter(packs)
        .map(|pack| async move {
            match store.bucket.get_range(&layout::pack(&store.tenant, pack), 0..1).await {
                Ok(_) => Ok(None),
                Err(BucketError::NotFound { .. } | BucketError::Truncated { .. }) => Ok(Some(pack)),
                Err(error) => Err(error),
            }
        })
        .buffer_unordered(REQUESTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(asked.into_iter().flatten().collect())
}
