//! Removes small things that dead processes and long time leave behind.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, SystemTime},
};

use futures::{StreamExt, TryStreamExt, stream};

use super::{
    HORIZON,
    condemned_docs::CondemnedDoc,
    inventory::{self, Inventory},
    roots::{Marks, SeenRecord},
};
use crate::{
    Error, Result,
    bucket::{Deleted, Key},
    catalog::{lease::LEASE_TTL, lineage_handle::LineageHandle},
    content::TenantStore,
    error::Needed,
    format::{layout, record::State},
    id::RecordId,
};

const DELETES_AT_ONCE: usize = 16;
/// A probe takes seconds.
const PROBE_AGE: Duration = Duration::from_secs(86_400);
/// The largest archive takes hours at most.
const PUBLISH_AGE: Duration = Duration::from_secs(86_400);
/// A reader that sleeps longer than its pin holds pins again when it wakes.
const PIN_AGE: Duration = Duration::from_secs(86_400);

/// A run's knowledge once its other steps are done.
pub(super) struct Leftovers<'a> {
    pub store: &'a TenantStore,
    pub marks: &'a Marks,
    pub inventory: &'a Inventory,
    pub now: SystemTime,
    /// How long documents are kept.
    pub swept_for: Duration,
    /// How long records of ended writes and deleted snapshots are kept.
    pub ended_for: Duration,
    pub act: bool,
}

impl Leftovers<'_> {
    /// How many leftovers went.
    pub(super) async fn remove(&self, swept: &[CondemnedDoc]) -> Result<u64> {
        let (store, act) = (self.store, self.act);
        let over = swept.iter().filter(|document| document.age > self.swept_for);
        let mut gone: Vec<Key> =
            over.map(|document| layout::condemned_by(&store.tenant, document.id)).collect();
        gone.extend(self.ended_records()?);
        gone.extend(inventory::older(store, &layout::probe(&store.tenant), PROBE_AGE, self.now).await?);
        let removed = gone.len() as u64 + publications(store, self.marks, act).await? + self.pins().await?;
        if act {
            stream::iter(gone)
                .map(|key| async move { store.bucket.delete(&key).await })
                .buffer_unordered(DELETES_AT_ONCE)
                .try_collect::<Vec<()>>()
                .await?;
        }
        Ok(removed)
    }

    /// Records of ended writes and deleted snapshots. One stays as long as a pack of its write is there, so
    /// that every pack has a record that tells its lineage.
    fn ended_records(&self) -> Result<Vec<Key>> {
        let pinned = self.marks.pins.iter().map(|found| found.pin.record);
        let named: HashSet<RecordId> =
            pinned.chain(self.marks.pointed.iter().map(|(record, _)| *record)).collect();
        let mut keys = Vec::new();
        for (id, seen) in &self.marks.records {
            let over = matches!(seen.state, State::Tombstone | State::Revoked) && seen.has_ended();
            let named = named.contains(id);
            // Those of a deleted profile go with all else that it has.
            if !over || named || seen.age < self.ended_for || self.marks.is_doomed(seen) {
                continue;
            }
            if self.inventory.packs.has_write(*id)? {
                continue;
            }
            keys.push(layout::record(self.marks.lineage(seen), *id));
        }
        Ok(keys)
    }

    /// Pins that no reader renews any more.
    async fn pins(&self) -> Result<u64> {
        let mut removed = 0;
        for found in
            self.marks.pins.iter().filter(|found| found.age > found.pin.ttl().saturating_add(PIN_AGE))
        {
            removed += 1;
            if !self.act {
                continue;
            }
            // With a condition: its reader may be renewing it now. Without conditions, only what
            // is so old that no reader still goes by it.
            let deleted = self.store.bucket.delete_if(&found.key, &found.version).await;
            if matches!(deleted, Ok(Deleted::Unsupported)) && found.age > HORIZON {
                self.store.bucket.delete(&found.key).await?;
            }
        }
        Ok(removed)
    }
}

/// Archives whose upload never ended.
async fn publications(store: &TenantStore, marks: &Marks, act: bool) -> Result<u64> {
    let mut removed = 0;
    for (id, seen) in marks.records.iter().filter(|(_, seen)| seen.publishing && seen.age > PUBLISH_AGE) {
        removed += 1;
        if !act {
            continue;
        }
        let handle = LineageHandle::new(store.clone(), marks.lineage(seen).clone(), Default::default());
        match handle.abandon_publication(*id).await {
            // Somebody has changed the record: perhaps the publisher is alive after all.
            Err(Error::Conflict { .. }) => removed -= 1,
            ended => ended?,
        }
    }
    Ok(removed)
}

/// Deletions that were cut short. They go on, or are taken back if somebody needs the
/// snapshot by now. Returns the outcomes, made or planned.
pub(super) async fn finish_deletions(
    store: &TenantStore,
    marks: &Marks,
    act: bool,
) -> Result<HashMap<RecordId, State>> {
    let mut ended = HashMap::new();
    // By age: what becomes of one decides about the next.
    let is_cut_short = |seen: &SeenRecord| match seen.state {
        State::Trashed => seen.age > LEASE_TTL || marks.is_doomed(seen),
        // Stored by a writer that had begun before its profile was deleted: it can never be current.
        State::Live => marks.is_doomed(seen),
        _ => false,
    };
    let trashed = marks.records.iter().filter(|(_, seen)| is_cut_short(seen));
    let trashed: BTreeMap<&RecordId, &SeenRecord> = trashed.collect();
    let mut live_again: HashSet<u32> = HashSet::new();
    for (id, seen) in trashed {
        let handle = LineageHandle::new(store.clone(), marks.lineage(seen).clone(), Default::default());
        let end = match (act, marks.is_doomed(seen)) {
            (true, true) => handle.delete_with_profile(*id, "").await.map(drop),
            (true, false) => handle.delete(*id, "").await.map(drop),
            (false, true) => handle.may_delete_with_profile(*id).await,
            (false, false) => handle.may_delete(*id).await,
        };
        let state = match end {
            Ok(()) => State::Tombstone,
            // A plan has put none back. A run has, so this one is not the only one.
            Err(Error::SnapshotNeeded { needed: Needed::Only, .. })
                if !act && live_again.contains(&seen.lineage) =>
            {
                State::Tombstone
            }
            Err(Error::SnapshotNeeded { .. }) => {
                live_again.insert(seen.lineage);
                State::Live
            }
            Err(error) => {
                tracing::info!(record = %id, %error, "a deletion that was cut short is not finished");
                State::Trashed
            }
        };
        ended.insert(*id, state);
    }
    Ok(ended)
}
