//! The program as a user runs it: arguments in, text, JSON and exit codes out.

#![allow(clippy::unwrap_used)]

mod config;
mod desk;
mod diff;
mod generated;
mod help;
mod history;
mod json;
mod local;
mod refusals;
