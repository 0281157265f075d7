//! One database to check, and what was found in it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    change::{
        cookie_sites::{self, Sites},
        origins::{self, Storage},
    },
    cookies::{self, Count},
    expect::sought::{self, SoughtCookies, SoughtOrigins},
    inventory::Inventory,
    leveldb,
    source::Source,
    sqlite::{self, Means},
    state::{State, path_as_bytes},
};

/// Where it is, below the directory examined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Job {
    Sqlite(#[serde(with = "path_as_bytes")] PathBuf),
    LevelDb(#[serde(with = "path_as_bytes")] PathBuf),
    /// Two databases of cookies, of which one is to be told from the other, and until when a cookie
    /// that lapses is told.
    Sites(#[serde(with = "path_as_bytes")] PathBuf, u64),
    /// Two Local Storages, of which one is to be told from the other.
    Storage(#[serde(with = "path_as_bytes")] PathBuf),
    /// A database of cookies, what time it is, and the hosts and names of cookies looked for in it.
    Cookies(#[serde(with = "path_as_bytes")] PathBuf, u64, Vec<(String, String)>),
    /// A Local Storage, and the origins looked for in it.
    Origins(#[serde(with = "path_as_bytes")] PathBuf, Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Sqlite(sqlite::Checked, Option<Count>),
    LevelDb(leveldb::Checked),
    Sites(PathBuf, Sites),
    Storage(PathBuf, Storage),
    Cookies(PathBuf, SoughtCookies),
    Origins(PathBuf, SoughtOrigins),
}

impl Job {
    pub(crate) fn all(inventory: &Inventory) -> Vec<Self> {
        let sqlite = inventory.sqlite.iter().cloned().map(Self::Sqlite);
        sqlite.chain(inventory.leveldb.iter().cloned().map(Self::LevelDb)).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Sqlite(path)
            | Self::LevelDb(path)
            | Self::Sites(path, _)
            | Self::Storage(path)
            | Self::Cookies(path, ..)
            | Self::Origins(path, _) => path,
        }
    }

    pub(crate) fn check(&self, source: &Source, means: Means<'_>) -> Found {
        match self {
            Self::Sqlite(path) => {
                let (checked, count) = sqlite::check(source, path, means, cookies::count);
                Found::Sqlite(checked, count)
            }
            Self::LevelDb(path) => Found::LevelDb(leveldb::check(source, path, means.deadline)),
            Self::Sites(path, soon_ms) => {
                Found::Sites(path.clone(), cookie_sites::check(source, path, *soon_ms, means))
            }
            Self::Storage(path) => Found::Storage(path.clone(), origins::check(source, path, means.deadline)),
            Self::Cookies(path, now_ms, names) => {
                Found::Cookies(path.clone(), sought::cookies(source, path, (*now_ms, names), means))
            }
            Self::Origins(path, names) => {
                Found::Origins(path.clone(), sought::origins(source, path, names, means.deadline))
            }
        }
    }

    /// What is said of one that nobody has looked at.
    pub(crate) fn unseen(&self, state: State) -> Found {
        let path = self.path().to_owned();
        match self {
            Self::Sqlite(_) => {
                Found::Sqlite(sqlite::Checked { path, state, hot_journal: false, wal: false, bytes: 0 }, None)
            }
            Self::LevelDb(_) => {
                Found::LevelDb(leveldb::Checked { path, state, notes: leveldb::Notes::default(), bytes: 0 })
            }
            Self::Sites(..) => Found::Sites(path, Sites::unread(&why(state))),
            Self::Storage(_) => Found::Storage(path, Storage::unread(&why(state))),
            Self::Cookies(.., names) => Found::Cookies(path, SoughtCookies::unread(names.len(), &why(state))),
            Self::Origins(_, names) => Found::Origins(path, SoughtOrigins::unread(names.len(), &why(state))),
        }
    }
}

/// Why one could not be read.
fn why(state: State) -> String {
    match state {
        State::Ok => "nobody has looked at it".to_owned(),
        State::Damaged(problems) => problems.join("; "),
        State::Unchecked(reason) => reason,
    }
}
