//! `sqlite` checks SQLite databases, on private copies.
//!
//! A journal or a `-wal` is part of its database: without it the database is torn. It copies both. SQLite recovers
//! the copy as the browser would recover the original, and so finds the same state.

mod check;
mod connection;
mod copy;
mod edit;
#[cfg(test)]
mod fixture;
pub(crate) mod header;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use check::check;
pub(crate) use copy::start;
pub(crate) use edit::edit;

use crate::db_state::{DbState, Deadline, path_as_text};

/// How thoroughly a database is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Depth {
    /// All pages and rows; not whether indexes agree with their tables.
    #[default]
    Quick,
    /// Also the indexes.
    Full,
}

/// The findings in one database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Below the directory examined.
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    #[serde(flatten)]
    pub state: DbState,
    /// Whether a transaction was not finished; the browser rolls it back.
    pub hot_journal: bool,
    /// Whether there is a `-wal` with content.
    pub wal: bool,
    /// Of the database and its journals.
    pub bytes: u64,
}

/// How to check.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    pub depth: Depth,
    pub deadline: Deadline,
    /// Where copies are made.
    pub scratch: &'a Path,
}

/// The database that a file beside it belongs to.
pub(crate) fn owner(path: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let bytes = path.as_os_str().as_bytes();
    ["-journal", "-wal", "-shm"].iter().find_map(|suffix| {
        let owner = bytes.strip_suffix(suffix.as_bytes())?;
        (!owner.is_empty() && !owner.ends_with(b"/")).then(|| std::ffi::OsStr::from_bytes(owner).into())
    })
}
