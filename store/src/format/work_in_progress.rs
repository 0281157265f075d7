//! `WorkInProgress` is `wip.json`: it names the newest snapshot that a run has stored while it goes on.
//!
//! The snapshot has a record like any other, with the tag [`WIP`](crate::name::WIP), and the pointer does not
//! name it. This document only tells the next process that opens the lineage that there is one, without a
//! look at all records.

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, event::Actor, limits};
use crate::{
    id::RecordId,
    name::{ChromeMajor, Lineage, Profile, Tenant},
};

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.wip";

/// `wip.json` of a lineage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkInProgress {
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
    /// The profile.
    pub profile_id: Profile,
    /// The lineage of the profile.
    pub chrome_major_version: ChromeMajor,
    /// The record of the snapshot.
    pub record: RecordId,
    /// The session whose changes it has, on the host that saved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<RecordId>,
    /// When it was saved, by the clock of who saved it.
    pub saved_at_ms: u64,
    /// The run whose work it is.
    pub by: Actor,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl WorkInProgress {
    /// Says that `record` is the work in progress of `lineage`.
    pub fn new(
        lineage: &Lineage,
        record: RecordId,
        session: Option<RecordId>,
        saved_at_ms: u64,
        by: Actor,
    ) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            tenant_id: lineage.name.tenant.clone(),
            profile_id: lineage.name.profile.clone(),
            chrome_major_version: lineage.chrome_major,
            record,
            session,
            saved_at_ms,
            by,
            unknown: Unknown::new(),
        }
    }

    /// Whether it is about this lineage.
    pub fn is_of(&self, lineage: &Lineage) -> bool {
        (&self.tenant_id, &self.profile_id) == (&lineage.name.tenant, &lineage.name.profile)
            && self.chrome_major_version == lineage.chrome_major
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::WORK_IN_PROGRESS)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_was_written() {
        let lineage = Lineage { name: "acme/alice".parse().unwrap(), chrome_major: 131.try_into().unwrap() };
        let by = Actor { run_id: "run-1".into(), host: "host-1".into(), ..Actor::default() };
        let wip = WorkInProgress::new(&lineage, RecordId::from_bytes([7; 16]), None, 1_763_175_483_999, by);
        assert_eq!(WorkInProgress::decode(&wip.encode()).unwrap(), wip);
        assert!(wip.is_of(&lineage));
        let other = Lineage { name: "acme/bob".parse().unwrap(), ..lineage };
        assert!(!wip.is_of(&other));
    }
}
