//! `engine` carries out what pstore can do, for every front end: the command line and the HTTP server.
//!
//! A front end makes a request and gives it to [`Engine`]. The engine reads the settings, opens the store, does the
//! work and returns a typed outcome, or a [`failure::Failure`] that says what to do next. While it works it reports
//! to an [`observer::Observer`]. It never prints and never ends the process.

#![warn(missing_docs)]

pub mod archives;
mod authorities;
pub mod captures;
pub mod contents;
pub mod copies;
pub mod each_tenant;
pub mod expectation;
pub mod failure;
pub mod foreign;
pub mod host;
pub mod interrupt;
pub mod loads;
pub mod location;
pub mod metrics;
pub mod mount;
pub mod names;
pub mod observer;
pub mod outcome;
pub mod overview;
pub mod schemas;
pub mod settings;
pub mod text;
pub mod verbs;
pub mod workspace;

mod engine;
mod lineages;
#[cfg(test)]
mod observer_tests;
#[cfg(test)]
mod serving_tests;
mod tenants;

/// Boxes the future of an `async fn` that other crates await. Without it each of those crates compiles the whole
/// function, and all that it awaits, once more: the program holds it several times and takes longer to build.
pub(crate) use async_recursion::async_recursion as boxed;
pub use engine::{Engine, LOCK_TOKEN, threads};
pub use lineages::{taking_in, unfound};
