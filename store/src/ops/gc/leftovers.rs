//! Small things that dead processes and long time leave behind.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::{Duration, SystemTime},
};

use super::{
    HORIZON,
    documents::Filed,
    inventory::{self, Inventory},
    roots::{Marks, Seen},
};
use crate::{
    Error, Result,
    bucket::Deleted,
    catalog::{controls::Controls, lease::LEASE_TTL},
    content::TenantStore,
    error::Needed,
    format::{condemned::Phase, layout, record::State},
    id::RecordId,
};

/// A probe takes seconds.
const PROBE_AGE: Duration = Duration::from_secs(86_400);
/// The largest archive takes hours at most.
const PUBLISH_AGE: Duration = Duration::from_secs(86_400);
/// A reader that sleeps longer than its pin holds pins again when it wakes.
const PIN_AGE: Duration = Duration::from_secs(86_400);

/// How many leftovers went.
pub(super) async fn remove(
    store: &TenantStore,
    filed: &[Filed],
    marks: &Marks,
    inventory: &Inventory,
    now: SystemTime,
    act: bool,
) -> Result<u64> {
    let mut removed = 0;
    for document in filed.iter().filter(|document| document.phase() == Phase::Swept && document.age > HORIZON)
    {
        removed += 1;
        if act {
            document.remove(store).await?;
        }
    }
    removed += publications(store, marks, act).await?;
    removed += tombstones(store, marks, inventory, act).await?;
    for found in marks.pins.iter().filter(|found| found.age > found.pin.ttl().saturating_add(PIN_AGE)) {
        removed += 1;
        if !act {
            continue;
        }
        // With a condition: its reader may be renewing it now. Without conditions, only what
        // is so old that no reader still goes by it.
        let deleted = store.bucket.delete_if(&found.key, &found.version).await;
        if matches!(deleted, Ok(Deleted::Unsupported)) && found.age > HORIZON {
            store.bucket.delete(&found.key).await?;
        }
    }
    for key in inventory::older(store, &layout::probe(&store.tenant), PROBE_AGE, now).await? {
        removed += 1;
        if act {
            store.bucket.delete(&key).await?;
        }
    }
    Ok(removed)
}

/// Records of what is long gone. One stays as long as a pack of its write is there, so that
/// every pack has a record that tells whose it is.
async fn tombstones(store: &TenantStore, marks: &Marks, inventory: &Inventory, act: bool) -> Result<u64> {
    let named: HashSet<RecordId> = marks
        .pins
        .iter()
        .map(|found| found.pin.record)
        .chain(marks.pointed.iter().map(|(record, _)| *record))
        .collect();
    let mut removed = 0;
    for (id, seen) in &marks.records {
        let over = matches!(seen.state, State::Tombstone | State::Revoked) && seen.has_ended();
        if !over || seen.age <= HORIZON || named.contains(id) || inventory.packs.has_write(*id)? {
            continue;
        }
        removed += 1;
        if act {
            store.bucket.delete(&layout::record(marks.lineage(seen), *id)).await?;
        }
    }
    Ok(removed)
}

/// Archives whose upload never ended.
async fn publications(store: &TenantStore, marks: &Marks, act: bool) -> Result<u64> {
    let mut removed = 0;
    for (id, seen) in marks.records.iter().filter(|(_, seen)| seen.publishing && seen.age > PUBLISH_AGE) {
        removed += 1;
        if !act {
            continue;
        }
        let controls = Controls::new(store.clone(), marks.lineage(seen).clone(), Default::default());
        match controls.abandon_publication(*id).await {
            // Somebody has changed the record: perhaps the publisher is alive after all.
            Err(Error::Conflict { .. }) => removed -= 1,
            ended => ended?,
        }
    }
    Ok(removed)
}

/// Deletions that were cut short. They go on, or are taken back if somebody needs the
/// snapshot by now: what became of the records, or would.
pub(super) async fn finish_deletions(
    store: &TenantStore,
    marks: &Marks,
    act: bool,
) -> Result<HashMap<RecordId, State>> {
    let mut ended = HashMap::new();
    // By age: what becomes of one decides about the next.
    let trashed =
        marks.records.iter().filter(|(_, seen)| seen.state == State::Trashed && seen.age > LEASE_TTL);
    let trashed: BTreeMap<&RecordId, &Seen> = trashed.collect();
    let mut live_again: HashSet<u32> = HashSet::new();
    for (id, seen) in trashed {
        let controls = Controls::new(store.clone(), marks.lineage(seen).clone(), Default::default());
        let end = if act { controls.delete(*id, "").await.map(drop) } else { controls.may_delete(*id).await };
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
