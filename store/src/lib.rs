//! Snapshots of directory trees as deduplicated, verified chunks in a bucket.
//!
//! The layers, each knowing only those to its right:
//!
//! ```text
//! ops ──> catalog ──> content ──> format, bucket ──> id, name, key, error, scratch
//! ops ──> tree ─────────────────> format
//! ops ──> archive ──────────────> format
//! ```
//!
//! The library never talks to a person: no terminal, no environment, no exit.

pub mod archive;
pub mod bucket;
pub mod catalog;
pub mod content;
pub mod error;
pub mod format;
pub mod id;
pub mod key;
pub mod name;
pub mod ops;
pub mod progress;
#[cfg(feature = "schema")]
mod schema;
pub mod scratch;
pub mod tree;

pub use error::{Error, ErrorKind, Result};
