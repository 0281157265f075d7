//! `ChosenArgs` defines `TENANT/PROFILE[@REF]`: a profile, and perhaps one of its snapshots.

use clap::Args;
use engine::names::{SnapshotChoice, SnapshotName};
use store::{name::ChromeMajor, ops::read::resolve::Reference};

use super::value::sha_prefix;

/// One snapshot of a profile, or of one Chrome version of it.
#[derive(Clone, Debug, Args)]
pub(crate) struct ChosenArgs {
    #[arg(
        value_name = "TENANT/PROFILE[@REF]",
        help = "The profile and its snapshot: @DIGITS of its id, @TAG, @latest~2 or @2026-11-15T10:00 [default: the current one]"
    )]
    pub(crate) name: SnapshotName,
    /// The major version of Chrome [default: the newest that has snapshots]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
    /// The first digits of the snapshot's id or its archive's
    #[arg(long, value_name = "PREFIX", value_parser = sha_prefix)]
    pub(crate) sha: Option<Reference>,
}

impl ChosenArgs {
    pub(crate) fn choice(&self) -> SnapshotChoice {
        SnapshotChoice { name: self.name.clone(), chrome_major: self.chrome_major, sha: self.sha.clone() }
    }
}
