//! `list` shows the saved states of a project.

use std::path::PathBuf;

use engine::{Engine, failure::Failure, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    id::RecordId,
    name::{Profile, ProfileName, Tenant},
    ops::read::resolve,
};

use super::{
    file::Project,
    metadata::Metadata,
    opened::{self, Saved},
    recover,
};

/// Lists the saved states of a project.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// The project file.
    pub file: PathBuf,
}

/// Shows one saved state.
#[derive(Clone, Debug)]
pub struct ShowRequest {
    /// The project file.
    pub file: PathBuf,
    /// Which state; the current one if it is not said.
    pub reference: Option<String>,
}

/// A saved state in a list.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SavedState {
    /// The record of the snapshot.
    pub record: RecordId,
    /// The first digits of the snapshot's id, as other commands take them.
    pub sha256_prefix: String,
    /// Whether it is the current one.
    pub current: bool,
    /// The bytes of all files.
    pub size_bytes: u64,
    /// The bytes that its save took in the store.
    pub stored_bytes: u64,
    /// The tags that keep it.
    pub tags: Vec<String>,
    /// What is known of it.
    #[serde(flatten)]
    pub metadata: Metadata,
}

/// The saved states of a project, oldest first.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProjectListOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The project of the tenant.
    pub project_id: Profile,
    /// The states.
    pub snapshots: Vec<SavedState>,
}

impl Outcome for ProjectListOutcome {}

/// One saved state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProjectShowOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The project of the tenant.
    pub project_id: Profile,
    /// The state.
    #[serde(flatten)]
    pub state: SavedState,
}

impl Outcome for ProjectShowOutcome {}

/// Lists the saved states of a project.
#[crate::boxed]
pub async fn list(engine: &Engine, request: &ListRequest) -> Result<ProjectListOutcome, Failure> {
    let project = Project::read(&request.file)?;
    recover::recover(engine, &project).await;
    states(engine, &project.name).await
}

/// Lists the saved states of a project of this name, wherever its file is.
#[crate::boxed]
pub async fn states(engine: &Engine, name: &ProfileName) -> Result<ProjectListOutcome, Failure> {
    let mut snapshots = Vec::new();
    match engine.tenant(&name.tenant).await {
        Err(failure) if failure.kind == ErrorKind::NotFound => {}
        Err(failure) => return Err(failure),
        Ok(tenant) => {
            let listing = resolve::list(&tenant, &opened::lineage(name)).await?;
            for record in listing.records {
                match opened::metadata(&tenant, &record).await {
                    Ok(metadata) => snapshots.push(state(Saved { record, metadata }, listing.latest)),
                    Err(failure) => engine.warn(&failure.message),
                }
            }
        }
    }
    Ok(ProjectListOutcome { tenant_id: name.tenant.clone(), project_id: name.profile.clone(), snapshots })
}

/// Shows one saved state.
#[crate::boxed]
pub async fn show(engine: &Engine, request: &ShowRequest) -> Result<ProjectShowOutcome, Failure> {
    let project = Project::read(&request.file)?;
    recover::recover(engine, &project).await;
    let tenant = engine.tenant(&project.name.tenant).await?;
    let saved = opened::find(engine, &tenant, &project.name, request.reference.as_deref()).await?;
    let listing = resolve::list(&tenant, &opened::lineage(&project.name)).await?;
    let (name, state) = (project.name, state(saved, listing.latest));
    Ok(ProjectShowOutcome { tenant_id: name.tenant, project_id: name.profile, state })
}

fn state(saved: Saved, latest: Option<RecordId>) -> SavedState {
    let Saved { record, metadata } = saved;
    SavedState {
        record: record.record,
        sha256_prefix: record.sha256_prefix(),
        current: latest == Some(record.record),
        size_bytes: record.uncompressed_size_bytes,
        stored_bytes: record.counts.stored_bytes,
        tags: record.tags.keys().cloned().collect(),
        metadata,
    }
}
