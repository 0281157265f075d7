//! `change` makes session cookies last, in a copy of their database.

use std::path::Path;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::{
    cookies::NOBODY,
    db_state::brief,
    profile_dir::ProfileDir,
    sqlite::{self, Means},
};

/// When session cookies lapse, in Chrome's count, and the name that the changed database gets in the scratch directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lasting {
    pub expires_utc: i64,
    pub name: String,
}

/// How many cookies were changed, or why none was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangedCookies {
    pub cookies: u64,
    pub problem: Option<String>,
}

impl ChangedCookies {
    pub(crate) fn unread(why: &str) -> Self {
        Self { cookies: 0, problem: Some(brief(why)) }
    }

    /// The same as somebody tells it who is not trusted.
    pub(crate) fn told(self) -> Self {
        Self { problem: self.problem.as_deref().map(brief), ..self }
    }
}

/// In the cell: changes a copy, which becomes a file of the scratch directory.
pub(crate) fn change(dir: &ProfileDir, path: &Path, lasting: &Lasting, means: Means<'_>) -> ChangedCookies {
    let to = means.scratch.join(&lasting.name);
    match sqlite::edit(dir, path, &to, means, |connection| make_lasting(connection, lasting.expires_utc)) {
        Ok(cookies) => ChangedCookies { cookies: cookies as u64, problem: None },
        Err(why) => ChangedCookies::unread(&why),
    }
}

fn make_lasting(connection: &Connection, expires_utc: i64) -> rusqlite::Result<usize> {
    connection.execute(
        "UPDATE cookies SET is_persistent = 1, has_expires = 1, expires_utc = ?1
         WHERE is_persistent = 0 AND host_key IS NOT ?2",
        rusqlite::params![expires_utc, NOBODY],
    )
}
