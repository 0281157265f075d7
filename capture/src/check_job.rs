//! `CheckJob` is one database to check, and `CheckResult` holds the findings.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    change::{
        cookie_sites::{self, Sites},
        origins::{self, Storage},
    },
    cookies::{self, Count},
    db_state::{DbState, path_as_bytes},
    expect::search::{self, SoughtCookies, SoughtOrigins},
    inventory::Inventory,
    leveldb,
    profile_dir::ProfileDir,
    session_cookies::lasting::{self, ChangedCookies, Lasting},
    sqlite::{self, Means},
};

/// Where it is, below the directory examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckJob {
    Sqlite(#[serde(with = "path_as_bytes")] PathBuf),
    LevelDb(#[serde(with = "path_as_bytes")] PathBuf),
    /// The same without its tables.
    LevelDbLogs(#[serde(with = "path_as_bytes")] PathBuf),
    /// Two databases of cookies, of which one is to be told from the other, and until when a cookie
    /// that lapses is told.
    Sites(#[serde(with = "path_as_bytes")] PathBuf, u64),
    /// Two Local Storages, of which one is to be told from the other.
    Storage(#[serde(with = "path_as_bytes")] PathBuf),
    /// A database of cookies, the present time, and the hosts and names of cookies looked for in it.
    Cookies(#[serde(with = "path_as_bytes")] PathBuf, u64, Vec<(String, String)>),
    /// A Local Storage, and the origins looked for in it.
    Origins(#[serde(with = "path_as_bytes")] PathBuf, Vec<String>),
    /// A database of cookies, of which a copy is changed, in which session cookies lapse then.
    SessionCookies(#[serde(with = "path_as_bytes")] PathBuf, Lasting),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
    Sqlite(sqlite::Checked, Option<Count>),
    LevelDb(leveldb::Checked),
    Sites(PathBuf, Sites),
    Storage(PathBuf, Storage),
    Cookies(PathBuf, SoughtCookies),
    Origins(PathBuf, SoughtOrigins),
    SessionCookies(PathBuf, ChangedCookies),
}

impl CheckJob {
    pub(crate) fn all(inventory: &Inventory) -> Vec<Self> {
        let sqlite = inventory.sqlite.iter().cloned().map(Self::Sqlite);
        sqlite.chain(inventory.leveldb.iter().cloned().map(Self::LevelDb)).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Sqlite(path)
            | Self::LevelDb(path)
            | Self::LevelDbLogs(path)
            | Self::Sites(path, _)
            | Self::Storage(path)
            | Self::Cookies(path, ..)
            | Self::Origins(path, _)
            | Self::SessionCookies(path, _) => path,
        }
    }

    /// The name of the file that it leaves in the scratch directory, if it has changed something.
    pub(crate) fn leaves(&self) -> Option<&str> {
        match self {
            Self::SessionCookies(_, lasting) => Some(&lasting.name),
            _ => None,
        }
    }

    pub(crate) fn check(&self, dir: &ProfileDir, means: Means<'_>) -> CheckResult {
        match self {
            Self::Sqlite(path) => {
                let (checked, count) = sqlite::check(dir, path, means, cookies::count);
                CheckResult::Sqlite(checked, count)
            }
            Self::LevelDb(path) => CheckResult::LevelDb(leveldb::check(dir, path, means.deadline)),
            Self::LevelDbLogs(path) => CheckResult::LevelDb(leveldb::check_logs(dir, path, means.deadline)),
            Self::Sites(path, soon_ms) => {
                CheckResult::Sites(path.clone(), cookie_sites::check(dir, path, *soon_ms, means))
            }
            Self::Storage(path) => {
                CheckResult::Storage(path.clone(), origins::check(dir, path, means.deadline))
            }
            Self::Cookies(path, now_ms, names) => {
                CheckResult::Cookies(path.clone(), search::cookies(dir, path, (*now_ms, names), means))
            }
            Self::Origins(path, names) => {
                CheckResult::Origins(path.clone(), search::origins(dir, path, names, means.deadline))
            }
            Self::SessionCookies(path, until) => {
                CheckResult::SessionCookies(path.clone(), lasting::change(dir, path, until, means))
            }
        }
    }

    /// The verdict on a database that was not examined.
    pub(crate) fn unseen(&self, state: DbState) -> CheckResult {
        let path = self.path().to_owned();
        match self {
            Self::Sqlite(_) => CheckResult::Sqlite(
                sqlite::Checked { path, state, hot_journal: false, wal: false, bytes: 0 },
                None,
            ),
            Self::LevelDb(_) | Self::LevelDbLogs(_) => CheckResult::LevelDb(leveldb::Checked {
                path,
                state,
                notes: leveldb::Notes::default(),
                bytes: 0,
            }),
            Self::Sites(..) => CheckResult::Sites(path, Sites::unread(&why(state))),
            Self::Storage(_) => CheckResult::Storage(path, Storage::unread(&why(state))),
            Self::Cookies(.., names) => {
                CheckResult::Cookies(path, SoughtCookies::unread(names.len(), &why(state)))
            }
            Self::Origins(_, names) => {
                CheckResult::Origins(path, SoughtOrigins::unread(names.len(), &why(state)))
            }
            Self::SessionCookies(..) => {
                CheckResult::SessionCookies(path, ChangedCookies::unread(&why(state)))
            }
        }
    }
}

/// Why one could not be read.
fn why(state: DbState) -> String {
    match state {
        DbState::Ok => "nobody has looked at it".to_owned(),
        DbState::Damaged(problems) => problems.join("; "),
        DbState::Unchecked(reason) => reason,
    }
}
