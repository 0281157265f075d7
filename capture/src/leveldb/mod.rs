//! `leveldb` checks LevelDB directories, by reading their files as LevelDB would open them.
//!
//! It recovers, locks and writes nothing. It accepts what LevelDB accepts, with one exception: a missing log, which
//! LevelDB would silently ignore.

mod block;
mod check;
mod decode;
mod keys;
mod log;
mod names;
mod table;
mod version;

#[cfg(test)]
pub(crate) mod writer;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use check::{check, check_logs};
pub use keys::{KeyWrite, keys};
pub(crate) use names::{CURRENT, is_file_name, is_leveldb, is_log_name};

use crate::db_state::{DbState, path_as_text};

/// The findings in one LevelDB directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Of the directory, below the one examined.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    #[serde(flatten)]
    pub state: DbState,
    pub notes: Notes,
    /// Of the files that were read.
    pub bytes: u64,
}

/// A remark about a LevelDB that is no damage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Notes {
    /// The newest log and the MANIFEST, if one of them ends in the middle of a record.
    pub torn: Vec<TornLog>,
    pub comparator: Option<String>,
    pub tables: u64,
    pub logs: u64,
}

/// A log whose writer died in the middle of a record. LevelDB drops that record, and may append to the file behind it: the
/// next reader finds damage there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TornLog {
    /// Of the file, in the directory of its database.
    pub name: String,
    /// The length of the file without the torn record.
    pub whole_bytes: u64,
    /// The length of the file with it.
    pub bytes: u64,
}

impl Notes {
    /// More logs than these are never torn: an older one is damaged then.
    pub(crate) const MOST_TORN: usize = 2;
}
