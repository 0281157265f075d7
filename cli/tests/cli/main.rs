//! These tests run the program as a user does: arguments in, text, JSON and exit codes out.

#![allow(clippy::unwrap_used)]

mod browse;
mod chrome;
mod clock;
mod config;
mod container_documents;
mod contract;
mod daemon;
mod delete;
mod diff;
mod documents;
mod expect;
mod export;
mod foreign_text;
mod gc;
mod generated;
mod help;
mod history;
mod hold;
mod hostile_text;
mod json;
mod load;
mod local;
mod lock;
mod log;
mod names;
mod offboard;
mod operators;
mod quota;
mod refusals;
mod repair;
mod retention;
mod schema;
mod test_host;
mod token;
mod under_lock;
mod verify;
