//! Which snapshots readers keep from being deleted and collected.
//!
//! A reader reads the record, pins it, and reads it again: still live and of the same
//! generation, or it starts over. Who deletes trashes first and looks at pins second, and
//! who collects reads records first and pins second; so one of the two sees the other.

use std::time::Duration;

use super::{clock, records, records::list_all, rules::Rules};
use crate::{
    Error, Result,
    bucket::{BucketError, Depth, Key, Version, put_unique},
    content::TenantStore,
    format::{
        layout,
        pin::Pin,
        record::{Record, State},
    },
    id::RecordId,
    name::Lineage,
};

/// How often pins are listed again that change while they are read.
const LOOKS: u32 = 100;
/// How often a reader starts over because the record changed under it.
const ATTEMPTS: u32 = 5;

/// The records that are pinned now. A pin that cannot be read stops whoever asks: what it
/// protects is not known.
pub async fn pinned(store: &TenantStore) -> Result<Vec<RecordId>> {
    let found = read(store).await?;
    Ok(found.into_iter().filter(|pin| pin.holds).map(|found| found.pin.record).collect())
}

/// A pin as it was read.
#[derive(Clone, Debug)]
pub struct Found {
    pub key: Key,
    pub pin: Pin,
    pub version: Version,
    pub age: Duration,
    /// By the store's clock alone, as with locks.
    pub holds: bool,
}

/// All pins, those included whose time is over.
pub async fn read(store: &TenantStore) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    for look in 1.. {
        let (entries, _) = list_all(&*store.bucket, &layout::pins(&store.tenant), Depth::All).await?;
        let mut gone = false;
        for entry in entries {
            if found.iter().any(|found| found.key == entry.key) {
                continue;
            }
            let object = match store.bucket.get(&entry.key).await {
                Ok(object) => object,
                Err(BucketError::NotFound { .. }) => {
                    gone = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let pin = Pin::decode(&object.bytes).map_err(|error| error.of(&entry.key))?;
            let age = object.stamp.age();
            found.push(Found { key: entry.key, holds: age <= pin.ttl(), pin, version: object.version, age });
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

/// A snapshot that is pinned by us.
#[derive(Debug)]
pub struct Pinned {
    store: TenantStore,
    key: Key,
    /// As it was after it was pinned.
    pub record: Record,
}

/// Pins the snapshot `id` for `ttl`.
pub async fn pin(
    store: &TenantStore,
    lineage: &Lineage,
    id: RecordId,
    ttl: Duration,
    rules: Rules,
) -> Result<Pinned> {
    let gone = || Error::NotFound { what: format!("snapshot {id} of {lineage}") };
    for _ in 0..ATTEMPTS {
        let (before, _) = records::get(store, lineage, id).await?;
        if before.state != State::Live {
            return Err(gone());
        }
        let key = layout::pin(&store.tenant, clock::new_record_id());
        let pin = Pin::new(id, before.generation, ttl);
        put_unique(&*store.bucket, &key, pin.encode().into()).await?;
        if !rules.look_after_pinning {
            return Ok(Pinned { store: store.clone(), key, record: before });
        }
        let after = records::get(store, lineage, id).await.map(|(record, _)| record);
        let pinned = |record| Pinned { store: store.clone(), key: key.clone(), record };
        match after {
            Ok(record) if record.state == State::Live && record.generation == before.generation => {
                return Ok(pinned(record));
            }
            after => {
                pinned(before).release().await?;
                after?;
            }
        }
    }
    Err(Error::Conflict { what: format!("record {id} of {lineage}") })
}

impl Pinned {
    pub async fn release(self) -> Result<()> {
        Ok(self.store.bucket.delete(&self.key).await?)
    }
}
