//! Trees on disk: walking, reading and writing directories without ever leaving them.

pub mod read;
pub mod remove;
pub mod root_dir;
pub mod stat_cache;
pub mod stat_trust;
pub mod walk;
pub mod write;
