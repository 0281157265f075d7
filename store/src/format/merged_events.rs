//! Events of a lineage that a collection has put together, so that a long history is few objects.

use serde::{Deserialize, Serialize};

use super::{FormatError, MAJOR, MINOR, Result, Unknown, WRITER, document, event::Event, limits};
use crate::id::EventId;

pub const SCHEMA: &str = "pstore.events";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MergedEvents {
    pub version: u64,
    pub minor: u64,
    pub schema: String,
    pub writer: String,
    /// Of this document.
    pub id: EventId,
    /// Sorted by their ids, each once.
    pub events: Vec<StoredEvent>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An event as it was stored by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredEvent {
    /// When that was, by the store's clock.
    pub stored_at_ms: u64,
    pub event: Event,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl MergedEvents {
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

    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

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
    pub fn new(event: Event, stored_at_ms: u64) -> Self {
        Self { stored_at_ms, event, unknown: Unknown::new() }
    }
}
