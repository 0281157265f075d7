//! `Collection` reports one tenant's collection, or its plan.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    id::RecordId,
    name::{ChromeMajor, Profile, Tenant},
    ops::gc::{Cause, Document, Plan, Step, Stranded, Tally},
};

use super::CondemnedPhase;

/// So many packs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PackTally {
    /// How many there are.
    pub packs: u64,
    /// How many bytes they have.
    pub bytes: u64,
}

impl From<Tally> for PackTally {
    fn from(Tally { packs, bytes }: Tally) -> Self {
        Self { packs, bytes }
    }
}

/// The reasons why nothing needs a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CondemnationCause {
    /// The snapshot it was stored for was deleted, and no other shares it.
    Deleted,
    /// The write that stored it never became a snapshot.
    Abandoned,
    /// Its content was moved to other packs.
    Moved,
    /// No record tells whose it was.
    Unknown,
}

impl CondemnationCause {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Abandoned => "abandoned",
            Self::Moved => "moved",
            Self::Unknown => "unknown",
        }
    }
}

impl From<Cause> for CondemnationCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Deleted => Self::Deleted,
            Cause::Abandoned => Self::Abandoned,
            Cause::Moved => Self::Moved,
            Cause::Unknown => Self::Unknown,
        }
    }
}

/// Packs that were condemned for one reason.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct CauseTally {
    /// The reason.
    pub cause: CondemnationCause,
    /// The packs.
    #[serde(flatten)]
    pub tally: PackTally,
    /// The age of the oldest.
    pub oldest_ms: u64,
}

/// Packs of one profile that were condemned.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProfileTally {
    /// The profile, if it is known.
    pub profile_id: Option<Profile>,
    /// The Chrome that wrote it.
    pub chrome_major_version: Option<ChromeMajor>,
    /// The packs.
    #[serde(flatten)]
    pub tally: PackTally,
    /// The age of the oldest.
    pub oldest_ms: u64,
}

/// Packs that were emptied, because too little of them was needed.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RepackedTally {
    /// The packs.
    #[serde(flatten)]
    pub tally: PackTally,
    /// The bytes that were needed, and were copied.
    pub kept_bytes: u64,
    /// The bytes that were not.
    pub saved_bytes: u64,
    /// How many snapshots needed them.
    pub records: u64,
    /// How many packs could not be emptied.
    pub failed: u64,
}

/// The next steps of a document that condemns packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CollectionStep {
    /// The writers are listed that must end before it goes on.
    Arm,
    /// The grace is not over.
    WaitForGrace,
    /// Writers have not ended.
    WaitForWriters,
    /// Packs that nothing needs are deleted; those needed after all stay.
    Sweep,
}

/// A document of an earlier collection that condemns packs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CondemnedDocument {
    /// The document's id.
    pub id: RecordId,
    /// Its phase as it was found.
    pub phase: CondemnedPhase,
    /// The packs that it names.
    #[serde(flatten)]
    pub tally: PackTally,
    /// The step that is next.
    pub step: CollectionStep,
    /// How much of the grace is left.
    pub left_ms: Option<u64>,
    /// The writers that it waits for.
    pub writers: Vec<RecordId>,
    /// How many packs are needed after all.
    pub pardoned: u64,
}

/// A session on a snapshot whose record is missing.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StrandedSession {
    /// The session.
    pub session: RecordId,
    /// The host where its changes lie.
    pub host: String,
    /// The profile.
    pub profile_id: Profile,
    /// The Chrome that wrote it.
    pub chrome_major_version: ChromeMajor,
    /// The record that is missing.
    pub record: RecordId,
}

/// The garbage of one tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Collection {
    /// The tenant.
    pub tenant_id: Tenant,
    /// Packs that are deleted.
    pub deleted: PackTally,
    /// Packs that are condemned.
    pub condemned: PackTally,
    /// Those by the reason.
    pub condemned_by_cause: Vec<CauseTally>,
    /// Those by the profile.
    pub condemned_by_profile: Vec<ProfileTally>,
    /// Packs that are emptied.
    pub repacked: RepackedTally,
    /// Packs that were condemned earlier, and wait.
    pub waiting: PackTally,
    /// Packs that are needed.
    pub needed: PackTally,
    /// The bytes of them that are needed.
    pub live_bytes: u64,
    /// Packs of writes that are under way.
    pub writing: PackTally,
    /// Documents of earlier collections.
    pub documents: Vec<CondemnedDocument>,
    /// Writes that were taken for dead and revoked.
    pub revoked: Vec<RecordId>,
    /// How many deletions were finished.
    pub finished_deletions: u64,
    /// How many indexes were rewritten.
    pub indexes_rewritten: u64,
    /// How many indexes were removed.
    pub indexes_removed: u64,
    /// How many indexes were merged.
    pub indexes_merged: u64,
    /// How many events were merged.
    pub events_merged: u64,
    /// How many events were removed.
    pub events_removed: u64,
    /// How many other objects were removed.
    pub leftovers: u64,
    /// Sessions on snapshots whose records are missing.
    pub stranded_sessions: Vec<StrandedSession>,
    /// How many documents another collection must finish.
    pub pending: usize,
}

impl From<&Plan> for Collection {
    fn from(plan: &Plan) -> Self {
        let by_cause = plan.by_cause().into_iter().map(|(cause, (tally, oldest))| CauseTally {
            cause: cause.into(),
            tally: tally.into(),
            oldest_ms: ms(oldest),
        });
        let by_profile = plan.by_lineage().into_iter().map(|(lineage, (tally, oldest))| ProfileTally {
            chrome_major_version: lineage.as_ref().map(|lineage| lineage.chrome_major),
            profile_id: lineage.map(|lineage| lineage.name.profile),
            tally: tally.into(),
            oldest_ms: ms(oldest),
        });
        Self {
            tenant_id: plan.tenant.clone(),
            deleted: plan.deleted.into(),
            condemned: plan.condemned_total().into(),
            condemned_by_cause: by_cause.collect(),
            condemned_by_profile: by_profile.collect(),
            repacked: RepackedTally {
                tally: plan.repacked.emptied.into(),
                kept_bytes: plan.repacked.kept_bytes,
                saved_bytes: plan.repacked.saved_bytes(),
                records: plan.repacked.records,
                failed: plan.repacked.failed,
            },
            waiting: plan.waiting().into(),
            needed: plan.needed.into(),
            live_bytes: plan.live_bytes,
            writing: plan.writing.into(),
            documents: plan.documents.iter().map(CondemnedDocument::from).collect(),
            revoked: plan.revoked.iter().map(|(id, _)| *id).collect(),
            finished_deletions: plan.finished_deletions,
            indexes_rewritten: plan.indexes_rewritten,
            indexes_removed: plan.indexes_removed,
            indexes_merged: plan.indexes_merged,
            events_merged: plan.events_merged,
            events_removed: plan.events_removed,
            leftovers: plan.leftovers,
            stranded_sessions: plan.stranded.iter().map(StrandedSession::from).collect(),
            pending: plan.pending.len(),
        }
    }
}

impl From<&Document> for CondemnedDocument {
    fn from(document: &Document) -> Self {
        let (mut left_ms, mut writers, mut pardoned) = (None, Vec::new(), 0);
        let step = match &document.step {
            Step::Arm => CollectionStep::Arm,
            Step::WaitForGrace { left } => {
                left_ms = Some(ms(*left));
                CollectionStep::WaitForGrace
            }
            Step::WaitForWriters { writers: these } => {
                writers.clone_from(these);
                CollectionStep::WaitForWriters
            }
            Step::Sweep { pardoned: these, .. } => {
                pardoned = *these;
                CollectionStep::Sweep
            }
        };
        Self {
            id: document.id,
            phase: document.phase.into(),
            tally: document.named.into(),
            step,
            left_ms,
            writers,
            pardoned,
        }
    }
}

impl From<&Stranded> for StrandedSession {
    fn from(Stranded { session, host, lineage, record }: &Stranded) -> Self {
        Self {
            session: *session,
            host: host.clone(),
            profile_id: lineage.name.profile.clone(),
            chrome_major_version: lineage.chrome_major,
            record: *record,
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
