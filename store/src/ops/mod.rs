//! The verbs.

pub mod find;
pub mod restore;
pub mod snapshot;
pub mod stats;
pub mod verify;
