//! `Health` tells how a browser was ended before a capture, and whether its databases were whole.

use serde::{Deserialize, Serialize};

use super::Unknown;

/// The findings about a profile at its capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Health {
    /// How the browser ended: `not_running`, `running` if it was left alone, `closed`, `terminated`, `killed`, or
    /// any other word.
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
    /// Of a hot snapshot: the databases that are recovered when somebody opens them, as after a power failure.
    /// They were recovered in a copy to be checked, and are stored as they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recovered: Vec<Recovered>,
    /// Logs of LevelDB that end in the middle of a record. LevelDB drops that record, and may append behind it, where
    /// its next reader finds damage. So a loader cuts it off before a browser opens the database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torn_logs: Vec<TornLog>,
    /// How many cookies there are, if there is a database of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookies: Option<Cookies>,
    /// The outcome of checking the profile's expectations, if it has any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// Whether the file that holds the keys of encrypted values is there.
    pub local_state: bool,
    /// Fields that this code does not know. They are written back as they were read.
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

/// A finding about one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// Below the captured directory.
    pub path: String,
    /// The fault, for people.
    pub problem: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A database that its engine recovers when it is opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recovered {
    /// Below the captured directory.
    pub path: String,
    /// The source of its recovery: `journal` or `wal` of SQLite, `log` of LevelDB, or any other word.
    pub from: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Recovered {
    /// A transaction of SQLite was not finished, and is rolled back.
    pub const JOURNAL: &str = "journal";
    /// SQLite has transactions that are not in the database's own file yet.
    pub const WAL: &str = "wal";
    /// LevelDB has writes that are in no table yet.
    pub const LOG: &str = "log";
}

/// A log whose writer died in the middle of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TornLog {
    /// Below the captured directory.
    pub path: String,
    /// The length of the file without that record.
    pub whole_bytes: u64,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How many cookies there are, by how they are encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cookies {
    /// All of them.
    pub rows: u64,
    /// Not encrypted.
    pub plain: u64,
    /// Encrypted with a key that every host has.
    pub v10: u64,
    /// Encrypted with a key of this host's: of no use anywhere else.
    pub v11: u64,
    /// Encrypted in a way that this code does not know.
    pub other: u64,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// The outcome of checking a profile's expectations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Expected {
    /// Of the expectations that were gone by.
    pub revision: u64,
    /// Expected things that are not there.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// The cookies that were there, and when each lapses. What they hold is told nowhere.
    #[serde(default)]
    pub cookies: Vec<Lapse>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Expected {
    /// The cookie that lapses first, and when, if one does so by itself.
    pub fn first_lapse(&self) -> Option<(&Lapse, u64)> {
        let dated = self.cookies.iter().filter_map(|cookie| Some((cookie, cookie.lapses_at_ms?)));
        dated.min_by_key(|(_, lapses_at_ms)| *lapses_at_ms)
    }
}

/// Something that was expected and not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// `cookie`, `origin` or `file`.
    pub kind: String,
    /// Its name in the expectations.
    pub name: String,
    /// The finding in its place, for people.
    pub why: String,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// When a cookie lapses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lapse {
    /// The site of the cookie.
    pub host: String,
    /// The cookie's own name.
    pub name: String,
    /// `None` if it goes with the browser's session.
    pub lapses_at_ms: Option<u64>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}
