//! `names` parses how people name a tenant, a profile or a snapshot, and who they are.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use store::{
    name::{ChromeMajor, InvalidName, ProfileName, Tenant},
    ops::read::resolve::{InvalidReference, Reference},
};

use crate::failure::Failure;

/// Who acts. It is written into locks and events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActorName {
    /// The name of the run; random by default.
    pub run_id: Option<String>,
    /// The host that acts; this one if it is not said.
    pub host: Option<String>,
    /// Which run of the host it is.
    pub host_run_id: String,
}

/// A name that is written into locks and events is no longer than this.
pub const MAX_ACTOR_BYTES: usize = 256;

impl ActorName {
    /// Refuses names that others should not have to read.
    pub fn check(&self) -> Result<(), Failure> {
        let names = [self.run_id.as_deref(), self.host.as_deref(), Some(self.host_run_id.as_str())];
        for name in names.into_iter().flatten() {
            actor_name(name)
                .map_err(|problem| Failure::usage(format!("{name:?} names nobody: {problem}")))?;
        }
        Ok(())
    }
}

/// A name of somebody who acts. It is shown to others, and written with every event.
pub fn actor_name(text: &str) -> Result<String, String> {
    if text.len() > MAX_ACTOR_BYTES {
        return Err(format!("it takes at most {MAX_ACTOR_BYTES} bytes"));
    }
    if text.chars().any(char::is_control) {
        return Err("it takes no control characters".to_owned());
    }
    Ok(text.to_owned())
}

/// A profile, or one Chrome version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageName {
    /// The profile of the snapshots.
    pub profile: ProfileName,
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major: Option<ChromeMajor>,
}

/// A tenant, or one of its profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A tenant.
    Tenant(Tenant),
    /// One of its profiles.
    Profile(ProfileName),
}

impl FromStr for Scope {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.contains('/') { text.parse().map(Self::Profile) } else { text.parse().map(Self::Tenant) }
    }
}

/// A profile, and perhaps which of its snapshots is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotName {
    /// The profile.
    pub profile: ProfileName,
    reference: Option<Reference>,
}

impl SnapshotName {
    /// The current one.
    pub fn current(profile: ProfileName) -> Self {
        Self { profile, reference: None }
    }

    /// The text after the `@`.
    pub fn typed(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// Which snapshot is meant, if it is not whichever is current.
    pub fn chosen(&self) -> Option<&Reference> {
        self.typed().filter(|reference| !reference.is_current())
    }

    /// Which snapshot is meant, said here or with `--sha`.
    pub fn with_sha<'a>(&'a self, sha: Option<&'a Reference>) -> Result<Option<&'a Reference>, Failure> {
        match (&self.reference, sha) {
            (Some(reference), Some(sha)) => {
                let message = format!("@{reference} and --sha {sha} both name a snapshot");
                Err(Failure::usage(message).hint(format!("leave --sha out: {}@{reference}", self.profile)))
            }
            (_, sha) => Ok(sha.or(self.chosen())),
        }
    }
}

impl FromStr for SnapshotName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (profile, reference) = match text.split_once('@') {
            Some((profile, text)) => (profile, Some(reference(text)?)),
            None => (text, None),
        };
        let profile = profile.parse().map_err(|error: InvalidName| error.to_string())?;
        Ok(Self { profile, reference })
    }
}

/// One more snapshot of a profile that was named before: `REF`, or in full again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Further {
    profile: Option<ProfileName>,
    reference: Reference,
}

impl Further {
    /// The snapshot; fails if it is one of another profile.
    pub fn of(&self, profile: &ProfileName) -> Result<&Reference, Failure> {
        match &self.profile {
            Some(other) if other != profile => {
                let message = format!(
                    "{other}@{} is not a snapshot of {profile}: diff compares one profile's",
                    self.reference
                );
                Err(Failure::usage(message)
                    .hint(format!("`pstore list {profile}` shows the snapshots there are")))
            }
            _ => Ok(&self.reference),
        }
    }
}

impl FromStr for Further {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (profile, reference) = match text.contains('/') {
            true => {
                let SnapshotName { profile, reference } = text.parse()?;
                (Some(profile), reference)
            }
            false => (None, Some(reference(text)?)),
        };
        let reference = reference.map_or_else(|| self::reference(CURRENT), Ok)?;
        Ok(Self { profile, reference })
    }
}

/// Whichever snapshot is current, as a reference says it.
const CURRENT: &str = "latest";

fn reference(text: &str) -> Result<Reference, String> {
    text.parse().map_err(|error: InvalidReference| error.to_string())
}

/// A tenant, a profile, or one of its snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A tenant.
    Tenant(Tenant),
    /// A profile, or one of its snapshots.
    Snapshot(SnapshotName),
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return text.parse().map(Self::Snapshot);
        }
        text.parse().map(Self::Tenant).map_err(|error: InvalidName| error.to_string())
    }
}

/// One snapshot of a profile, or of one Chrome version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotChoice {
    /// The profile, and perhaps the snapshot.
    pub name: SnapshotName,
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id, said apart from the name.
    pub sha: Option<Reference>,
}

impl SnapshotChoice {
    /// The lineage it is of.
    pub fn lineage(&self) -> LineageName {
        LineageName { profile: self.name.profile.clone(), chrome_major: self.chrome_major }
    }

    /// Which snapshot is meant; `None` for whichever is current.
    pub fn reference(&self) -> Result<Option<&Reference>, Failure> {
        self.name.with_sha(self.sha.as_ref())
    }

    /// As [`Self::reference`]; but `latest` counts as a name.
    pub fn named(&self) -> Result<Option<&Reference>, Failure> {
        Ok(self.reference()?.or(self.name.typed()))
    }

    /// Which snapshot is meant, which `verb` must be told.
    pub fn required(&self, verb: &str) -> Result<&Reference, Failure> {
        self.named()?.ok_or_else(|| {
            let profile = &self.name.profile;
            let message = format!("{verb} must be told which snapshot of {profile}");
            Failure::usage(message)
                .hint(format!("`pstore {verb} {profile}@REF`; `pstore list {profile}` shows those there are"))
        })
    }
}
