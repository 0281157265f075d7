//! `project` saves the state of a project, lists what was saved, and restores it.

pub mod containers;
pub mod copy;
pub mod delete;
pub mod digest;
pub mod file;
#[cfg(test)]
mod file_tests;
mod fixed;
pub mod gather;
pub mod hooks;
pub mod list;
pub mod metadata;
mod mounted;
pub mod note;
mod open_files;
pub mod opened;
pub mod places;
mod plan;
pub mod postgres;
pub mod postgres_client;
mod postgres_restore;
mod processes;
pub mod program;
mod reader;
pub mod recover;
pub mod restore;
pub mod save;
pub mod service;
pub mod sqlite;
pub mod step;
pub mod store_state;
pub mod swap;
pub mod volume;

/// The file with the metadata, in the tree of a saved state.
pub const METADATA: &str = "metadata.json";
/// The folder with the files that belong to no volume.
pub const FILES: &str = "files";
/// The folder with the volumes.
pub const VOLUMES: &str = "volumes";
