//! Walks, reads and writes directories without ever leaving them.

pub(crate) mod read;
pub mod remove;
pub mod root_dir;
pub(crate) mod stat_cache;
pub mod stat_trust;
pub mod walk;
pub mod write;
