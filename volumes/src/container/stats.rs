//! `stats` counts what the snapshots of containers take, beside their limits.

use std::collections::HashMap;

use engine::{Engine, failure::Failure, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    catalog::records,
    id::PackId,
    name::{Lineage, Profile, Tenant},
};

use super::{keep, list::of_tenant};

/// The snapshots of one container.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerTotals {
    /// The name of its snapshots, without the tenant.
    pub profile_id: Profile,
    /// How many there are.
    pub snapshots: u64,
    /// The bytes of images and volumes of all of them.
    pub uncompressed_size_bytes: u64,
    /// The bytes that they take in the store, at least: what several need is counted once.
    pub stored_bytes: u64,
}

/// The limits in force.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct LimitFields {
    /// How many days old a snapshot may be.
    pub max_age_days: u64,
    /// How many snapshots a container may have.
    pub max_count: u64,
    /// How many snapshots the containers of a tenant may have.
    pub tenant_max_count: u64,
    /// How many bytes they may take in the store.
    pub tenant_max_bytes: u64,
}

/// What the snapshots of a tenant's containers take.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerStatsOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// Each container.
    pub containers: Vec<ContainerTotals>,
    /// All snapshots.
    pub snapshots: u64,
    /// The bytes of images and volumes of all of them.
    pub uncompressed_size_bytes: u64,
    /// The bytes that all of them take in the store, at least: what several need is counted once.
    pub stored_bytes: u64,
    /// The limits of all containers together, and those of one where the settings have no others for it.
    pub limits: LimitFields,
}

impl Outcome for ContainerStatsOutcome {}

/// Counts the snapshots of a tenant's containers.
#[crate::boxed]
pub async fn stats(engine: &Engine, tenant: &Tenant) -> Result<ContainerStatsOutcome, Failure> {
    let store = engine.tenant(tenant).await?;
    let (mut containers, mut all) = (Vec::new(), HashMap::<PackId, u64>::new());
    let lineages: Vec<Lineage> = of_tenant(&store).await?;
    for lineage in lineages {
        let live = records::live(&store, &lineage).await?;
        let mut packs: HashMap<PackId, u64> = HashMap::new();
        for content in live.iter().filter_map(|record| record.content.as_ref()) {
            for used in &content.packs {
                // Each needs a part of it; which parts are the same is not known here.
                let most = packs.entry(used.pack).or_default();
                *most = used.live_bytes.max(*most);
            }
        }
        for (pack, bytes) in &packs {
            let most = all.entry(*pack).or_default();
            *most = (*bytes).max(*most);
        }
        containers.push(ContainerTotals {
            profile_id: lineage.name.profile.clone(),
            snapshots: live.len() as u64,
            uncompressed_size_bytes: live.iter().map(|record| record.uncompressed_size_bytes).sum(),
            stored_bytes: packs.values().sum(),
        });
    }
    let limits = keep::limits(engine, tenant);
    Ok(ContainerStatsOutcome {
        tenant_id: tenant.clone(),
        snapshots: containers.iter().map(|container| container.snapshots).sum(),
        uncompressed_size_bytes: containers.iter().map(|container| container.uncompressed_size_bytes).sum(),
        stored_bytes: all.values().sum(),
        containers,
        limits: LimitFields {
            max_age_days: keep::MAX_AGE_DAYS,
            max_count: keep::MAX_COUNT,
            tenant_max_count: limits.max_count.unwrap_or(keep::TENANT_MAX_COUNT),
            tenant_max_bytes: limits.max_bytes.unwrap_or(keep::TENANT_MAX_BYTES),
        },
    })
}
