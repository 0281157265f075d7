//! `check` lets SQLite check the copy of a database, and interprets its answer.

use std::{io, path::Path};

use rusqlite::Connection;

use super::{
    Checked, Depth, Means,
    connection::{self, Meaning, meaning},
    copy::Copy,
    header::{Header, Identity},
};
use crate::{
    db_state::{DbState, MAX_PROBLEMS},
    profile_dir::ProfileDir,
};

/// SQLite marks every page in memory, a bit each: 32 MiB for so many.
const MAX_PAGES: u64 = 1 << 28;

/// Where not all tables can be checked at once, so many are one by one.
const MAX_TABLES: usize = 1000;

/// Chrome's own, which are never encrypted as files.
const CHROME_NAMES: [&str; 9] = [
    "Cookies",
    "History",
    "Web Data",
    "Login Data",
    "Favicons",
    "Top Sites",
    "Shortcuts",
    "Network Action Predictor",
    "QuotaManager",
];

/// Checks the database at `path` on a copy, on which `then` may look at it further.
pub fn check<T>(
    dir: &ProfileDir,
    path: &Path,
    means: Means<'_>,
    then: impl FnOnce(&Connection) -> Option<T>,
) -> (Checked, Option<T>) {
    let checked = |state, copy: Option<&Copy>| Checked {
        path: path.to_owned(),
        state,
        hot_journal: copy.is_some_and(|copy| copy.hot_journal),
        wal: copy.is_some_and(|copy| copy.wal),
        bytes: copy.map_or(0, |copy| copy.bytes),
    };
    if means.deadline.passed() {
        return (checked(DbState::out_of_time(), None), None);
    }
    let copy = match Copy::make(dir, path, means.scratch, means.deadline) {
        Ok(Some(copy)) => copy,
        Ok(None) => return (checked(DbState::unchecked("the file is gone"), None), None),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            return (checked(DbState::out_of_time(), None), None);
        }
        Err(error) => {
            return (checked(DbState::unchecked(format!("it cannot be copied: {error}")), None), None);
        }
    };
    if let Some(state) = before_opening(&copy) {
        return (checked(state, Some(&copy)), None);
    }
    let connection = match connection::open(&copy.path(), means.deadline) {
        Ok(connection) => connection,
        Err(error) => {
            let state = with_size(told(meaning(&error), path), &copy);
            return (checked(state, Some(&copy)), None);
        }
    };
    let state = match examine(&connection, means) {
        Ok(state) => state,
        Err(meaning) => told(meaning, path),
    };
    let further = then(&connection);
    (checked(with_size(state, &copy), Some(&copy)), further)
}

/// The verdict that can, and must, be given without SQLite.
pub(super) fn before_opening(copy: &Copy) -> Option<DbState> {
    if copy.raced {
        return Some(DbState::unchecked("it changed while it was copied"));
    }
    if copy.names_another {
        // SQLite would open the file that is named, which may be any, and remove it.
        return Some(DbState::unchecked("its journal is part of a transaction over several databases"));
    }
    match copy.identity {
        Identity::Broken(why) if !copy.hot_journal => Some(DbState::damaged(why)),
        Identity::Database(Header { newer: true, .. }) => {
            Some(DbState::unchecked("it is in a newer version of the format"))
        }
        Identity::Database(Header { page_bytes, .. })
            if copy.database_bytes / u64::from(page_bytes) > MAX_PAGES =>
        {
            Some(DbState::unchecked("it has too many pages"))
        }
        _ => None,
    }
}

pub(super) fn examine(connection: &Connection, means: Means<'_>) -> Result<DbState, Meaning> {
    let error = match problems(connection, means.depth, None) {
        Ok(problems) => return Ok(verdict(problems)),
        Err(Meaning::Unchecked(reason)) => reason,
        Err(meaning) => return Err(meaning),
    };
    // One thing that is not known here must not hide damage elsewhere.
    for table in tables(connection)? {
        if means.deadline.passed() {
            return Err(Meaning::OutOfTime);
        }
        match problems(connection, means.depth, Some(&table)).map(verdict) {
            Ok(DbState::Damaged(problems)) => return Ok(DbState::Damaged(problems)),
            Ok(_) | Err(Meaning::Unchecked(_)) => {}
            Err(meaning) => return Err(meaning),
        }
    }
    Ok(DbState::unchecked(format!("not all of it can be checked: {error}")))
}

/// SQLite's findings, in all tables or in one.
fn problems(connection: &Connection, depth: Depth, table: Option<&str>) -> Result<Vec<String>, Meaning> {
    let pragma = match depth {
        Depth::Quick => "quick_check",
        Depth::Full => "integrity_check",
    };
    let argument = match table {
        Some(table) => format!("\"{}\"", table.replace('"', "\"\"")),
        None => MAX_PROBLEMS.to_string(),
    };
    let run = || -> rusqlite::Result<Vec<String>> {
        let mut statement = connection.prepare(&format!("PRAGMA {pragma}({argument})"))?;
        let mut rows = statement.query([])?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let bytes = row.get_ref(0)?.as_bytes_or_null()?.unwrap_or_default();
            // Several findings may come as one row, the last with no end of line.
            let text = String::from_utf8_lossy(bytes);
            let lines =
                text.lines().filter(|line| !line.is_empty() && *line != "ok" && !line.starts_with("***"));
            found.extend(lines.take(MAX_PROBLEMS - found.len().min(MAX_PROBLEMS)).map(str::to_owned));
        }
        Ok(found)
    };
    run().map_err(|error| meaning(&error))
}

/// A module of SQLite that could not look at its own tables is not one that found damage.
fn verdict(problems: Vec<String>) -> DbState {
    let (unable, damage): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.starts_with("unable to validate"));
    match (damage.is_empty(), unable.into_iter().next()) {
        (true, Some(reason)) => DbState::unchecked(reason),
        _ => DbState::of_problems(damage),
    }
}

fn tables(connection: &Connection) -> Result<Vec<String>, Meaning> {
    let run = || -> rusqlite::Result<Vec<String>> {
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' LIMIT ?1")?;
        // A name that is no text is that of no table that could be asked for.
        let names = statement.query_map([MAX_TABLES as i64], |row| row.get::<_, String>(0))?;
        Ok(names.filter_map(Result::ok).collect())
    };
    run().map_err(|error| meaning(&error))
}

pub(super) fn told(meaning: Meaning, path: &Path) -> DbState {
    match meaning {
        Meaning::Damaged(problem) => DbState::damaged(problem),
        Meaning::OutOfTime => DbState::out_of_time(),
        Meaning::OutOfMemory => DbState::out_of_memory(),
        Meaning::Unchecked(reason) => DbState::unchecked(reason),
        Meaning::NotADatabase
            if path.file_name().is_some_and(|name| CHROME_NAMES.iter().any(|known| name == *known)) =>
        {
            DbState::damaged("it does not begin as a database does")
        }
        Meaning::NotADatabase => DbState::unchecked(
            "it has a journal and does not begin as a database does: encrypted, or damaged",
        ),
    }
}

/// Adds to damage that a file is too short, which SQLite does not put in words.
fn with_size(state: DbState, copy: &Copy) -> DbState {
    let (DbState::Damaged(mut problems), Identity::Database(header)) = (state.clone(), copy.identity) else {
        return state;
    };
    let Some(pages) = header.pages.filter(|_| !copy.hot_journal && !copy.wal) else { return state };
    let expected = u64::from(pages) * u64::from(header.page_bytes);
    if copy.database_bytes < expected {
        problems.insert(0, format!("it is {} bytes instead of {expected}", copy.database_bytes));
    }
    DbState::of_problems(problems)
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
