//! `show` tells what a container was when its snapshot was taken.

use std::sync::Arc;

use engine::{Engine, failure::Failure, names::SnapshotName, outcome::Outcome};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    content::TenantStore,
    format::{record::Record, tree::TreePath},
    id::{RecordId, SnapshotId},
    ops::read::browse::OpenFile,
};

use super::{
    compose::DESCRIPTION,
    description::ContainerDescription,
    names::{choice, told},
};

/// A snapshot of a container, with the container as it was.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContainerShowOutcome {
    /// The name of the container's snapshots.
    pub name: String,
    /// The snapshot.
    pub snapshot_id: Option<SnapshotId>,
    /// Its record.
    pub record: RecordId,
    /// The first digits of its id.
    pub sha256_prefix: String,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The host that captured it.
    pub host: String,
    /// The bytes of image and volumes.
    pub uncompressed_size_bytes: u64,
    /// The bytes that were stored for it.
    pub stored_bytes: u64,
    /// The container.
    pub container: ContainerDescription,
}

impl Outcome for ContainerShowOutcome {}

/// Tells what a container was when its snapshot was taken.
#[crate::boxed]
pub async fn show(engine: &Engine, name: &SnapshotName) -> Result<ContainerShowOutcome, Failure> {
    let chosen = choice(name);
    let reference = chosen.reference()?;
    let lineage = engine.lineage(&chosen.lineage()).await;
    let (tenant, lineage) = lineage.map_err(|failure| told(failure, &name.profile))?;
    let record = engine.resolve_snapshot(&tenant, &lineage, reference).await;
    let record = record.map_err(|failure| told(failure, &name.profile))?;
    let container = description(&tenant, &record).await?;
    Ok(ContainerShowOutcome {
        name: lineage.name.to_string(),
        snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
        record: record.record,
        sha256_prefix: record.sha256_prefix(),
        captured_at_ms: record.captured_at_ms,
        host: record.captured_by.host.clone(),
        uncompressed_size_bytes: record.uncompressed_size_bytes,
        stored_bytes: record.counts.stored_bytes,
        container,
    })
}

/// The description in a snapshot.
pub(super) async fn description(
    tenant: &TenantStore,
    record: &Record,
) -> Result<ContainerDescription, Failure> {
    let path = TreePath::new(DESCRIPTION.as_bytes().to_vec())
        .map_err(|error| Failure::internal(error.to_string()))?;
    let file = OpenFile::open(tenant, record, &path).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::from(error).hint("this is no snapshot of a container"),
        _ => error.into(),
    })?;
    let bytes = Shared::default();
    file.write((bytes.clone(), DESCRIPTION.into())).await?;
    let bytes = bytes.0.lock();
    ContainerDescription::read(&bytes, &record.sha256_prefix())
}

/// A buffer that is filled elsewhere.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
