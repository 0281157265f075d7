//! A tenant, or one of its profiles.

use std::str::FromStr;

use store::name::{InvalidName, ProfileName, Tenant};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Tenant(Tenant),
    Profile(ProfileName),
}

impl FromStr for Scope {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        if text.contains('/') { text.parse().map(Self::Profile) } else { text.parse().map(Self::Tenant) }
    }
}
