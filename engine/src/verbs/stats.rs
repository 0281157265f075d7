//! `stats` counts snapshots, objects and bytes.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    name::Tenant,
    ops::read::stats::{self, Stats, Tally},
};

use crate::{
    Engine,
    each_tenant::{EachTenant, FailedTurn},
    failure::Failure,
    outcome::Outcome,
    text::size,
};

/// Counts what one tenant has stored, or all of them.
#[derive(Clone, Debug, Default)]
pub struct StatsRequest {
    /// Only this tenant.
    pub tenant: Option<Tenant>,
}

/// Objects of one kind.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ObjectCount {
    /// How many there are.
    pub objects: u64,
    /// How many bytes they take in the store.
    pub bytes: u64,
}

/// The objects of a store by what they hold.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ObjectKinds {
    /// Packs of content.
    pub packs: ObjectCount,
    /// Packs of trees and tables.
    pub meta_packs: ObjectCount,
    /// Indexes of packs.
    pub indexes: ObjectCount,
    /// Records of snapshots.
    pub records: ObjectCount,
    /// All others.
    pub other: ObjectCount,
}

/// The numbers of one tenant, or of all.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StoredFields {
    /// How many profiles have snapshots.
    pub profiles: u64,
    /// How many snapshots there are.
    pub snapshots: u64,
    /// The bytes of all files of all snapshots.
    pub uncompressed_size_bytes: u64,
    /// The bytes that the store takes.
    pub stored_bytes: u64,
    /// The objects that the store has.
    pub stored_objects: u64,
    /// How many times the stored bytes fit into the bytes of all files; nothing if nothing is stored.
    pub dedup_ratio: Option<f64>,
    /// Records that could not be read.
    pub unreadable_records: u64,
    /// The objects by what they hold.
    pub kinds: ObjectKinds,
}

/// The stored bytes and objects of a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TenantStats {
    /// The tenant.
    pub tenant_id: Tenant,
    /// Its numbers.
    #[serde(flatten)]
    pub stored: StoredFields,
}

/// The stored bytes and objects, tenant by tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StatsOutcome {
    /// Where the store is.
    pub store: String,
    /// Each tenant.
    pub tenants: Vec<TenantStats>,
    /// All of them together.
    pub total: StoredFields,
    /// Tenants that failed.
    pub failed: Vec<FailedTurn>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for StatsOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}

impl Engine {
    /// Counts what is stored.
    #[crate::boxed]
    pub async fn stats(&self, request: &StatsRequest) -> Result<StatsOutcome, Failure> {
        let mut all: Vec<(Tenant, Stats)> = Vec::new();
        let mut turns = EachTenant::of(self, request.tenant.as_ref(), "stats").await?;
        for tenant in turns.tenants() {
            let counted = self.count(&tenant).await;
            all.extend(turns.took(&tenant, counted)?.map(|stats| (tenant, stats)));
        }
        let total: Stats = all.iter().map(|(_, stats)| *stats).sum();
        if total.unreadable_records > 0 {
            let records = size::plural(total.unreadable_records, "record", "records");
            self.warn(&format!("{records} could not be read; `pstore verify` says why"));
        }
        let tenant = |(tenant_id, stats): (Tenant, Stats)| TenantStats { tenant_id, stored: (&stats).into() };
        Ok(StatsOutcome {
            store: self.location.shown(),
            tenants: all.into_iter().map(tenant).collect(),
            total: (&total).into(),
            verdict: turns.verdict(),
            failed: turns.into_failed(),
        })
    }

    async fn count(&self, tenant: &Tenant) -> Result<Stats, Failure> {
        Ok(stats::stats(&self.tenant(tenant).await?).await?)
    }
}

impl From<&Stats> for StoredFields {
    fn from(stats: &Stats) -> Self {
        let count = |tally: Tally| ObjectCount { objects: tally.objects, bytes: tally.bytes };
        Self {
            profiles: stats.profiles,
            snapshots: stats.snapshots,
            uncompressed_size_bytes: stats.logical_bytes,
            stored_bytes: stats.stored().bytes,
            stored_objects: stats.stored().objects,
            dedup_ratio: stats.dedup_ratio(),
            unreadable_records: stats.unreadable_records,
            kinds: ObjectKinds {
                packs: count(stats.packs),
                meta_packs: count(stats.meta_packs),
                indexes: count(stats.indexes),
                records: count(stats.records),
                other: count(stats.other),
            },
        }
    }
}
