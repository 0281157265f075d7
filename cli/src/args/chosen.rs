//! `TENANT/PROFILE[@REF]`: a profile, and perhaps one of its snapshots.

use std::str::FromStr;

use clap::Args;
use store::{
    name::{ChromeMajor, InvalidName, ProfileName, Tenant},
    ops::find::{InvalidReference, Reference},
};

use super::{value::sha_prefix, verb::LineageArgs};
use crate::failure::Failure;

/// A profile, and perhaps which of its snapshots is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotName {
    pub(crate) profile: ProfileName,
    reference: Option<Reference>,
}

impl SnapshotName {
    /// The current one.
    pub(crate) fn current(profile: ProfileName) -> Self {
        Self { profile, reference: None }
    }

    /// What was typed after the `@`.
    pub(crate) fn typed(&self) -> Option<&Reference> {
        self.reference.as_ref()
    }

    /// Which snapshot is meant, if it is not whichever is current.
    pub(crate) fn chosen(&self) -> Option<&Reference> {
        self.typed().filter(|reference| !reference.is_current())
    }

    /// Which snapshot is meant, said here or with `--sha`.
    pub(crate) fn with_sha<'a>(
        &'a self,
        sha: Option<&'a Reference>,
    ) -> Result<Option<&'a Reference>, Failure> {
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
pub(crate) struct Further {
    profile: Option<ProfileName>,
    reference: Reference,
}

impl Further {
    /// The snapshot; fails if it is one of another profile.
    pub(crate) fn of(&self, profile: &ProfileName) -> Result<&Reference, Failure> {
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
pub(crate) enum Subject {
    Tenant(Tenant),
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
#[derive(Clone, Debug, Args)]
pub(crate) struct ChosenArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "Whose snapshot, and which: @DIGITS of its id, @TAG, @latest~2 or @2026-11-15T10:00 [default: the current one]"
    )]
    pub(crate) name: SnapshotName,
    /// Of this major version of Chrome [default: the newest there is]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id or its archive's
    #[arg(long, value_name = "PREFIX", value_parser = sha_prefix)]
    pub(crate) sha: Option<Reference>,
}

impl ChosenArgs {
    pub(crate) fn lineage(&self) -> LineageArgs {
        LineageArgs { profile: self.name.profile.clone(), chrome_major: self.chrome_major }
    }

    /// Which snapshot is meant; `None` for whichever is current.
    pub(crate) fn reference(&self) -> Result<Option<&Reference>, Failure> {
        self.name.with_sha(self.sha.as_ref())
    }

    /// As [`Self::reference`]; but whoever types `latest` has named one.
    pub(crate) fn named(&self) -> Result<Option<&Reference>, Failure> {
        Ok(self.reference()?.or(self.name.typed()))
    }

    /// Which snapshot is meant, which `verb` must be told.
    pub(crate) fn required(&self, verb: &str) -> Result<&Reference, Failure> {
        self.named()?.ok_or_else(|| {
            let profile = &self.name.profile;
            let message = format!("{verb} must be told which snapshot of {profile}");
            Failure::usage(message)
                .hint(format!("`pstore {verb} {profile}@REF`; `pstore list {profile}` shows those there are"))
        })
    }
}
