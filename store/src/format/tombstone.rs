//! `Tombstone` remembers a profile that was deleted: when, by whom, why, and how much it was.
//!
//! A tenant that was deleted says the same in its `tenant.json`, which is then its tombstone.

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, limits};
use crate::{
    error::Deleted,
    name::{Profile, ProfileName, Tenant},
};

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.tombstone";

/// How far a deletion has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// Somebody has decided it: nobody makes a snapshot current any more.
    Begun,
    /// A collection has removed every other object.
    Done,
}

/// The person who decided on a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// The person's name on their host.
    pub user: String,
    /// The host they worked on.
    pub host: String,
    /// The run that did it.
    pub run_id: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Operator {
    /// `user@host`.
    pub fn name(&self) -> String {
        format!("{}@{}", self.user, self.host)
    }
}

/// That a profile or a tenant was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// How far it has got.
    pub state: Progress,
    /// By the store's clock.
    pub at_ms: u64,
    /// The person who decided it.
    pub by: Operator,
    /// Why, in the words of the person who decided it. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Snapshots that there were when it was decided.
    pub snapshots: u64,
    /// Archives that were counted with the snapshots.
    pub archives: u64,
    /// Stored bytes that were counted with the snapshots.
    pub stored_bytes: u64,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Deletion {
    /// The deletion, for an error about the thing that was deleted.
    pub fn told(&self) -> Deleted {
        Deleted { at_ms: self.at_ms, by: self.by.name(), reason: self.reason.clone() }
    }
}

/// `deleted.json` of a profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// The owner of the profile.
    pub tenant_id: Tenant,
    /// The profile that was deleted.
    pub profile_id: Profile,
    /// The author, the time and the reason of the deletion.
    pub deletion: Deletion,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Tombstone {
    /// The tombstone of this profile.
    pub fn new(name: &ProfileName, deletion: Deletion) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            tenant_id: name.tenant.clone(),
            profile_id: name.profile.clone(),
            deletion,
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::TOMBSTONE)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_is_read_as_it_was_written() {
        let by = Operator { user: "root".into(), host: "host-1".into(), ..Operator::default() };
        let deletion = Deletion {
            state: Progress::Begun,
            at_ms: 1_763_175_483_999,
            by,
            reason: "offboarded".into(),
            snapshots: 2,
            archives: 1,
            stored_bytes: 300,
            unknown: Unknown::new(),
        };
        let tombstone = Tombstone::new(&"acme/alice".parse().unwrap(), deletion);
        assert_eq!(Tombstone::decode(&tombstone.encode()).unwrap(), tombstone);
        let told = tombstone.deletion.told().to_string();
        assert_eq!(told, "on 2025-11-15 02:58:03 UTC by root@host-1 (offboarded)");
    }
}
