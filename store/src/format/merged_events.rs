//! `MergedEvents` are events of a lineage that a collection has put together, so that a long history is few
//! objects.

use serde::{Deserialize, Serialize};

use super::{FormatError, MAJOR, MINOR, Result, Unknown, WRITER, document, event::Event, limits};
use crate::id::EventId;

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.events";

/// The document that stands for many events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedEvents {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Of this document.
    pub id: EventId,
    /// Sorted by their ids, each once.
    pub events: Vec<StoredEvent>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An event as it was stored by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// When that was, by the store's clock.
    pub stored_at_ms: u64,
    /// The event, as it was.
    pub event: Event,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl MergedEvents {
    /// Merges these events, which are sorted by id.
    pub fn new(id: EventId, events: Vec<StoredEvent>) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            id,
            events,
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::MERGED_EVENTS)?;
        document::check_schema(&fields, SCHEMA)?;
        let merged: Self = document::typed(fields)?;
        if !merged.events.is_sorted_by(|a, b| a.event.id < b.event.id) {
            return Err(FormatError::malformed("events that are not sorted, or listed twice"));
        }
        Ok(merged)
    }
}

impl StoredEvent {
    /// An event and when its own object was written, by the store's clock.
    pub fn new(event: Event, stored_at_ms: u64) -> Self {
        Self { stored_at_ms, event, unknown: Unknown::new() }
    }
}
