//! `tag` adds a tag to a snapshot, or removes one.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind, catalog::lineage_handle::LineageHandle, id::RecordId, name::Lineage, ops::tag,
};

use crate::{
    Engine,
    failure::Failure,
    names::{ActorName, SnapshotChoice},
    outcome::{LineageFields, Outcome},
};

/// Tags a snapshot, or takes a tag away.
#[derive(Clone, Debug)]
pub struct TagRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
    /// The tag.
    pub tag: String,
    /// The actor.
    pub actor: ActorName,
}

/// The outcome for the tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TagChange {
    /// The snapshot has the tag now.
    Tagged,
    /// The snapshot has the tag no longer.
    Untagged,
    /// The snapshot had the tag already.
    Unchanged,
}

/// A snapshot and its tags.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TagOutcome {
    /// The outcome for the tag.
    pub outcome: TagChange,
    /// The profile of the snapshot.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// The snapshot's record.
    pub record: RecordId,
    /// The tag that was asked for.
    pub tag: String,
    /// All tags that the snapshot has now.
    pub tags: Vec<String>,
}

impl Outcome for TagOutcome {}

impl Engine {
    /// Gives a snapshot a tag.
    #[crate::boxed]
    pub async fn tag(&self, request: &TagRequest) -> Result<TagOutcome, Failure> {
        let (lineage, handle, record) = self.tagged(request).await?;
        let tagged = tag::tag(&handle, record, &request.tag).await?;
        let change = if tagged.changed { TagChange::Tagged } else { TagChange::Unchanged };
        Ok(outcome(request, &lineage, change, &tagged))
    }

    /// Takes a tag from a snapshot.
    #[crate::boxed]
    pub async fn untag(&self, request: &TagRequest) -> Result<TagOutcome, Failure> {
        let (lineage, handle, record) = self.tagged(request).await?;
        let tagged = tag::untag(&handle, record, &request.tag).await;
        let tagged = tagged.map_err(|error| elsewhere(&lineage, &request.tag, error))?;
        Ok(outcome(request, &lineage, TagChange::Untagged, &tagged))
    }

    async fn tagged(&self, request: &TagRequest) -> Result<(Lineage, LineageHandle, RecordId), Failure> {
        tag::check_name(&request.tag)?;
        let reference = request.snapshot.reference()?;
        let (tenant, lineage) = self.lineage_to_change(&request.snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, reference).await?;
        let handle = LineageHandle::new(tenant, lineage.clone(), self.actor(&request.actor));
        Ok((lineage, handle, record.record))
    }
}

fn outcome(request: &TagRequest, lineage: &Lineage, change: TagChange, tagged: &tag::Tagged) -> TagOutcome {
    TagOutcome {
        outcome: change,
        lineage: lineage.into(),
        sha256_prefix: tagged.record.sha256_prefix(),
        record: tagged.record.record,
        tag: request.tag.clone(),
        tags: tagged.record.tags.keys().cloned().collect(),
    }
}

/// Without a name it is the current snapshot's tag that is meant.
fn elsewhere(lineage: &Lineage, tag: &str, error: Error) -> Failure {
    let is_missing = error.kind() == ErrorKind::NotFound;
    let failure = Failure::from(error);
    match is_missing {
        true => failure.hint(format!(
            "`pstore untag {}@{tag} {tag}` takes it from the snapshot that has it",
            lineage.name
        )),
        false => failure,
    }
}
