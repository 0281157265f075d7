//! `list` lists tenants, profiles or snapshots.

mod expiry;
mod snapshots;

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::tombstone::Deletion,
    name::{ChromeMajor, Profile, Tenant},
    ops::read::profiles,
};

pub use self::{
    expiry::{ExpiryList, ExpiryRow},
    snapshots::{LineagePointer, SnapshotList, SnapshotRow},
};
use crate::{
    Engine,
    failure::Failure,
    location::Purpose,
    names::{LineageName, Scope},
    outcome::Outcome,
    verbs::delete::DeletedBy,
};

/// Asks for the tenants, the profiles of one, or the snapshots of a profile.
#[derive(Clone, Debug, Default)]
pub struct ListRequest {
    /// The tenant or the profile; all tenants if none is named.
    pub scope: Option<Scope>,
    /// Of this major version of Chrome; of all if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// Whether the ends of expected cookies are listed instead.
    pub expiry: bool,
}

/// The deletion of a profile or a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeletionFields {
    /// When it was deleted, by the store's clock.
    pub deleted_at_ms: u64,
    /// The user who deleted it.
    pub deleted_by: DeletedBy,
    /// The reason that was given.
    pub reason: String,
    /// All of this, for people.
    #[serde(skip)]
    pub told: String,
}

impl From<&Deletion> for DeletionFields {
    fn from(deletion: &Deletion) -> Self {
        Self {
            deleted_at_ms: deletion.at_ms,
            deleted_by: deletion.into(),
            reason: deletion.reason.clone(),
            told: deletion.told().to_string(),
        }
    }
}

/// A tenant that was deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeletedTenant {
    /// The tenant.
    pub tenant_id: Tenant,
    /// Its deletion.
    #[serde(flatten)]
    pub deletion: DeletionFields,
}

/// The tenants of a store.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TenantList {
    /// Where the store is.
    pub store: String,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// The tenants that were deleted.
    pub deleted: Vec<DeletedTenant>,
}

/// A profile of a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProfileRow {
    /// The profile.
    pub profile_id: Profile,
    /// The Chrome versions that it has snapshots of.
    pub chrome_major_versions: Vec<ChromeMajor>,
    /// Its deletion, if it was deleted.
    pub deletion: Option<DeletionFields>,
}

/// The profiles of a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProfileList {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profiles.
    pub profiles: Vec<ProfileRow>,
}

/// A list, whose form depends on the request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ListOutcome {
    /// The tenants of the store.
    Tenants(TenantList),
    /// The profiles of a tenant.
    Profiles(ProfileList),
    /// The snapshots of a profile.
    Snapshots(SnapshotList),
    /// The ends of expected cookies.
    Expiry(ExpiryList),
}

impl Outcome for ListOutcome {}

impl Engine {
    /// Lists tenants, profiles or snapshots.
    #[crate::boxed]
    pub async fn list(&self, request: &ListRequest) -> Result<ListOutcome, Failure> {
        match &request.scope {
            Some(Scope::Tenant(tenant)) if request.expiry => {
                expiry::list(self, tenant, None).await.map(ListOutcome::Expiry)
            }
            Some(Scope::Profile(profile)) if request.expiry => {
                expiry::list(self, &profile.tenant, Some(profile)).await.map(ListOutcome::Expiry)
            }
            None => self.list_tenants().await.map(ListOutcome::Tenants),
            Some(Scope::Tenant(_)) if request.chrome_major.is_some() => {
                Err(Failure::usage("--chrome-major goes with TENANT/PROFILE"))
            }
            Some(Scope::Tenant(tenant)) => self.list_profiles(tenant).await.map(ListOutcome::Profiles),
            Some(Scope::Profile(profile)) => {
                let lineage = LineageName { profile: profile.clone(), chrome_major: request.chrome_major };
                snapshots::list(self, &lineage).await.map(ListOutcome::Snapshots)
            }
        }
    }

    async fn list_tenants(&self) -> Result<TenantList, Failure> {
        let all = self.tenants().await?;
        let store = self.store(Purpose::Read).await?;
        let deleted = profiles::deleted_tenants(&store, &all).await;
        let is_deleted = |tenant: &Tenant| deleted.iter().any(|(other, _)| other == tenant);
        Ok(TenantList {
            store: self.location.shown(),
            tenants: all.iter().filter(|tenant| !is_deleted(tenant)).cloned().collect(),
            deleted: deleted
                .iter()
                .map(|(tenant, deletion)| DeletedTenant {
                    tenant_id: tenant.clone(),
                    deletion: deletion.into(),
                })
                .collect(),
        })
    }

    async fn list_profiles(&self, tenant: &Tenant) -> Result<ProfileList, Failure> {
        let tenant = self.tenant_to_list(tenant).await?;
        let profiles = profiles::profiles(&tenant).await?;
        let rows = profiles.into_iter().map(|profile| ProfileRow {
            deletion: profile.deletion.as_ref().map(DeletionFields::from),
            profile_id: profile.name.profile,
            chrome_major_versions: profile.majors,
        });
        Ok(ProfileList { profiles: rows.collect(), tenant_id: tenant.tenant })
    }
}
