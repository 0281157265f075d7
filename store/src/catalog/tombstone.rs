//! Reads and writes the tombstones of profiles and tenants that were deleted.
//!
//! A process that makes a profile's first snapshot current looks for a tombstone, after its own lock or
//! its own record is there. A deletion writes the tombstone first and lists what there is after
//! that. So one of the two always sees the other.

use std::time::Duration;

use super::cas;
use crate::{
    Error, Result,
    bucket::{Bucket, BucketError, Deleted, Version, Write},
    content::TenantStore,
    format::{
        config::TenantConfig,
        layout, limits,
        tombstone::{Deletion, Progress, Tombstone},
    },
    name::ProfileName,
};

/// A tombstone as it was read or written last.
#[derive(Clone, Debug)]
pub struct FoundTombstone {
    /// The tombstone itself.
    pub tombstone: Tombstone,
    /// The version that a replacement must name.
    pub version: Version,
    /// Since it was last written, by the store's clock.
    pub age: Duration,
}

/// The tombstone of a profile, if it has one.
pub async fn find(bucket: &dyn Bucket, name: &ProfileName) -> Result<Option<FoundTombstone>> {
    let key = layout::tombstone(name);
    let object = match bucket.get(&key, limits::TOMBSTONE).await {
        Ok(object) => object,
        Err(BucketError::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let tombstone = Tombstone::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if tombstone.tenant_id != name.tenant || tombstone.profile_id != name.profile {
        return Err(Error::damaged(&key, "it is the tombstone of something else"));
    }
    Ok(Some(FoundTombstone { tombstone, version: object.version, age: object.stamp.age() }))
}

/// Fails if the profile, or its tenant, was deleted.
pub(crate) async fn require_none(store: &TenantStore, name: &ProfileName) -> Result<()> {
    let (found, deletion) = futures::future::try_join(find(&*store.bucket, name), of_tenant(store)).await?;
    if let Some(deletion) = deletion {
        return Err(refusal(format!("tenant {}", name.tenant), &deletion));
    }
    match found {
        Some(found) => Err(refusal(name.to_string(), &found.tombstone.deletion)),
        None => Ok(()),
    }
}

/// The error for something that was deleted.
pub fn refusal(what: String, deletion: &Deletion) -> Error {
    Error::Deleted { what, deleted: Box::new(deletion.told()) }
}

/// Whether the tenant was deleted, as its configuration says now.
async fn of_tenant(store: &TenantStore) -> Result<Option<Deletion>> {
    let key = layout::tenant_config(&store.tenant);
    match store.bucket.get(&key, limits::CONFIG).await {
        Ok(object) => Ok(TenantConfig::decode(&object.bytes).map_err(|error| error.of(&key))?.deletion),
        Err(BucketError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes the tombstone of a profile. If there is one of a deletion that was cut short, that one
/// stays: it was decided first.
pub async fn begin(store: &TenantStore, name: &ProfileName, deletion: &Deletion) -> Result<FoundTombstone> {
    let key = layout::tombstone(name);
    let tombstone = Tombstone::new(name, deletion.clone());
    let bytes = tombstone.encode();
    let mut attempts = store.bucket.retry_policy().start();
    loop {
        let found = find(&*store.bucket, name).await?;
        let write = match found {
            Some(found) if found.tombstone.deletion.state == Progress::Begun => return Ok(found),
            Some(found) => Write::Replace(found.version),
            None => Write::Create,
        };
        match store.bucket.put(&key, bytes.clone().into(), write).await {
            Ok(version) => return Ok(FoundTombstone { tombstone, version, age: Duration::ZERO }),
            Err(error) => {
                let lost =
                    matches!(error, BucketError::AlreadyExists { .. } | BucketError::VersionMismatch { .. });
                if !(lost || error.is_retryable()) || !attempts.again(&error).await {
                    return Err(error.into());
                }
            }
        }
    }
}

/// Writes down that nothing else of the profile is left.
pub(crate) async fn conclude(store: &TenantStore, name: &ProfileName) -> Result<()> {
    let Some(mut found) = find(&*store.bucket, name).await? else { return Ok(()) };
    let deletion = &mut found.tombstone.deletion;
    if deletion.state == Progress::Done {
        return Ok(());
    }
    deletion.state = Progress::Done;
    let (key, bytes) = (layout::tombstone(name), found.tombstone.encode());
    // If somebody else has changed it, the next collection looks again.
    cas::replace(&*store.bucket, &key, bytes.into(), found.version).await.map(drop)
}

/// Removes the tombstone: the profile may begin anew.
pub async fn remove(store: &TenantStore, name: &ProfileName, version: &Version) -> Result<()> {
    let key = layout::tombstone(name);
    match store.bucket.delete_if(&key, version).await {
        Ok(Deleted::Yes) | Err(BucketError::NotFound { .. }) => Ok(()),
        Ok(Deleted::Unsupported) => Ok(store.bucket.delete(&key).await?),
        Err(error) => Err(error.into()),
    }
}

/// Whether the store removes an object only if its version is the given one. Where it does not, a removal
/// may arrive late, and hit an object that has taken the place of the one it was meant for.
pub(crate) async fn removes_on_condition(store: &TenantStore) -> Result<bool> {
    let nobodys = layout::probe(&store.tenant).key("nothing")?;
    match store.bucket.delete_if(&nobodys, &Version::new("none")).await {
        Ok(Deleted::Unsupported) => Ok(false),
        Ok(Deleted::Yes) | Err(BucketError::NotFound { .. } | BucketError::VersionMismatch { .. }) => {
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}
