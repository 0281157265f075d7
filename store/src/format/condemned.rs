//! `Condemned` is the document of one collection: packs that nothing may refer to anew.

use serde::{Deserialize, Serialize};

use super::{MAJOR, MINOR, Result, Unknown, WRITER, document, limits};
use crate::id::{PackId, RecordId};

/// The value of the document's field `schema`.
pub const SCHEMA: &str = "pstore.condemned";

/// How far a collection has got. Packs stay barred in every phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Its packs are barred. Which writes it must wait for is not written down yet.
    Condemned,
    /// It waits for the writes in `blockers`, and for the grace.
    Armed,
    /// Its packs are decided upon, and are being deleted.
    Sweep,
    /// Its packs are gone.
    Swept,
}

const PHASES: [&str; 4] = ["condemned", "armed", "sweep", "swept"];

/// The document of one collection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condemned {
    /// The major version of the format it is written in.
    pub version: u64,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// How far the collection has got.
    pub phase: Phase,
    /// The packs that nothing may refer to anew.
    pub packs: Vec<PackId>,
    /// The records that were being written when it was armed.
    #[serde(default)]
    pub blockers: Vec<RecordId>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Condemned {
    /// The document as a collection first writes it.
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

    /// The bytes of the document.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// Reads the document. Refuses one that is too long, malformed, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::CONDEMNED)?;
        document::check_schema(&fields, SCHEMA)?;
        document::known_word(&fields, "phase", &PHASES)?;
        document::typed(fields)
    }
}
