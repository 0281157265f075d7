//! The mark of a snapshot of which something is lost.
//!
//! A check that could not make damage good leaves it in the record, for those who are about
//! to read the snapshot, and for writers, which refer to nothing that it names.

use serde::{Deserialize, Serialize};

use super::Unknown;
use crate::id::PackId;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    pub found_at_ms: u64,
    /// How many files cannot be read as they were.
    pub files: u64,
    pub packs: Vec<MarkedPack>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A pack that a snapshot needs, and what of it cannot be relied on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkedPack {
    pub pack: PackId,
    /// Where the frames begin; without any it is the whole pack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<u64>,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Mark {
    /// Whether both say the same, whenever they were made.
    pub fn is_like(&self, other: &Self) -> bool {
        *self == Self { found_at_ms: self.found_at_ms, ..other.clone() }
    }
}
