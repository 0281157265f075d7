//! `list` lists the snapshots of containers.

use std::collections::BTreeMap;

use engine::{Engine, failure::Failure, names::Scope, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    catalog::records,
    content::TenantStore,
    format::record::Record,
    id::{RecordId, SnapshotId},
    name::{Lineage, LineageKind, Tenant},
    ops::read::resolve,
};

use super::names::{self, told};

/// A snapshot of a container.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerSnapshotRow {
    /// The name of the container's snapshots.
    pub name: String,
    /// The snapshot.
    pub snapshot_id: Option<SnapshotId>,
    /// Its record.
    pub record: RecordId,
    /// The first digits of its id.
    pub sha256_prefix: String,
    /// Whether it is the current one.
    pub latest: bool,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The container.
    pub container: Option<String>,
    /// The image that the container was made of.
    pub image: Option<String>,
    /// The moment of the run.
    pub trigger: Option<String>,
    /// The agent's run.
    pub run_id: Option<String>,
    /// What somebody wrote about it.
    pub description: String,
    /// The bytes of image and volumes.
    pub uncompressed_size_bytes: u64,
    /// The bytes of chunks that were new with it.
    pub new_bytes: u64,
    /// The bytes that were stored for it.
    pub stored_bytes: u64,
    /// All labels that it was given.
    pub labels: BTreeMap<String, String>,
    /// The tags that it has.
    pub tags: Vec<String>,
}

/// The snapshots of containers, name by name, the oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerListOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The snapshots.
    pub snapshots: Vec<ContainerSnapshotRow>,
}

impl Outcome for ContainerListOutcome {}

/// Lists the snapshots of one container, or of all that a tenant has.
#[crate::boxed]
pub async fn list(engine: &Engine, scope: &Scope) -> Result<ContainerListOutcome, Failure> {
    let (tenant, lineages) = match scope {
        Scope::Profile(name) => {
            let (tenant, lineage) =
                engine.lineage(&names::lineage_name(name)).await.map_err(|failure| told(failure, name))?;
            (tenant, vec![lineage])
        }
        Scope::Tenant(tenant) => {
            let tenant = engine.tenant(tenant).await?;
            let lineages = of_tenant(&tenant).await?;
            (tenant, lineages)
        }
    };
    let mut snapshots = Vec::new();
    for lineage in lineages {
        let listing = resolve::list(&tenant, &lineage).await?;
        let latest = listing.latest;
        snapshots.extend(listing.records.iter().map(|record| row(record, &lineage, latest)));
    }
    Ok(ContainerListOutcome { tenant_id: tenant.tenant.clone(), snapshots })
}

/// The lineages of a tenant's containers, in order of their names.
pub(super) async fn of_tenant(tenant: &TenantStore) -> Result<Vec<Lineage>, Failure> {
    let is_container = |lineage: &Lineage| lineage.chrome_major.kind() == LineageKind::Container;
    let mut found = Vec::new();
    for name in records::profiles(tenant).await? {
        found.extend(records::lineages(tenant, &name).await?.into_iter().filter(is_container));
    }
    found.sort_unstable();
    Ok(found)
}

fn row(record: &Record, lineage: &Lineage, latest: Option<RecordId>) -> ContainerSnapshotRow {
    let label = |key: &str| record.labels.get(key).cloned();
    ContainerSnapshotRow {
        name: lineage.name.to_string(),
        snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
        record: record.record,
        sha256_prefix: record.sha256_prefix(),
        latest: Some(record.record) == latest,
        captured_at_ms: record.captured_at_ms,
        container: label(names::CONTAINER),
        image: label(names::IMAGE),
        trigger: label(names::TRIGGER),
        run_id: label(names::RUN_ID),
        description: record.notes.clone(),
        uncompressed_size_bytes: record.uncompressed_size_bytes,
        new_bytes: record.counts.new_bytes,
        stored_bytes: record.counts.stored_bytes,
        labels: record.labels.clone(),
        tags: record.tags.keys().cloned().collect(),
    }
}
