//! `Outcome` is the result of a request: one document, and perhaps a verdict.

use capture::load;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    format::event::Actor,
    name::{ChromeMajor, Lineage, Profile, Tenant},
};

use crate::failure::Failure;

/// The result of a request. Its serialised form is the document that every front end returns.
pub trait Outcome: Serialize + JsonSchema {
    /// Whether there can be a verdict.
    const HAS_VERDICT: bool = false;

    /// The work is done, and what it found is bad: what that is, and what to do about it.
    fn verdict(&self) -> Option<Failure> {
        None
    }
}

/// Whose outcome it is, in the contract's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineageFields {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile of the tenant.
    pub profile_id: Profile,
    /// The Chrome that wrote it.
    pub chrome_major_version: ChromeMajor,
}

impl From<&Lineage> for LineageFields {
    fn from(lineage: &Lineage) -> Self {
        Self {
            tenant_id: lineage.name.tenant.clone(),
            profile_id: lineage.name.profile.clone(),
            chrome_major_version: lineage.chrome_major,
        }
    }
}

impl LineageFields {
    /// The lineage that they name.
    pub fn lineage(&self) -> Lineage {
        let name =
            store::name::ProfileName { tenant: self.tenant_id.clone(), profile: self.profile_id.clone() };
        Lineage { name, chrome_major: self.chrome_major_version }
    }
}

/// The actor, in the contract's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ActorFields {
    /// The run.
    pub run_id: String,
    /// Its host.
    pub host: String,
    /// Which run of the host it is.
    pub host_run_id: String,
}

impl From<&Actor> for ActorFields {
    fn from(actor: &Actor) -> Self {
        Self {
            run_id: actor.run_id.clone(),
            host: actor.host.clone(),
            host_run_id: actor.host_run_id.clone(),
        }
    }
}

/// Who captured a snapshot, in the contract's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CapturedByFields {
    /// The host.
    pub host: String,
    /// Which run of the host it was.
    pub host_run_id: String,
    /// The program.
    pub writer_version: String,
}

/// How a load ended, in the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LoadResult {
    /// The snapshot was loaded.
    Success,
    /// The profile has never been captured.
    NoPriorState,
    /// The snapshot, or a part of it, is not there, or may not be used.
    FreshFallback,
    /// The databases are not whole.
    IntegrityFailed,
    /// Stored bytes are not what they should be.
    ShaMismatch,
    /// This pstore does not read the version of the snapshot's description.
    UnsupportedVersion,
    /// The snapshot is of another Chrome.
    VersionMismatch,
    /// The snapshot is too large.
    TooLarge,
}

impl From<load::Outcome> for LoadResult {
    fn from(outcome: load::Outcome) -> Self {
        match outcome {
            load::Outcome::Success => Self::Success,
            load::Outcome::NoPriorState => Self::NoPriorState,
            load::Outcome::FreshFallback => Self::FreshFallback,
            load::Outcome::IntegrityFailed => Self::IntegrityFailed,
            load::Outcome::ShaMismatch => Self::ShaMismatch,
            load::Outcome::UnsupportedVersion => Self::UnsupportedVersion,
            load::Outcome::VersionMismatch => Self::VersionMismatch,
            load::Outcome::TooLarge => Self::TooLarge,
        }
    }
}
