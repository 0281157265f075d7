//! `connection` opens the copy of a database that nobody vouches for.

use std::path::Path;

use rusqlite::{Connection, Error, ErrorCode, OpenFlags, config::DbConfig, limits::Limit};

use crate::db_state::Deadline;

/// Of pages, for one connection.
const CACHE_KIB: i64 = 2048;

/// The largest value that is ever loaded. Chrome's are below a megabyte.
const MAX_VALUE_BYTES: i32 = 64 << 20;

/// Instructions of SQLite's machine between two looks at the clock.
const OPERATIONS_PER_LOOK: i32 = 1000;

/// Opens the copy to write, because recovery writes. Nothing in its schema is trusted to
/// run: no triggers, no views, no functions that reach outside, no extensions.
pub(super) fn open(path: &Path, deadline: Deadline) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    for (setting, value) in [
        (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
        (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true),
    ] {
        connection.set_db_config(setting, value)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.progress_handler(OPERATIONS_PER_LOOK, Some(move || deadline.passed()))?;
    connection.execute_batch(&format!(
        // Constraints that only Chrome can evaluate say nothing about damage. An exclusive
        // lock spares the shared memory of a WAL.
        "PRAGMA cache_size = -{CACHE_KIB}; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY;
         PRAGMA synchronous = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA locking_mode = EXCLUSIVE;"
    ))?;
    Ok(connection)
}

/// The verdict on the database that an error of SQLite implies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Damaged(String),
    NotADatabase,
    OutOfTime,
    OutOfMemory,
    /// Something in its schema is Chrome's own (a collation, a tokenizer, a function), or
    /// the machine is at fault.
    Unchecked(String),
}

pub(super) fn meaning(error: &Error) -> Meaning {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt) => Meaning::Damaged(error.to_string()),
        Some(ErrorCode::NotADatabase) => Meaning::NotADatabase,
        Some(ErrorCode::OperationInterrupted) => Meaning::OutOfTime,
        Some(ErrorCode::OutOfMemory) => Meaning::OutOfMemory,
        _ => Meaning::Unchecked(error.to_string()),
    }
}
