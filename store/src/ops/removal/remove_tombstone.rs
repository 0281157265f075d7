//! Removes a tombstone, so that a profile or a tenant can begin anew.
//!
//! Only when nothing else is left. Where a store removes objects without a condition, a removal
//! of the last collection may arrive late: there it waits for as long as that may take.

use crate::{
    Error, Result,
    bucket::Depth,
    catalog::{lease::ENDED_FOR, records::list_all, store::Store, tombstone},
    content::TenantStore,
    format::{layout, limits},
    name::{ProfileName, Tenant},
};

/// The outcome of the attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anew {
    /// The tombstone is gone.
    Begun,
    /// A collection has yet to remove so many objects.
    ObjectsLeft(usize),
    /// A removal may still be under way.
    TooEarly,
}

/// Removes the tombstone of a profile.
pub async fn begin_profile_anew(store: &TenantStore, name: &ProfileName) -> Result<Anew> {
    let Some(found) = tombstone::find(&*store.bucket, name).await? else {
        return Err(Error::NotFound { what: format!("a tombstone of {name}") });
    };
    let (listed, _) = list_all(&*store.bucket, &layout::profile(name), Depth::All).await?;
    if listed.len() > 1 {
        return Ok(Anew::ObjectsLeft(listed.len() - 1));
    }
    if found.age < ENDED_FOR && !tombstone::removes_on_condition(store).await? {
        return Ok(Anew::TooEarly);
    }
    tombstone::remove(store, name, &found.version).await?;
    Ok(Anew::Begun)
}

/// Makes a tenant that was deleted one that is empty.
pub async fn begin_tenant_anew(store: &Store, tenant: &Tenant) -> Result<Anew> {
    let deleted = store.tenant_or_tombstone(tenant).await?;
    let bucket = &*deleted.bucket;
    let (content, _) = list_all(bucket, &layout::content(tenant), Depth::All).await?;
    let (catalog, _) = list_all(bucket, &layout::snapshots(tenant), Depth::All).await?;
    let left = content.len() + catalog.len();
    if left > 1 {
        return Ok(Anew::ObjectsLeft(left - 1));
    }
    let config = bucket.get(&layout::tenant_config(tenant), limits::CONFIG).await?;
    if config.stamp.age() < ENDED_FOR && !tombstone::removes_on_condition(&deleted).await? {
        return Ok(Anew::TooEarly);
    }
    store.change_deletion(tenant, |config| config.deletion.as_ref().map(|_| None)).await?;
    Ok(Anew::Begun)
}
