//! `capture` ends the browser on a profile, and checks that the profile is whole.
//!
//! [`chrome`] knows the browser: it finds the processes on a directory, ends them without loss, and reads the
//! profile's own files. [`sqlite`] and [`leveldb`] know its databases: they recognise them by content, not by name,
//! and check them without changing a byte. [`cell`] is the process in which that happens.

pub mod archive_inspector;
pub mod cell;
pub mod change;
mod check_job;
pub mod chrome;
pub mod cookies;
pub mod db_state;
pub mod examination;
mod examined_files;
pub mod examiner;
pub mod expect;
pub mod inventory;
pub mod leveldb;
mod listed_files;
pub mod load;
pub mod marker;
pub mod profile_dir;
pub mod session_cookies;
pub mod sqlite;

/// The contract's note on a snapshot whose browser had crashed.
pub const CRASHED: &str = "chrome-crashed-before-capture";
