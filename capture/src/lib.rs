//! `capture` ends the browser on a profile, and checks that the profile is whole.
//!
//! [`chrome`] knows the browser: which processes use a directory, how to end them without
//! losing anything, what the profile says about itself. [`sqlite`] and [`leveldb`] know its
//! databases: they are found by what they are, not by their names, and checked without
//! changing a byte of them. [`cell`] is the process in which that happens.

pub mod archive_inspector;
pub mod cell;
pub mod change;
mod check_job;
pub mod chrome;
pub mod cookies;
pub mod db_state;
pub mod examination;
pub mod examiner;
pub mod expect;
pub mod inventory;
pub mod leveldb;
pub mod load;
pub mod marker;
mod needed;
pub mod profile_dir;
pub mod sqlite;

/// What the contract puts into the notes of a snapshot whose browser had crashed.
pub const CRASHED: &str = "chrome-crashed-before-capture";
