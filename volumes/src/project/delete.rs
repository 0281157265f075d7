//! `delete` removes one saved state of a project.

use std::path::PathBuf;

use engine::{Engine, failure::Failure, names::ActorName, outcome::Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    catalog::lineage_handle::LineageHandle,
    error::Needed,
    format::record::Record,
    name::{Profile, Tenant},
};

use super::{file::Project, opened, recover};

/// Deletes one saved state of a project that is not the current one.
#[derive(Clone, Debug)]
pub struct DeleteRequest {
    /// The project file.
    pub file: PathBuf,
    /// Which state.
    pub reference: String,
    /// The actor.
    pub actor: ActorName,
    /// Why; it is written into the log.
    pub reason: String,
}

/// A saved state that was deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub struct ProjectDeleteOutcome {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The project of the tenant.
    pub project_id: Profile,
    /// The id of the state.
    pub snapshot_id: String,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// Why it was deleted.
    pub reason: String,
}

impl Outcome for ProjectDeleteOutcome {}

/// Deletes one saved state of a project.
#[crate::boxed]
pub async fn delete(engine: &Engine, request: &DeleteRequest) -> Result<ProjectDeleteOutcome, Failure> {
    let reason = engine::text::reason::checked(&request.reason)?;
    let project = Project::read(&request.file)?;
    recover::recover(engine, &project).await;
    let tenant = engine.tenant_to_change(&project.name.tenant).await?;
    let saved = opened::find(engine, &tenant, &project.name, Some(&request.reference)).await?;
    let (record, prefix) = (&saved.record, saved.record.sha256_prefix());
    let lineage = opened::lineage(&project.name);
    if let Some(tag) = record.tags.keys().next() {
        let message = format!("the state {prefix} of {} cannot be deleted: it is tagged {tag}", project.name);
        return Err(Failure::new(ErrorKind::SnapshotNeeded, message).hint(format!(
            "`pstore untag {}@{prefix} {tag} --chrome-major {}` takes the tag away",
            project.name, lineage.chrome_major
        )));
    }
    let handle = LineageHandle::new(tenant.clone(), lineage, engine.actor(&request.actor));
    let untagged = |record: &Record| record.tags.is_empty();
    let deleted = handle.delete_while(record.record, &reason, untagged).await;
    deleted.map_err(|error| match &error {
        Error::SnapshotNeeded { needed: Needed::Latest, .. } => {
            Failure::from(error).hint("save another state first: the current one is never deleted")
        }
        _ => error.into(),
    })?;
    let name = project.name;
    Ok(ProjectDeleteOutcome {
        tenant_id: name.tenant,
        project_id: name.profile,
        snapshot_id: saved.metadata.snapshot_id,
        sha256_prefix: prefix,
        reason,
    })
}
