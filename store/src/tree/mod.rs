//! Walks, reads and writes directories without ever leaving them.

pub(crate) mod codec;
pub(crate) mod read;
pub(crate) mod read_log;
pub(crate) mod records;
pub mod remove;
pub mod root_dir;
pub(crate) mod stat_cache;
pub mod stat_trust;
pub mod walk;
pub(crate) mod walk_log;
pub mod write;
mod xattrs;
