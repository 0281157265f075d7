//! `DeletionReceipt` lists what a deletion removed, when, by whom and why; or what it would remove.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::tombstone::{Deletion, Progress},
    name::{ChromeMajor, Lineage, Profile, ProfileName, Tenant},
    ops::removal::{Survey, Unfinished},
};

use crate::failure::Failure;

/// A profile or a tenant that is deleted with all that it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A profile.
    Profile(ProfileName),
    /// A tenant.
    Tenant(Tenant),
}

impl Subject {
    /// The tenant, or that of the profile.
    pub fn tenant(&self) -> &Tenant {
        match self {
            Self::Profile(name) => &name.tenant,
            Self::Tenant(tenant) => tenant,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(name) => name.fmt(f),
            Self::Tenant(tenant) => tenant.fmt(f),
        }
    }
}

/// The outcome for a profile, a tenant, or a tombstone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// It would be deleted.
    Planned,
    /// It is deleted.
    Deleted,
    /// Somebody reads a snapshot, which is still there.
    Deleting,
    /// The tombstone would be removed.
    #[serde(rename = "planned")]
    #[schemars(skip)]
    TombstonePlanned,
    /// The tombstone is removed.
    TombstoneRemoved,
}

/// The user who deleted a profile or a tenant.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeletedBy {
    /// The user of the host.
    pub user: String,
    /// The host.
    pub host: String,
    /// The run.
    pub run_id: String,
}

impl From<&Deletion> for DeletedBy {
    fn from(deletion: &Deletion) -> Self {
        let by = &deletion.by;
        Self { user: by.user.clone(), host: by.host.clone(), run_id: by.run_id.clone() }
    }
}

/// How something is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Use {
    /// Somebody holds the lock.
    Lock,
    /// Somebody reads a snapshot.
    Reader,
    /// A session builds on a snapshot.
    Session,
}

/// A user that blocks the deletion of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InUse {
    /// How it is used.
    pub kind: Use,
    /// The profile.
    pub profile_id: Profile,
    /// The Chrome that wrote it.
    pub chrome_major_version: ChromeMajor,
    /// The session that uses it.
    pub session: Option<String>,
    /// The host, if it is known.
    pub host: String,
    /// The run, if it is known.
    pub run_id: String,
}

/// The deleted objects, or those that would be deleted.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DeletionReceipt {
    /// The outcome.
    pub outcome: Removal,
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile; none if it is the whole tenant.
    pub profile_id: Option<Profile>,
    /// When it was deleted.
    pub deleted_at_ms: Option<u64>,
    /// The user who deleted it.
    pub deleted_by: Option<DeletedBy>,
    /// Why.
    pub reason: Option<String>,
    /// How many snapshots.
    pub snapshots: u64,
    /// How many archives.
    pub archives: u64,
    /// How many bytes were stored for them.
    pub stored_bytes: u64,
    /// The tags of the snapshots.
    pub tags: Vec<String>,
    /// The users that block its deletion.
    pub in_use: Vec<InUse>,
    /// Whether a garbage collection has to end it.
    pub gc_due: bool,
    /// The profile or tenant.
    #[serde(skip)]
    pub subject: Subject,
    /// What there is of it.
    #[serde(skip)]
    pub survey: Survey,
    /// The tombstone, if there is one.
    #[serde(skip)]
    pub deletion: Option<Deletion>,
    #[serde(skip)]
    pub(super) verdict: Option<Failure>,
}

pub(super) fn of(
    subject: &Subject,
    outcome: Removal,
    survey: &Survey,
    deletion: Option<&Deletion>,
) -> DeletionReceipt {
    let is_plan = outcome == Removal::Planned;
    let count = |found: u64, said: fn(&Deletion) -> u64| match deletion {
        Some(deletion) if !is_plan => said(deletion),
        _ => found,
    };
    let is_over = deletion.is_some_and(|deletion| deletion.state == Progress::Done);
    DeletionReceipt {
        outcome,
        tenant_id: subject.tenant().clone(),
        profile_id: match subject {
            Subject::Profile(name) => Some(name.profile.clone()),
            Subject::Tenant(_) => None,
        },
        deleted_at_ms: deletion.map(|deletion| deletion.at_ms),
        deleted_by: deletion.map(DeletedBy::from),
        reason: deletion.map(|deletion| deletion.reason.clone()),
        snapshots: count(survey.snapshots, |deletion| deletion.snapshots),
        archives: count(survey.archives, |deletion| deletion.archives),
        stored_bytes: count(survey.stored_bytes + survey.archive_bytes, |deletion| deletion.stored_bytes),
        tags: survey.tags.iter().cloned().collect(),
        in_use: in_use(survey),
        gc_due: deletion.is_some() && !is_over,
        subject: subject.clone(),
        survey: survey.clone(),
        deletion: deletion.cloned(),
        verdict: None,
    }
}

fn in_use(survey: &Survey) -> Vec<InUse> {
    let line = |kind: Use, lineage: &Lineage, session: Option<String>, host: &str, run: &str| InUse {
        kind,
        profile_id: lineage.name.profile.clone(),
        chrome_major_version: lineage.chrome_major,
        session,
        host: host.to_owned(),
        run_id: run.to_owned(),
    };
    let holders = survey
        .holders
        .iter()
        .map(|(lineage, holder)| line(Use::Lock, lineage, None, &holder.host, &holder.run_id));
    let unfinished = survey.unfinished.iter().map(|Unfinished { lineage, session, .. }| match session {
        Some((id, host)) => line(Use::Session, lineage, Some(id.to_string()), host, ""),
        None => line(Use::Reader, lineage, None, "", ""),
    });
    holders.chain(unfinished).collect()
}
