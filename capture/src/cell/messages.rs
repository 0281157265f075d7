//! `messages` defines the messages between pstore and a cell: one order, then a line of JSON for each answer.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{confinement::Confinement, limits::Limits};
use crate::{
    change::{cookie_sites::Sites, origins::Storage},
    check_job::{CheckJob, CheckResult},
    cookies::Count,
    db_state::{DbState, brief, path_as_bytes},
    expect::search::{SoughtCookies, SoughtOrigins},
    leveldb::{self, Notes, is_log_name},
    session_cookies::lasting::ChangedCookies,
    sqlite::{self, Depth},
};

/// No answer is longer: twenty problems of 240 characters, each escaped, take 30 kB.
pub(super) const MAX_ANSWER_BYTES: u64 = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Read, and never changed.
    #[serde(with = "path_as_bytes")]
    pub root: PathBuf,
    /// For copies.
    #[serde(with = "path_as_bytes")]
    pub scratch: PathBuf,
    pub depth: Depth,
    /// How many databases are checked at a time.
    pub threads: usize,
    /// How long that may take.
    pub time_ms: Option<u64>,
    pub limits: Limits,
    pub jobs: Vec<CheckJob>,
}

/// Jobs are told by their place in the order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// It is confined, and begins.
    Ready(Confinement),
    Began(usize),
    Sqlite(usize, SqliteFound),
    LevelDb(usize, LevelDbFound),
    Sites(usize, Sites),
    Storage(usize, Storage),
    Cookies(usize, SoughtCookies),
    Origins(usize, SoughtOrigins),
    SessionCookies(usize, ChangedCookies),
    /// One of those that were begun needs more memory than there is for all of them.
    OutOfMemory,
    /// It cannot begin, and why.
    Failed(String),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SqliteFound {
    state: DbState,
    hot_journal: bool,
    wal: bool,
    bytes: u64,
    cookies: Option<Count>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelDbFound {
    state: DbState,
    notes: Notes,
    bytes: u64,
}

impl Answer {
    pub(super) fn found(job: usize, found: CheckResult) -> Self {
        match found {
            CheckResult::Sites(_, sites) => Self::Sites(job, sites),
            CheckResult::Storage(_, storage) => Self::Storage(job, storage),
            CheckResult::Cookies(_, cookies) => Self::Cookies(job, cookies),
            CheckResult::Origins(_, origins) => Self::Origins(job, origins),
            CheckResult::SessionCookies(_, changed) => Self::SessionCookies(job, changed),
            CheckResult::Sqlite(checked, cookies) => {
                let sqlite::Checked { path: _, state, hot_journal, wal, bytes } = checked;
                Self::Sqlite(job, SqliteFound { state, hot_journal, wal, bytes, cookies })
            }
            CheckResult::LevelDb(leveldb::Checked { path: _, state, notes, bytes }) => {
                Self::LevelDb(job, LevelDbFound { state, notes: told(notes), bytes })
            }
        }
    }
}

impl SqliteFound {
    /// `None` if it makes no sense.
    pub(super) fn of(self, path: PathBuf) -> Option<CheckResult> {
        let Self { state, hot_journal, wal, bytes, cookies } = self;
        Some(CheckResult::Sqlite(
            sqlite::Checked { path, state: state.told()?, hot_journal, wal, bytes },
            cookies,
        ))
    }
}

impl LevelDbFound {
    /// `None` if it makes no sense.
    pub(super) fn of(self, path: PathBuf) -> Option<CheckResult> {
        let Self { state, notes, bytes } = self;
        if notes.torn.len() > Notes::MOST_TORN || !notes.torn.iter().all(|log| is_log_name(log.name.as_ref()))
        {
            return None;
        }
        Some(CheckResult::LevelDb(leveldb::Checked { path, state: state.told()?, notes: told(notes), bytes }))
    }
}

/// A MANIFEST may hold any comparator's name.
fn told(notes: Notes) -> Notes {
    Notes { comparator: notes.comparator.as_deref().map(brief), ..notes }
}
