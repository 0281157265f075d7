//! A snapshot as a writable file system.
//!
//! ```text
//! kernel ──> adapter ──> fs ──> overlay (names, attributes, changed bytes: this host's disk)
//!                         └───> lower   (the snapshot's chunks, fetched when they are read)
//! commit: what the overlay holds becomes the next snapshot, and the overlay is empty again
//! ```
//!
//! `fs` speaks of files and names and knows no kernel; `adapter` only translates.

pub mod adapter;
pub mod attributes;
pub mod commit;
pub mod fs;
pub mod lower;
pub mod mount;
pub mod overlay;

/// What the file system answers when it cannot do what was asked.
pub use rustix::io::Errno;

pub type Result<T, E = Errno> = std::result::Result<T, E>;
