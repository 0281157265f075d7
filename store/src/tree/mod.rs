//! Trees on disk: walking, reading and writing directories without ever leaving them.

pub mod beneath;
pub mod read;
pub mod remove;
pub mod stat_cache;
pub mod trust;
pub mod walk;
pub mod write;
