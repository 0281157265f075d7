//! `edit` changes a copy of a database; the caller puts it in the place of the original.

use std::{
    fs::{self, File},
    path::Path,
};

use rusqlite::Connection;

use super::{
    Means,
    check::{before_opening, examine, told},
    connection::{self, meaning},
    copy::{Copy, copy},
};
use crate::{
    db_state::DbState,
    profile_dir::{ProfileDir, with_suffix},
};

/// Lets `change` change a copy of the whole database at `path`, which becomes the file `to` if it did. How many rows
/// were changed, or why the database is left as it is.
pub(crate) fn edit(
    dir: &ProfileDir,
    path: &Path,
    to: &Path,
    means: Means<'_>,
    change: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
) -> Result<usize, String> {
    let failed = |error: rusqlite::Error| reason(told(meaning(&error), path));
    let made = Copy::make(dir, path, means.scratch, means.deadline).map_err(|error| error.to_string())?;
    let Some(made) = made.filter(|made| made.bytes > 0) else { return Ok(0) };
    // A file can be replaced at once. A file and its journal cannot.
    if made.hot_journal || made.wal {
        return Err("a transaction was not finished".to_owned());
    }
    require_ok(before_opening(&made).unwrap_or(DbState::Ok))?;
    let connection = connection::open(&made.path(), means.deadline).map_err(failed)?;
    require_ok(examine(&connection, means).unwrap_or_else(|meaning| told(meaning, path)))?;
    let changed = change(&connection).map_err(failed)?;
    // What a write-ahead log holds would stay behind.
    let busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    connection.close().map_err(|(_, error)| failed(error))?;
    if busy != 0 || fs::metadata(with_suffix(&made.path(), "-wal")).is_ok_and(|log| log.len() > 0) {
        return Err("its write-ahead log cannot be ended".to_owned());
    }
    if changed > 0 {
        let copied = File::open(made.path()).and_then(|from| copy(&from, to, means.deadline));
        copied.map_err(|error| error.to_string())?;
    }
    Ok(changed)
}

fn require_ok(state: DbState) -> Result<(), String> {
    if state == DbState::Ok { Ok(()) } else { Err(reason(state)) }
}

fn reason(state: DbState) -> String {
    match state {
        DbState::Ok => "nothing is wrong with it".to_owned(),
        DbState::Damaged(problems) => format!("it is damaged: {}", problems.join("; ")),
        DbState::Unchecked(reason) => reason,
    }
}
