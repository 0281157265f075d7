//! `fuse` mounts a snapshot as a writable file system.
//!
//! ```text
//! kernel ──> adapter ──> fs ──> overlay (names, attributes, changed bytes: this host's disk)
//!                         └───> lower   (the snapshot's chunks, fetched when they are read)
//! freeze: the tree that a commit stores; mount/commit: stores it as the next snapshot
//! ```
//!
//! `fs` speaks of files and names and knows no kernel; `adapter` only translates.

pub mod adapter;
pub mod attributes;
pub mod freeze;
pub mod fs;
pub mod lower;
pub mod mount;
pub mod overlay;

/// What the file system answers when it cannot do what was asked.
pub use rustix::io::Errno;

pub type Result<T, E = Errno> = std::result::Result<T, E>;
