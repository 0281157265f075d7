//! Pins: what readers without a lock keep from being deleted and collected.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document};
use crate::id::RecordId;

pub const SCHEMA: &str = "pstore.pin";
pub const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    pub version: u64,
    pub minor: u64,
    pub schema: String,
    pub writer: String,
    pub record: RecordId,
    pub generation: u64,
    /// How long after its last write, by the server's clock, the pin holds.
    pub ttl_ms: u64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Pin {
    pub fn new(record: RecordId, generation: u64, ttl: Duration) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            record,
            generation,
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX),
            unknown: Unknown::new(),
        }
    }

    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, MAX_BYTES)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }
}
