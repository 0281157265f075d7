//! `delete` removes one snapshot, a profile, or a tenant with everything in it.

mod all;
mod receipt;
mod snapshot;

pub use receipt::{DeletedBy, DeletionReceipt, InUse, Removal, Subject, Use};

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    id::{RecordId, SnapshotId},
    name::ChromeMajor,
    ops::read::resolve::Reference,
};

use crate::{
    Engine,
    failure::Failure,
    names::{self, ActorName, SnapshotChoice},
    outcome::{LineageFields, Outcome},
};

/// Deletes one snapshot that is not the current one; or a profile or a tenant.
#[derive(Clone, Debug)]
pub struct DeleteRequest {
    /// The snapshot; or the profile or tenant.
    pub name: names::Subject,
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id, said apart from the name.
    pub sha: Option<Reference>,
    /// Everything of the profile or tenant.
    pub all: bool,
    /// Sessions to give up, each by the first digits of its id.
    pub ignore_session: Vec<String>,
    /// The tombstone of a profile or tenant that was deleted.
    pub tombstone: bool,
    /// The actor.
    pub actor: ActorName,
    /// Why; it is written into the log, and into the tombstone.
    pub reason: String,
    /// Even if the snapshot is tagged.
    pub tagged: bool,
    /// Give up a snapshot whose record cannot be read.
    pub damaged: bool,
    /// Do it, where otherwise it is only said what would be done.
    pub confirm: bool,
}

/// What was deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DeleteOutcome {
    /// One snapshot.
    Snapshot(Box<DeletedSnapshot>),
    /// A profile or a tenant.
    All(Box<DeletionReceipt>),
}

impl Outcome for DeleteOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        match self {
            Self::Snapshot(_) => None,
            Self::All(receipt) => receipt.verdict.clone(),
        }
    }
}

/// The outcome for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotDeletion {
    /// It is deleted.
    Deleted,
    /// It is given up.
    GivenUp,
    /// It would be given up.
    Planned,
}

/// A snapshot that goes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeletedSnapshot {
    /// The outcome.
    pub outcome: SnapshotDeletion,
    /// The profile of the snapshot.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The first digits of its id; empty if its record cannot be read.
    pub sha256_prefix: String,
    /// Its id, if that is known.
    pub snapshot_id: Option<SnapshotId>,
    /// Its record; none of an archive of another program.
    pub record: Option<RecordId>,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// Why it is deleted.
    pub reason: String,
    /// The bytes of its files, if they are known.
    #[serde(skip)]
    pub size_bytes: Option<u64>,
    /// The problem of its record.
    #[serde(skip)]
    pub damage: Option<String>,
}

impl Engine {
    /// Deletes a snapshot, a profile or a tenant.
    #[crate::boxed]
    pub async fn delete(&self, request: &DeleteRequest) -> Result<DeleteOutcome, Failure> {
        if request.all && request.tombstone {
            return Err(Failure::usage("--all and --tombstone exclude each other")
                .hint("--all deletes what there is; --tombstone lets what was deleted begin anew"));
        }
        let receipt = match &request.name {
            names::Subject::Tenant(tenant) if request.all => all::tenant(self, request, tenant).await?,
            names::Subject::Tenant(tenant) if request.tombstone => {
                all::begin_anew(self, request, &Subject::Tenant(tenant.clone())).await?
            }
            names::Subject::Tenant(tenant) => {
                return Err(Failure::usage(format!("{tenant} is a tenant, not a snapshot")).hint(format!(
                    "`pstore delete {tenant}/PROFILE@REF` deletes a snapshot; `pstore delete {tenant} --all` says what the tenant has"
                )));
            }
            names::Subject::Snapshot(name) if request.all || request.tombstone => {
                let profile = &name.profile;
                if let Some(reference) = name.typed() {
                    let flag = if request.all { "--all" } else { "--tombstone" };
                    let message = format!("{flag} goes with a profile, and @{reference} names a snapshot");
                    return Err(Failure::usage(message)
                        .hint(format!("`pstore delete {profile} {flag}`; or leave {flag} out")));
                }
                match request.all {
                    true => all::profile(self, request, profile).await?,
                    false => all::begin_anew(self, request, &Subject::Profile(profile.clone())).await?,
                }
            }
            names::Subject::Snapshot(name) => {
                let (chrome_major, sha) = (request.chrome_major, request.sha.clone());
                let chosen = SnapshotChoice { name: name.clone(), chrome_major, sha };
                return Ok(DeleteOutcome::Snapshot(Box::new(self.delete_snapshot(request, &chosen).await?)));
            }
        };
        Ok(DeleteOutcome::All(Box::new(receipt)))
    }
}
