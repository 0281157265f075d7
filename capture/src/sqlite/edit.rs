//! `edit` changes a copy of a database, for whoever puts it in the place of the original.

use std::{fs::File, io, path::Path};

use rusqlite::Connection;

use super::{
    Means,
    check::{before_opening, examine},
    connection,
    copy::{Copy, copy},
};
use crate::{db_state::DbState, profile_dir::ProfileDir};

/// Lets `change` change a copy of the whole database at `path`, which becomes the file `to` if it did. How many rows
/// were changed, or why the database is left as it is.
pub(crate) fn edit(
    dir: &ProfileDir,
    path: &Path,
    to: &Path,
    means: Means<'_>,
    change: impl FnOnce(&Connection) -> rusqlite::Result<usize>,
) -> Result<usize, String> {
    let made = Copy::make(dir, path, means.scratch, means.deadline).map_err(|error| error.to_string())?;
    let Some(made) = made else { return Ok(0) };
    // A file can be replaced at once. A file and its journal cannot.
    if made.hot_journal || made.wal {
        return Err("a transaction was not finished".to_owned());
    }
    require_ok(before_opening(&made).unwrap_or(DbState::Ok))?;
    let connection = connection::open(&made.path(), means.deadline).map_err(|error| error.to_string())?;
    require_ok(examine(&connection, means).map_err(|meaning| format!("{meaning:?}"))?)?;
    let changed = change(&connection).map_err(|error| error.to_string())?;
    let closed = connection.close();
    closed.map_err(|(_, error)| error.to_string())?;
    if changed > 0 {
        let copied = File::open(made.path()).and_then(|from| copy(&from, to, means.deadline));
        copied.map_err(|error: io::Error| error.to_string())?;
    }
    Ok(changed)
}

fn require_ok(state: DbState) -> Result<(), String> {
    match state {
        DbState::Ok => Ok(()),
        DbState::Damaged(problems) => Err(format!("it is damaged: {}", problems.join("; "))),
        DbState::Unchecked(reason) => Err(reason),
    }
}
