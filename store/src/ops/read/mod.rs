//! Reads snapshots: opens, restores, browses, compares and lists them.

pub mod browse;
pub mod diff;
pub mod extract;
pub(super) mod follow;
pub mod forecast;
pub mod history;
pub mod locate;
pub mod open;
pub mod profiles;
pub mod resolve;
pub mod restore;
pub mod snapshot_files;
pub mod stats;
pub mod survey;
