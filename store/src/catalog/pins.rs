//! Which snapshots readers keep from being deleted.

use super::records::list_all;
use crate::{
    Result,
    bucket::{BucketError, Depth},
    content::TenantStore,
    format::{layout, pin::Pin},
    id::RecordId,
};

/// The records that are pinned now. A pin that cannot be read stops whoever asks: what it
/// protects is not known.
pub async fn pinned(store: &TenantStore) -> Result<Vec<RecordId>> {
    let (entries, _) = list_all(&*store.bucket, &layout::pins(&store.tenant), Depth::All).await?;
    let mut pinned = Vec::new();
    for entry in entries {
        let object = match store.bucket.get(&entry.key).await {
            Ok(object) => object,
            Err(BucketError::NotFound { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let pin = Pin::decode(&object.bytes).map_err(|error| error.of(&entry.key))?;
        // By the store's clock alone, as with locks.
        if object.stamp.age() <= pin.ttl() {
            pinned.push(pin.record);
        }
    }
    Ok(pinned)
}
