//! These tests mount profiles: files, sessions, commits, and commands that run on them.

#![allow(clippy::unwrap_used)]

mod autosave;
mod by_need;
mod files;
mod hot;
mod interrupted;
mod moment;
mod mount;
mod overlay;
mod posix;
mod power;
mod revoked;
mod run;
mod session_cookies;
mod sessions;
mod sqlite;
mod writeback;
mod writes;
