//! Lists the pins of a tenant, for deletions and collections.

use std::time::Duration;

use futures::{StreamExt, stream};

use crate::{
    Error, Result,
    bucket::{BucketError, Depth, Key, Version},
    catalog::records::list_all,
    content::TenantStore,
    format::{layout, limits, pin::Pin},
    id::RecordId,
};

/// How often pins are listed again that change while they are read.
const LOOKS: u32 = 100;
const REQUESTS_AT_ONCE: usize = 16;

/// The records that are pinned now. A pin that cannot be read is an error: nobody knows what it
/// protects.
pub async fn pinned(store: &TenantStore) -> Result<Vec<RecordId>> {
    let found = read(store).await?;
    Ok(found.into_iter().filter(|pin| pin.holds).map(|found| found.pin.record).collect())
}

/// A pin as it was read.
#[derive(Clone, Debug)]
pub struct FoundPin {
    /// Where the pin lies.
    pub key: Key,
    /// The pin itself.
    pub pin: Pin,
    /// The version that a deletion must name.
    pub version: Version,
    /// How long ago it was written last, by the store's clock.
    pub age: Duration,
    /// By the store's clock alone, as with locks.
    pub holds: bool,
}

/// All pins, those included whose time is over.
pub async fn read(store: &TenantStore) -> Result<Vec<FoundPin>> {
    let mut found: Vec<FoundPin> = Vec::new();
    for look in 1.. {
        let (entries, _) = list_all(&*store.bucket, &layout::pins(&store.tenant), Depth::All).await?;
        let mut gone = false;
        let unread = entries.into_iter().map(|entry| entry.key);
        let unread: Vec<Key> = unread.filter(|key| !found.iter().any(|found| found.key == *key)).collect();
        let mut reading = stream::iter(unread)
            .map(|key| async move { (store.bucket.get(&key, limits::PIN).await, key) })
            .buffered(REQUESTS_AT_ONCE);
        while let Some((read, key)) = reading.next().await {
            let object = match read {
                Ok(object) => object,
                Err(BucketError::NotFound { .. }) => {
                    gone = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let pin = Pin::decode(&object.bytes).map_err(|error| error.of(&key))?;
            let age = object.stamp.age();
            found.push(FoundPin { key, holds: age <= pin.ttl(), pin, version: object.version, age });
        }
        // A pin is renewed by a new one, and then the old one goes: one that was listed and is
        // gone may have been renewed after the listing.
        if !gone {
            break;
        }
        if look == LOOKS {
            return Err(Error::Conflict { what: format!("the pins of {}", store.tenant) });
        }
    }
    Ok(found)
}
