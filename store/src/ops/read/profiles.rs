//! Lists the profiles of a tenant, as a person would count them.
//!
//! Work that is refused may leave a lock or a pointer that names nothing. A profile of which only
//! that is there is none; nor is one that was deleted.

use futures::{StreamExt, TryStreamExt, stream};

use crate::{
    Error, Result,
    bucket::Depth,
    catalog::{
        foreign, pointer,
        records::{self, list_all},
        store::Store,
        tombstone,
    },
    content::TenantStore,
    format::{
        layout,
        record::{Record, State},
        tombstone::Deletion,
    },
    name::{ChromeMajor, Lineage, ProfileName, Tenant},
};

const PROFILES_AT_ONCE: usize = 16;
const TOMBSTONES_AT_ONCE: usize = 32;

/// A profile that is there, or was.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name.
    pub name: ProfileName,
    /// Those that it has snapshots of.
    pub majors: Vec<ChromeMajor>,
    /// The deletion of the profile, if it was deleted.
    pub deletion: Option<Deletion>,
}

/// All profiles that have snapshots, and those that were deleted, by name.
pub async fn profiles(store: &TenantStore) -> Result<Vec<Profile>> {
    let names = records::profiles(store).await?;
    let found: Vec<Option<Profile>> = stream::iter(names)
        .map(|name| async move { look(store, name).await })
        .buffered(PROFILES_AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

async fn look(store: &TenantStore, name: ProfileName) -> Result<Option<Profile>> {
    let (objects, folders) = list_all(&*store.bucket, &layout::profile(&name), Depth::Children).await?;
    let tombstone = layout::tombstone(&name);
    let deletion = match objects.iter().any(|entry| entry.key == tombstone) {
        true => tombstone::find(&*store.bucket, &name).await?.map(|found| found.tombstone.deletion),
        false => None,
    };
    let mut majors = Vec::new();
    for chrome_major in folders.iter().filter_map(|folder| folder.name().parse().ok()) {
        if has_snapshots(store, &Lineage { name: name.clone(), chrome_major }).await? {
            majors.push(chrome_major);
        }
    }
    majors.sort_unstable();
    let is_one = !majors.is_empty() || deletion.is_some();
    Ok(is_one.then_some(Profile { name, majors, deletion }))
}

/// Whether somebody could load something of it.
async fn has_snapshots(store: &TenantStore, lineage: &Lineage) -> Result<bool> {
    match pointer::read(store, lineage).await {
        Ok(read) if read.as_ref().is_none_or(|read| read.pointer.is_empty()) => {}
        // One that is damaged is there, and will be told about.
        Ok(_) | Err(Error::Damaged { .. } | Error::UnsupportedFormat { .. }) => return Ok(true),
        Err(error) => return Err(error),
    }
    let readable = |record: &Result<Record>| match record {
        Ok(record) => matches!(record.state, State::Live | State::Trashed),
        Err(_) => true,
    };
    let records = records::list(store, lineage).await?;
    Ok(records.iter().any(readable) || !foreign::archives(store, lineage).await?.is_empty())
}

/// Those of the tenants that were deleted. One that cannot be read was not, as far as anybody can
/// tell.
pub async fn deleted_tenants(store: &Store, tenants: &[Tenant]) -> Vec<(Tenant, Deletion)> {
    // Owned names: a server carries this out on whichever thread is free.
    stream::iter(tenants.to_vec())
        .map(|tenant| async move {
            let deleted = store.tenant_or_tombstone(&tenant).await.ok()?;
            Some((tenant, deleted.config.deletion.clone()?))
        })
        .buffered(TOMBSTONES_AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

/// Those of the profiles that were deleted. One whose tombstone cannot be read was not, as far as anybody
/// can tell.
pub async fn deleted(store: &TenantStore, names: &[ProfileName]) -> Vec<ProfileName> {
    stream::iter(names)
        .map(|name| async move {
            let tombstone = tombstone::find(&*store.bucket, name).await.ok()?;
            tombstone.map(|_| name.clone())
        })
        .buffered(TOMBSTONES_AT_ONCE)
        .filter_map(std::future::ready)
        .collect()
        .await
}

/// Fails if the profile was deleted and has nothing that somebody could load.
pub async fn require_undeleted(store: &TenantStore, name: &ProfileName) -> Result<()> {
    match look(store, name.clone()).await? {
        Some(Profile { majors, deletion: Some(deletion), .. }) if majors.is_empty() => {
            Err(tombstone::refusal(name.to_string(), &deletion))
        }
        _ => Ok(()),
    }
}
