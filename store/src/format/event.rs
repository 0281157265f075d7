//! `Event` describes a change of a lineage's pointer or lock: its kind, its author, its reason.
//!
//! An event is born inside the write that makes it happen, in the block of the pointer, the
//! lock or the record, and is then stored as an object of its own. A process that replaces that
//! write first makes sure of the object, so that a process killed in between loses nothing.

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, limits};
use crate::id::{EventId, FlipId, JobId, RecordId};

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.event";
/// The longest reason a person may give.
pub const MAX_REASON_BYTES: usize = 4096;

/// The kind of an event: one of these words, or a word of a later pstore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum EventKind {
    /// The pointer was moved to a snapshot by the holder of the lock.
    Flip,
    /// The pointer was moved by an operator.
    Rollback,
    /// The pointer was moved to an archive that was imported.
    Import,
    /// An archive to which a program that knows only the contract has moved the pointer was
    /// stored as a snapshot.
    Adopt,
    /// A snapshot was stored, and the pointer not moved to it.
    HeldBack,
    /// A snapshot was deleted.
    Delete,
    /// A lock that had expired was taken away from its holder.
    LockEvicted,
    /// An operator took a lock away.
    ForceUnlock,
    /// A holder found that its lock was gone.
    LockLost,
    /// A holder whose lock was gone, but who had lost nothing by it, took it again.
    LockRegained,
    /// A program that knows only the contract has moved the pointer.
    ForeignFlip,
    /// As before, from another snapshot than the pointer's last target.
    ForeignFork,
    /// A server was asked to change something, and did or failed.
    Request,
    /// A server has done a job.
    Job,
    /// A word that this code does not know.
    Other(String),
}

impl EventKind {
    const KNOWN: [Self; 14] = [
        Self::Flip,
        Self::Rollback,
        Self::Import,
        Self::Adopt,
        Self::HeldBack,
        Self::Delete,
        Self::LockEvicted,
        Self::ForceUnlock,
        Self::LockLost,
        Self::LockRegained,
        Self::ForeignFlip,
        Self::ForeignFork,
        Self::Request,
        Self::Job,
    ];

    /// The word in the document.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Flip => "flip",
            Self::Rollback => "rollback",
            Self::Import => "import",
            Self::Adopt => "adopt",
            Self::HeldBack => "held_back",
            Self::Delete => "delete",
            Self::LockEvicted => "lock_evicted",
            Self::ForceUnlock => "force_unlock",
            Self::LockLost => "lock_lost",
            Self::LockRegained => "lock_regained",
            Self::ForeignFlip => "foreign_flip",
            Self::ForeignFork => "foreign_fork",
            Self::Request => "request",
            Self::Job => "job",
            Self::Other(word) => word,
        }
    }
}

impl From<String> for EventKind {
    fn from(word: String) -> Self {
        Self::KNOWN.into_iter().find(|known| known.as_str() == word).unwrap_or(Self::Other(word))
    }
}

impl From<EventKind> for String {
    fn from(kind: EventKind) -> Self {
        kind.as_str().to_owned()
    }
}

/// The run that acts on a lineage: in the contract's words, a holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Actor {
    /// The run that acted; the holder of a lock goes by it.
    pub run_id: String,
    /// The host it ran on.
    pub host: String,
    /// The run of the host. Empty if it is not known.
    pub host_run_id: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The request that a server was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Request {
    /// The method of HTTP.
    pub method: String,
    /// The path.
    pub path: String,
    /// Where it came from: an address, or `unix`.
    pub peer: String,
    /// The status that was answered.
    pub status: u64,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// Something that has happened to a lineage, a tenant or the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// The name of this kind of document.
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Made of the time and of chance, so that events sort by age.
    pub id: EventId,
    /// The kind of the event.
    pub kind: EventKind,
    /// By the clock of the host that acted.
    pub at_ms: u64,
    /// The run that did it.
    pub by: Actor,
    /// Why, in the words of the run that did it. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The short name of the pointer's target before it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_sha256_prefix: Option<String>,
    /// The short name of the snapshot that the pointer names since, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_sha256_prefix: Option<String>,
    /// The flip that this event tells of, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flip_id: Option<FlipId>,
    /// The snapshot it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordId>,
    /// Of a lock: whose it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Actor>,
    /// The request that a server was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    /// The job that a server has done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Event {
    /// An event that says no more than this.
    pub fn new(id: EventId, kind: EventKind, at_ms: u64, by: Actor) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            id,
            kind,
            at_ms,
            by,
            reason: String::new(),
            from_sha256_prefix: None,
            to_sha256_prefix: None,
            flip_id: None,
            record: None,
            holder: None,
            request: None,
            job: None,
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::EVENT)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }
}
