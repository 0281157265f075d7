//! `LineageArgs` defines `TENANT/PROFILE`, perhaps of one major version of Chrome.

use clap::Args;
use engine::names::LineageName;
use store::name::{ChromeMajor, ProfileName};

/// A profile, or one Chrome version of it.
#[derive(Clone, Debug, Args)]
pub(crate) struct LineageArgs {
    #[arg(value_name = "TENANT/PROFILE", help = "The profile")]
    pub(crate) profile: ProfileName,
    /// The major version of Chrome [default: the newest that has snapshots]
    #[arg(long, value_name = "N")]
    pub(crate) chrome_major: Option<ChromeMajor>,
}

impl LineageArgs {
    pub(crate) fn name(&self) -> LineageName {
        LineageName { profile: self.profile.clone(), chrome_major: self.chrome_major }
    }
}
