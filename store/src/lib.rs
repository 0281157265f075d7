//! Snapshots of directory trees as deduplicated, verified chunks in a bucket.
//!
//! The layers, each knowing only those to its right:
//!
//! ```text
//! ops ──> catalog ──> content ──> format, bucket ──> id, error
//! ops ──> tree ─────────────────> format
//! ```
//!
//! The library never talks to a person: no terminal, no environment, no exit.
//! Progress leaves through [`progress::Progress`].

pub mod bucket;
