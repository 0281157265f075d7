//! `Pin` keeps a snapshot, for a reader without a lock or for an unfinished session, from being
//! deleted and collected.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, limits};
use crate::{
    id::RecordId,
    name::{ChromeMajor, Lineage, Profile},
};

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.pin";

/// The document by which a reader keeps a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// The record whose packs are kept.
    pub record: RecordId,
    /// The generation of the record whose packs are kept.
    pub generation: u64,
    /// How long after its last write, by the server's clock, the pin holds.
    pub ttl_ms: u64,
    /// The session that builds on the snapshot, if this is its root: then the snapshot stays, in
    /// any generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A session that is not finished, and whose snapshot the pinned record is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// The session's own id.
    pub id: RecordId,
    /// Where its changes lie, as that host calls itself.
    pub host: String,
    /// The profile that is mounted.
    pub profile_id: Profile,
    /// The Chrome that wrote the profile.
    pub chrome_major_version: ChromeMajor,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Pin {
    /// The pin of a reader, which holds for `ttl` unless it is renewed.
    pub fn new(record: RecordId, generation: u64, ttl: Duration) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            record,
            generation,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            session: None,
            unknown: Unknown::new(),
        }
    }

    /// The root of a session that builds on `record` of `lineage`.
    pub fn root(lineage: &Lineage, record: RecordId, session: RecordId, host: &str, ttl: Duration) -> Self {
        let session = Session {
            id: session,
            host: host.to_owned(),
            profile_id: lineage.name.profile.clone(),
            chrome_major_version: lineage.chrome_major,
            unknown: Unknown::new(),
        };
        Self { session: Some(session), ..Self::new(record, 0, ttl) }
    }

    /// The generation that must stay as it was; none for a session, which follows moved chunks.
    pub fn kept_generation(&self) -> Option<u64> {
        self.session.is_none().then_some(self.generation)
    }

    /// How long the pin holds after its last write.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::PIN)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }
}
