//! `CondemnedDoc` is a document of condemned packs, which moves from phase to phase.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Result,
    bucket::{BucketError, Depth, Key, Version, Write},
    catalog::{cas, clock, records::list_all},
    content::TenantStore,
    format::{
        condemned::{Condemned, Phase},
        layout, limits,
    },
    id::{PackId, RecordId},
};

const REQUESTS_AT_ONCE: usize = 16;
/// So many names are far below the bound on a document.
pub(super) const MOST_PACKS: usize = 100_000;

/// A document as it was read or written last.
#[derive(Clone, Debug)]
pub(super) struct CondemnedDoc {
    pub id: RecordId,
    pub body: Condemned,
    version: Version,
    /// Since it was last written, by the store's clock.
    pub age: Duration,
}

/// All of them, oldest first. One that cannot be read ends the run.
pub(super) async fn all(store: &TenantStore) -> Result<Vec<CondemnedDoc>> {
    let (entries, _) = list_all(&*store.bucket, &layout::condemned(&store.tenant), Depth::All).await?;
    let keys = entries.into_iter().filter_map(|entry| Some((entry.key.name().parse().ok()?, entry.key)));
    let found: Vec<Option<CondemnedDoc>> = stream::iter(keys)
        .map(|(id, key)| async move { read(store, id, &key).await })
        .buffered(REQUESTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

async fn read(store: &TenantStore, id: RecordId, key: &Key) -> Result<Option<CondemnedDoc>> {
    match store.bucket.get(key, limits::CONDEMNED).await {
        Ok(object) => {
            let body = Condemned::decode(&object.bytes).map_err(|error| error.of(key))?;
            Ok(Some(CondemnedDoc { id, body, version: object.version, age: object.stamp.age() }))
        }
        Err(BucketError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Files a new document. From the moment this returns it is visible to every writer that
/// has no lease yet.
pub(super) async fn file(store: &TenantStore, packs: Vec<PackId>) -> Result<Option<CondemnedDoc>> {
    let id = clock::new_record_id();
    let key = layout::condemned_by(&store.tenant, id);
    let body = Condemned::new(packs);
    let bytes = body.encode();
    let mut attempts = store.bucket.retry_policy().start();
    loop {
        match store.bucket.put(&key, bytes.clone().into(), Write::Create).await {
            Ok(version) => return Ok(Some(CondemnedDoc { id, body, version, age: Duration::ZERO })),
            // Ours, from an earlier delivery; somebody may have gone on with it since.
            Err(BucketError::AlreadyExists { .. }) => return read(store, id, &key).await,
            Err(error) if error.is_retryable() && attempts.again(&error).await => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl CondemnedDoc {
    /// Replaces the document by `change` of it. If somebody else has replaced it meanwhile, it
    /// becomes theirs, and `false` is returned; `None` if it is gone.
    pub(super) async fn advance(
        &mut self,
        store: &TenantStore,
        change: impl FnOnce(&mut Condemned),
    ) -> Result<Option<bool>> {
        let key = layout::condemned_by(&store.tenant, self.id);
        let mut next = self.body.clone();
        change(&mut next);
        let replaced = cas::replace(&*store.bucket, &key, next.encode().into(), self.version.clone());
        if let Some(version) = replaced.await? {
            (self.body, self.version, self.age) = (next, version, Duration::ZERO);
            return Ok(Some(true));
        }
        match read(store, self.id, &key).await? {
            Some(now) => {
                *self = now;
                Ok(Some(false))
            }
            None => Ok(None),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.body.phase
    }

    /// Whether the fate of its packs is decided: they go, or are gone.
    pub(super) fn is_decided(&self) -> bool {
        matches!(self.phase(), Phase::Sweep | Phase::Swept)
    }

    /// A swept document changes no more, so it may simply be removed.
    pub(super) async fn remove(&self, store: &TenantStore) -> Result<()> {
        Ok(store.bucket.delete(&layout::condemned_by(&store.tenant, self.id)).await?)
    }
}
