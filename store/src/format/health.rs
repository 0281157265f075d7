//! How a browser was ended before a capture, and whether its databases were whole.

use serde::{Deserialize, Serialize};

use super::Unknown;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// How the browser ended: `not_running`, `closed`, `terminated`, `killed`, or any other word.
    pub ended: String,
    /// How long that took.
    pub stop_ms: u64,
    /// How thoroughly databases were checked: `quick`, `full` or `none`. Also `none` if one that has
    /// not changed since was never looked at.
    pub depth: String,
    /// Databases that were checked at this capture: those that had changed.
    pub checked: u64,
    /// Databases that are damaged, also those that were so before and have not changed.
    #[serde(default)]
    pub damaged: Vec<Finding>,
    /// Databases that could not be checked, with the reason.
    #[serde(default)]
    pub unchecked: Vec<Finding>,
    /// Databases whose journal was still needed, and was captured with them.
    #[serde(default)]
    pub hot_journals: Vec<String>,
    /// How many cookies there are, if there is a database of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// Whether the file that holds the keys of encrypted values is there.
    pub local_state: bool,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Health {
    /// The word for databases at which nobody has looked.
    pub const UNEXAMINED: &str = "none";

    /// Whether every database was looked at, now or when it had changed last. Those that could not
    /// be checked are listed.
    pub fn is_verdict(&self) -> bool {
        self.depth != Self::UNEXAMINED
    }
}

/// What was found about one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Below the captured directory.
    pub path: String,
    pub problem: String,
    #[serde(flatten)]
    pub unknown: Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cookies {
    pub rows: u64,
    /// Not encrypted.
    pub plain: u64,
    /// Encrypted with a key that every host has.
    pub v10: u64,
    /// Encrypted with a key of this host's: of no use anywhere else.
    pub v11: u64,
    pub other: u64,
    #[serde(flatten)]
    pub unknown: Unknown,
}
