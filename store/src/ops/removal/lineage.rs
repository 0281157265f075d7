//! Ends all records of a lineage, once its pointer names nothing and nobody may move it.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Error, Result,
    bucket::{BucketError, Depth, Key, RetryPolicy},
    catalog::{
        lease::revocation,
        lineage_handle::LineageHandle,
        records::{self, list_all},
        rules::Rules,
    },
    format::{layout, record::State},
    id::RecordId,
};

const RECORDS_AT_ONCE: usize = 8;
/// A process that writes its record at the same time has ended soon.
const ATTEMPTS: u32 = 16;

/// The snapshots that could not go yet.
#[derive(Debug, Default)]
pub struct Left {
    /// The snapshots that somebody reads, each with the reason.
    pub snapshots: Vec<(RecordId, Error)>,
}

impl Left {
    pub(super) fn add(&mut self, other: Self) {
        self.snapshots.extend(other.snapshots);
    }
}

/// Ends every record, and removes every archive.
pub async fn end(handle: &LineageHandle, reason: &str) -> Result<Left> {
    let (listed, _) =
        list_all(&*handle.store().bucket, &layout::lineage(handle.lineage()), Depth::Children).await?;
    let ids: Vec<RecordId> = listed.iter().filter_map(|entry| layout::record_of(&entry.key)).collect();
    let ended: Vec<Option<(RecordId, Error)>> = stream::iter(ids)
        .map(|id| async move {
            match end_record(handle, id, reason).await {
                Ok(()) => Ok(None),
                Err(error @ Error::SnapshotNeeded { .. }) => Ok(Some((id, error))),
                Err(error) => Err(error),
            }
        })
        .buffer_unordered(RECORDS_AT_ONCE)
        .try_collect()
        .await?;
    remove_archives(handle).await?;
    Ok(Left { snapshots: ended.into_iter().flatten().collect() })
}

async fn end_record(handle: &LineageHandle, id: RecordId, reason: &str) -> Result<()> {
    for attempt in 1..=ATTEMPTS {
        match records::find(handle.store(), handle.lineage(), id).await {
            Ok(None) => return Ok(()),
            Ok(Some((record, ..))) => match record.state {
                State::Live | State::Trashed => match handle.delete_with_profile(id, reason).await {
                    // Somebody else has ended it.
                    Err(Error::NotFound { .. }) => {}
                    deleted => return deleted.map(drop),
                },
                State::Tombstone => return Ok(()),
                State::Writing | State::Revoked => {
                    let (store, lineage) = (handle.store(), handle.lineage());
                    if revocation::revoke(store, lineage, id, Rules::ALL).await? {
                        return Ok(());
                    }
                }
            },
            Err(Error::Damaged { .. }) => return handle.give_up(id, reason).await.map(drop),
            Err(error) => return Err(error),
        }
        tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
    }
    Err(Error::Conflict { what: format!("record {id} of {}", handle.lineage()) })
}

/// Removes all archives, of any program, but those of snapshots that are still there. Manifests
/// go first, so that a manifest always has its archive.
async fn remove_archives(handle: &LineageHandle) -> Result<()> {
    let (store, lineage) = (handle.store(), handle.lineage());
    let (listed, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
    let of_one = |key: &Key| layout::manifest_of(key).or(layout::archive_of(key)).map(ToOwned::to_owned);
    let mut keys: Vec<Key> = listed.into_iter().map(|entry| entry.key).collect();
    keys.retain(|key| of_one(key).is_some());
    if keys.is_empty() {
        return Ok(());
    }
    let live = records::live(store, lineage).await?;
    let kept: HashSet<String> =
        live.iter().flat_map(|record| record.archives()).map(|sha| sha.prefix()).collect();
    keys.retain(|key| of_one(key).is_some_and(|prefix| !kept.contains(&prefix)));
    keys.sort_by_key(|key| layout::manifest_of(key).is_none());
    for key in keys {
        match store.bucket.delete(&key).await {
            Ok(()) | Err(BucketError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
