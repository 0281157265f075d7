//! `Schedule` says when work that is due again and again was last done, and by whom.
//!
//! Servers take turns by compare-and-swap: the server that writes the next `fence` has the turn. The one that
//! had the turn before finds that when it looks, and ends.

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, limits};
use crate::id::JobId;

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.schedule";

/// `operations/schedules/<name>.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// The work that is due: the name of the key.
    pub name: String,
    /// Counts the turns.
    pub fence: u64,
    /// The server that has the turn, or had it last.
    pub server: String,
    /// When the turn began, by the store's clock; 0 before the first.
    pub begun_at_ms: u64,
    /// When it ended, by the clock of the server's host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// The job of the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The outcome of the turn: the last state of the job, `stopped`, or `not begun`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Schedule {
    /// One that had no turn yet.
    pub fn new(name: &str) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            name: name.to_owned(),
            fence: 0,
            server: String::new(),
            begun_at_ms: 0,
            ended_at_ms: None,
            job: None,
            outcome: None,
            unknown: Unknown::new(),
        }
    }

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::SCHEDULE)?;
        document::check_schema(&fields, SCHEMA)?;
        document::typed(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_read_as_it_was_written() {
        let schedule = Schedule {
            fence: 3,
            job: Some(JobId::from_parts(1, [2; 10])),
            outcome: Some("done".to_owned()),
            ..Schedule::new("reap")
        };
        assert_eq!(Schedule::decode(&schedule.encode()).unwrap(), schedule);
        Schedule::decode(b"{}").unwrap_err();
    }
}
