//! Removes everything but the tombstone of a profile or a tenant that was deleted.
//!
//! A lineage is removed when nothing of it is garbage any more, and as long after its last object was written
//! as a request may be under way whose sender has given it up: an object that such a request brings back
//! would be taken for the old one. Its pointer goes last, for it keeps out writers that began before. Packs
//! that other profiles share stay, and nothing tells any more whose they were. A lineage whose pointer names
//! something is left alone: somebody has begun it anew.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime},
};

use super::{
    inventory::Inventory,
    roots::{Marks, SeenRecord},
};
use crate::{
    Error, Result,
    bucket::{BucketError, Deleted, Depth, Entry, Key},
    catalog::{
        cas,
        records::{self, list_all},
        tombstone,
    },
    content::TenantStore,
    format::{config::TenantConfig, layout, limits, record::State, tombstone::Progress},
    id::RecordId,
    name::{Lineage, ProfileName},
};

/// A run's knowledge once its other steps are done.
pub(super) struct Burial<'a> {
    pub store: &'a TenantStore,
    pub marks: &'a Marks,
    pub inventory: &'a Inventory,
    pub now: SystemTime,
    /// How long everything must have been as it is.
    pub ended_for: Duration,
    pub act: bool,
}

impl Burial<'_> {
    /// How many objects went.
    pub(super) async fn run(&self) -> Result<u64> {
        let mut names: Vec<ProfileName> = self.marks.tombstones.iter().cloned().collect();
        if self.marks.tenant_is_deleted {
            names = records::profiles(self.store).await?;
        }
        names.sort_unstable();
        let garbage = if names.is_empty() { HashSet::new() } else { self.garbage()? };
        let mut removed = 0;
        for name in names {
            removed += self.profile(&name, &garbage).await?;
        }
        if self.marks.tenant_is_deleted {
            removed += self.tenant().await?;
        }
        Ok(removed)
    }

    /// The writes that have stored packs which nothing needs: their records tell whose those are
    /// until they are gone.
    fn garbage(&self) -> Result<HashSet<RecordId>> {
        let mut writes = HashSet::new();
        for line in self.inventory.packs.lines() {
            let (pack, _) = line?;
            if !writes.contains(&pack.write) && !self.marks.packs.has(&pack)? {
                writes.insert(pack.write);
            }
        }
        Ok(writes)
    }

    async fn profile(&self, name: &ProfileName, garbage: &HashSet<RecordId>) -> Result<u64> {
        let (listed, _) = list_all(&*self.store.bucket, &layout::profile(name), Depth::All).await?;
        let tombstone = layout::tombstone(name);
        let others: Vec<&Entry> = listed.iter().filter(|entry| entry.key != tombstone).collect();
        let lineages: HashSet<Lineage> =
            others.iter().filter_map(|entry| self.lineage_of(&entry.key)).collect();
        if !lineages.iter().all(|lineage| self.marks.is_buried(lineage)) || !self.may_go(&others, garbage) {
            return Ok(0);
        }
        let removed = others.len() as u64;
        if !self.act {
            return Ok(removed);
        }
        let mut keys: Vec<&Key> = others.into_iter().map(|entry| &entry.key).collect();
        keys.sort_by_key(|key| order(key));
        for key in keys {
            self.remove(key).await?;
        }
        if listed.iter().any(|entry| entry.key == tombstone) {
            tombstone::conclude(self.store, name).await?;
        }
        Ok(removed)
    }

    fn lineage_of(&self, key: &Key) -> Option<Lineage> {
        let tenant = &self.store.tenant;
        layout::lineage_of(tenant, key).or_else(|| layout::lineage_of_event(tenant, key))
    }

    /// Whether nothing is under way that any of these objects has to wait for.
    fn may_go(&self, objects: &[&Entry], garbage: &HashSet<RecordId>) -> bool {
        let pinned: HashSet<RecordId> = self.marks.pins.iter().map(|found| found.pin.record).collect();
        let is_over = |id: RecordId| {
            let ended = |seen: &SeenRecord| {
                matches!(seen.state, State::Tombstone | State::Revoked) && seen.has_ended()
            };
            let ended = self.marks.records.get(&id).is_some_and(ended);
            ended && !pinned.contains(&id) && !garbage.contains(&id)
        };
        let may_go = |entry: &&Entry| {
            self.age(entry) >= self.ended_for && layout::record_of(&entry.key).is_none_or(is_over)
        };
        objects.iter().all(may_go)
    }

    fn age(&self, entry: &Entry) -> Duration {
        self.now.duration_since(entry.modified).unwrap_or_default()
    }

    async fn remove(&self, key: &Key) -> Result<()> {
        let bucket = &self.store.bucket;
        if !matches!(key.name(), "latest.json" | "lock.json") {
            // Nobody ever writes to these names again.
            return Ok(bucket.delete(key).await?);
        }
        let object = match bucket.get(key, limits::POINTER.max(limits::LOCK)).await {
            Ok(object) => object,
            Err(BucketError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match bucket.delete_if(key, &object.version).await {
            Ok(Deleted::Unsupported) => Ok(bucket.delete(key).await?),
            // Somebody has written it: the next run looks again.
            Ok(Deleted::Yes) | Err(BucketError::VersionMismatch { .. } | BucketError::NotFound { .. }) => {
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes all other objects below the tenant's prefixes, once no profile is left.
    async fn tenant(&self) -> Result<u64> {
        let tenant = &self.store.tenant;
        let (catalog, _) = list_all(&*self.store.bucket, &layout::snapshots(tenant), Depth::All).await?;
        let is_tombstone = |entry: &Entry| layout::tombstone_of(tenant, &entry.key).is_some();
        let (content, _) = list_all(&*self.store.bucket, &layout::content(tenant), Depth::All).await?;
        let config = layout::tenant_config(tenant);
        let mut others: Vec<&Entry> = content.iter().filter(|entry| entry.key != config).collect();
        // What a collection may still need, or a session holds.
        let holds = |entry: &Entry| {
            let folder = |prefix: crate::bucket::Prefix| entry.key.as_str().starts_with(prefix.as_str());
            let pinned = self.marks.pins.iter().any(|found| found.holds && found.key == entry.key);
            folder(layout::packs(tenant)) || folder(layout::condemned(tenant)) || pinned
        };
        // What servers tell of the tenant, this collection among it, holds nothing up.
        let is_told = |entry: &Entry| entry.key.as_str().starts_with(layout::tenant_events(tenant).as_str());
        let waits = |entry: &&Entry| holds(entry) || self.age(entry) < self.ended_for && !is_told(entry);
        if !catalog.iter().all(is_tombstone) || others.iter().any(waits) {
            return Ok(0);
        }
        others.extend(&catalog);
        if self.act {
            for entry in &others {
                self.store.bucket.delete(&entry.key).await?;
            }
            self.conclude(&config).await?;
        }
        Ok(others.len() as u64)
    }

    async fn conclude(&self, key: &Key) -> Result<()> {
        let object = self.store.bucket.get(key, limits::CONFIG).await?;
        let mut config = TenantConfig::decode(&object.bytes).map_err(|error| error.of(key))?;
        match &mut config.deletion {
            Some(deletion) if deletion.state == Progress::Begun => deletion.state = Progress::Done,
            _ => return Ok(()),
        }
        let replaced = cas::replace(&*self.store.bucket, key, config.encode().into(), object.version).await?;
        replaced.map(drop).ok_or_else(|| Error::Conflict { what: key.to_string() })
    }
}

/// The order of deletion: the pointer last, the lock before it, records before that.
fn order(key: &Key) -> u8 {
    match key.name() {
        "latest.json" => 3,
        "lock.json" => 2,
        _ if layout::record_of(key).is_some() => 1,
        _ => 0,
    }
}
