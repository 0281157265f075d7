//! What one collection has condemned: packs that nothing may refer to anew.

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, limits};
use crate::id::{PackId, RecordId};

pub const SCHEMA: &str = "pstore.condemned";

/// How far a collection has got. Packs stay barred in every phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Condemned,
    Armed,
    Sweep,
    Swept,
}

const PHASES: [&str; 4] = ["condemned", "armed", "sweep", "swept"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condemned {
    pub version: u64,
    pub minor: u64,
    pub schema: String,
    pub writer: String,
    pub phase: Phase,
    pub packs: Vec<PackId>,
    /// The records that were being written when it was armed.
    #[serde(default)]
    pub blockers: Vec<RecordId>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Condemned {
    /// What a collection writes first.
    pub fn new(packs: Vec<PackId>) -> Self {
        Self {
            version: MAJOR.into(),
            minor: MINOR.into(),
            schema: SCHEMA.to_owned(),
            writer: WRITER.to_owned(),
            phase: Phase::Condemned,
            packs,
            blockers: Vec::new(),
            unknown: Unknown::new(),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::CONDEMNED)?;
        document::check_schema(&fields, SCHEMA)?;
        document::known_word(&fields, "phase", &PHASES)?;
        document::typed(fields)
    }
}
