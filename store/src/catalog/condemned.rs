//! `barred` lists the packs that collections have condemned: nothing may refer to them anew.
//!
//! A writer reads these after its own lease exists. A collection that condemns later sees
//! the lease and waits for it; one that condemned earlier is seen here, or had deleted its
//! packs before its document went: so a writer asks only after this whether a pack is there
//! (`existing`). Either way no reference is made to a pack that is about to go.

use futures::{StreamExt, TryStreamExt, stream};

use super::records::list_all;
use crate::{
    Result,
    bucket::{BucketError, Depth, Key},
    content::{TenantStore, cache::CacheKind},
    format::{
        condemned::{Condemned, Phase},
        layout, limits,
    },
    id::PackId,
};

const REQUESTS_AT_ONCE: usize = 16;

/// All packs that are barred now. One document that cannot be read stops the writer.
pub(crate) async fn barred(store: &TenantStore) -> Result<Vec<PackId>> {
    let (entries, _) = list_all(&*store.bucket, &layout::condemned(&store.tenant), Depth::All).await?;
    let found: Vec<Vec<PackId>> = stream::iter(entries)
        .map(|entry| async move { packs_of(store, &entry.key).await })
        .buffer_unordered(REQUESTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

/// The packs that a document names. One that is swept changes no more, so this host reads it once.
async fn packs_of(store: &TenantStore, key: &Key) -> Result<Vec<PackId>> {
    let kept = store.cache.as_ref().and_then(|cache| cache.read(CacheKind::Swept, key.name()));
    if let Some(swept) = kept.and_then(|bytes| Condemned::decode(&bytes).ok()) {
        return Ok(swept.packs);
    }
    let object = match store.bucket.get(key, limits::CONDEMNED).await {
        Ok(object) => object,
        // Its time was over: what it named was gone before it.
        Err(BucketError::NotFound { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let condemned = Condemned::decode(&object.bytes).map_err(|error| error.of(key))?;
    if let (Phase::Swept, Some(cache)) = (condemned.phase, &store.cache) {
        cache.write(CacheKind::Swept, key.name(), &object.bytes);
    }
    Ok(condemned.packs)
}
