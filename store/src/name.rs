//! Checks the names that people choose, before any I/O: tenants, profiles, Chrome versions.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

const MAX_NAME_BYTES: usize = 128;

/// The word for the current snapshot. No tag may be called so.
pub const LATEST: &str = "latest";

/// The word for what a run has saved while it goes on.
pub const WIP: &str = "wip";

/// A text that is no name, and why not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {kind} {text:?}: {reason}")]
pub struct InvalidName {
    /// The kind of name that the text should have been.
    pub kind: &'static str,
    /// The text that was given.
    pub text: String,
    /// The fault in it.
    pub reason: &'static str,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// The name as it was chosen.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                match check(&text) {
                    Ok(()) => Ok(Self(text)),
                    Err(reason) => Err(InvalidName { kind: $kind, text, reason }),
                }
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                Self::try_from(text.to_owned())
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

name!(
    /// The owner of data. Nothing is shared between tenants.
    Tenant, "tenant name"
);
name!(
    /// One state that is captured again and again.
    Profile, "profile name"
);

fn check(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("it is empty");
    }
    if text.len() > MAX_NAME_BYTES {
        return Err("it is longer than 128 bytes");
    }
    if text.starts_with('.') {
        return Err("it starts with a dot");
    }
    if !text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
        return Err("only A-Z a-z 0-9 . _ - are allowed");
    }
    Ok(())
}

/// `tenant/profile`, as people type it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ProfileName {
    /// The owner.
    pub tenant: Tenant,
    /// The profile's name within the tenant.
    pub profile: Profile,
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.profile)
    }
}

impl FromStr for ProfileName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let Some((tenant, profile)) = text.split_once('/') else {
            return Err(InvalidName {
                kind: "profile",
                text: text.to_owned(),
                reason: "write it as TENANT/PROFILE",
            });
        };
        Ok(Self { tenant: tenant.parse()?, profile: profile.parse()? })
    }
}

impl TryFrom<String> for ProfileName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        text.parse()
    }
}

impl From<ProfileName> for String {
    fn from(name: ProfileName) -> Self {
        name.to_string()
    }
}

/// The number of a lineage; 1 to 65535.
///
/// For a browser's profile it is the major version of the Chrome that wrote it. The numbers from
/// [`Self::FIRST_RESERVED`] on are no Chrome's: they say that a lineage holds something else, so that a program
/// that asks for its own Chrome never meets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct ChromeMajor(u16);

/// The kind of a lineage's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineageKind {
    /// A profile of Chrome.
    Chrome,
    /// The checkpoints of an agent's workspace.
    Workspace,
    /// The saved states of a project.
    Project,
    /// The snapshots of a container.
    Container,
    /// Something that a newer pstore stores.
    Reserved,
}

impl ChromeMajor {
    /// The least number that is no Chrome's.
    pub const FIRST_RESERVED: Self = Self(65000);
    /// Stands for [`LineageKind::Container`].
    pub const CONTAINER: Self = Self(65533);
    /// Stands for [`LineageKind::Project`].
    pub const PROJECT: Self = Self(65534);
    /// Stands for [`LineageKind::Workspace`].
    pub const WORKSPACE: Self = Self(65535);

    /// The kind of a lineage of this number.
    pub fn kind(self) -> LineageKind {
        match self {
            Self::WORKSPACE => LineageKind::Workspace,
            Self::PROJECT => LineageKind::Project,
            Self::CONTAINER => LineageKind::Container,
            major if major >= Self::FIRST_RESERVED => LineageKind::Reserved,
            _ => LineageKind::Chrome,
        }
    }

    /// In which order to prefer lineages, the best last: a profile of Chrome before all else, the newest Chrome first.
    pub fn preference(self) -> impl Ord {
        (self.kind() == LineageKind::Chrome, self)
    }
}

impl fmt::Display for ChromeMajor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<u64> for ChromeMajor {
    type Error = InvalidName;

    fn try_from(number: u64) -> Result<Self, InvalidName> {
        match u16::try_from(number) {
            Ok(major) if major > 0 => Ok(Self(major)),
            _ => Err(InvalidName {
                kind: "Chrome major version",
                text: number.to_string(),
                reason: "it is a whole number from 1 to 65535",
            }),
        }
    }
}

impl From<ChromeMajor> for u64 {
    fn from(major: ChromeMajor) -> Self {
        major.0.into()
    }
}

impl FromStr for ChromeMajor {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let canonical = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        text.parse::<u64>().ok().filter(|_| canonical).and_then(|n| Self::try_from(n).ok()).ok_or_else(|| {
            InvalidName {
                kind: "Chrome major version",
                text: text.to_owned(),
                reason: "it is a whole number from 1 to 65535",
            }
        })
    }
}

/// A profile as one major version of Chrome wrote it, or something else of that name: what has a pointer and a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lineage {
    /// The profile.
    pub name: ProfileName,
    /// The Chrome that writes it.
    pub chrome_major: ChromeMajor,
}

impl fmt::Display for Lineage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chrome_major.kind() {
            LineageKind::Chrome => write!(f, "{} (Chrome {})", self.name, self.chrome_major),
            LineageKind::Workspace => write!(f, "{} (workspace)", self.name),
            LineageKind::Project => write!(f, "{} (project)", self.name),
            LineageKind::Container => write!(f, "{} (container)", self.name),
            LineageKind::Reserved => write!(f, "{} (kind {})", self.name, self.chrome_major),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for good in ["a", "Acme-1_2.x", &"x".repeat(128)] {
            good.parse::<Tenant>().unwrap();
        }
        for bad in ["", ".a", "..", "a/b", "a b", "ä", "a\n", "a\0", &"x".repeat(129)] {
            bad.parse::<Tenant>().unwrap_err();
        }
        "acme".parse::<ProfileName>().unwrap_err();
        "acme/".parse::<ProfileName>().unwrap_err();
        "acme/a/b".parse::<ProfileName>().unwrap_err();
        "acme/alice".parse::<ProfileName>().unwrap();
    }

    #[test]
    fn chrome_majors_have_one_spelling() {
        assert_eq!(u64::from("131".parse::<ChromeMajor>().unwrap()), 131);
        for bad in ["", "0", "0131", "+1", "-1", "70000", "x", "1.0"] {
            bad.parse::<ChromeMajor>().unwrap_err();
        }
    }

    #[test]
    fn a_lineage_that_is_no_browsers_says_what_it_holds_and_is_taken_last() {
        let lineage = |major| Lineage { name: "acme/alice".parse().unwrap(), chrome_major: major };
        let chrome: ChromeMajor = "131".parse().unwrap();
        for (major, name) in [
            (chrome, "acme/alice (Chrome 131)"),
            (ChromeMajor::WORKSPACE, "acme/alice (workspace)"),
            (ChromeMajor::PROJECT, "acme/alice (project)"),
            (ChromeMajor::CONTAINER, "acme/alice (container)"),
            (ChromeMajor::FIRST_RESERVED, "acme/alice (kind 65000)"),
        ] {
            assert_eq!(lineage(major).to_string(), name);
            assert!(major == chrome || major.preference() < chrome.preference());
        }
        assert_eq!("64999".parse::<ChromeMajor>().unwrap().kind(), LineageKind::Chrome);
    }
}
