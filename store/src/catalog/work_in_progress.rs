//! Names the work in progress of a lineage in `wip.json`, and forgets it.
//!
//! The document is a hint: the tag of the snapshot that it names decides. A hint that is missing, damaged
//! or late costs nobody a snapshot.

use bytes::Bytes;

use super::{cas, records};
use crate::{
    Error, Result,
    bucket::{BucketError, Deleted, Version, Write},
    content::TenantStore,
    format::{
        layout, limits,
        record::{Record, State},
        work_in_progress::WorkInProgress,
    },
    name::Lineage,
};

const ATTEMPTS: u32 = 5;

/// The hint, as it was read.
#[derive(Clone, Debug)]
pub struct Hint {
    /// The content of the hint.
    pub wip: WorkInProgress,
    version: Version,
}

/// The work in progress that a lineage has, and its snapshot. `None` if there is none, or if its snapshot is one of the
/// others by now, or gone.
pub async fn find(store: &TenantStore, lineage: &Lineage) -> Result<Option<(WorkInProgress, Record)>> {
    let Some(Hint { wip, .. }) = read(store, lineage).await? else { return Ok(None) };
    match records::get(store, lineage, wip.record).await {
        Ok((record, _)) if record.state == State::Live && record.is_work_in_progress() => {
            Ok(Some((wip, record)))
        }
        Ok(_) | Err(Error::Bucket(BucketError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The hint. One that cannot be understood counts as none.
pub async fn read(store: &TenantStore, lineage: &Lineage) -> Result<Option<Hint>> {
    let Some((bytes, version)) = get(store, lineage).await? else { return Ok(None) };
    let wip = WorkInProgress::decode(&bytes).ok().filter(|wip| wip.is_of(lineage));
    Ok(wip.map(|wip| Hint { wip, version }))
}

/// Names `wip` as the work in progress of its lineage, in place of any other.
pub async fn name(store: &TenantStore, lineage: &Lineage, wip: &WorkInProgress) -> Result<()> {
    let (bucket, key) = (&*store.bucket, layout::work_in_progress(lineage));
    let bytes = Bytes::from(wip.encode());
    for _ in 0..ATTEMPTS {
        let done = match get(store, lineage).await? {
            Some((before, _)) if before == bytes => true,
            Some((_, version)) => cas::replace(bucket, &key, bytes.clone(), version).await?.is_some(),
            None => match bucket.put(&key, bytes.clone().into(), Write::Create).await {
                Ok(_) => true,
                Err(BucketError::AlreadyExists { .. }) => false,
                Err(error) => return Err(error.into()),
            },
        };
        if done {
            return Ok(());
        }
    }
    Err(Error::Conflict { what: format!("the work in progress of {lineage}") })
}

/// Forgets the hint, if it is still this one.
pub async fn forget(store: &TenantStore, lineage: &Lineage, hint: &Hint) -> Result<()> {
    let (bucket, key) = (&store.bucket, layout::work_in_progress(lineage));
    match bucket.delete_if(&key, &hint.version).await {
        Ok(Deleted::Unsupported) => Ok(bucket.delete(&key).await?),
        // Another run has named its own.
        Ok(Deleted::Yes) | Err(BucketError::VersionMismatch { .. } | BucketError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn get(store: &TenantStore, lineage: &Lineage) -> Result<Option<(Bytes, Version)>> {
    match store.bucket.get(&layout::work_in_progress(lineage), limits::WORK_IN_PROGRESS).await {
        Ok(object) => Ok(Some((object.bytes, object.version))),
        Err(BucketError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
