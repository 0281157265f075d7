//! `Mark` marks a damaged snapshot, and lists its damage.
//!
//! A check that could not repair damage leaves it in the record, for readers
//! of the snapshot, and for writers, which refer to nothing that it names.

use serde::{Deserialize, Serialize};

use super::Unknown;
use crate::id::PackId;

/// The damage that a check has found in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mark {
    /// When the check found it.
    pub found_at_ms: u64,
    /// How many files cannot be read as they were.
    pub files: u64,
    /// The packs in which something is lost.
    pub packs: Vec<MarkedPack>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A pack that a snapshot needs, and the part of it that cannot be relied on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkedPack {
    /// The pack that is gone or damaged.
    pub pack: PackId,
    /// Where the frames begin; without any it is the whole pack.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offsets: Vec<u64>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Mark {
    /// Whether both say the same, whenever they were made.
    pub fn is_like(&self, other: &Self) -> bool {
        *self == Self { found_at_ms: self.found_at_ms, ..other.clone() }
    }
}
