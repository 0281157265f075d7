//! `workspace` takes checkpoints of the directory that an agent works in, and gives files back from them.
//!
//! A checkpoint is a snapshot in a lineage of its own kind, [`store::name::ChromeMajor::WORKSPACE`]. There are two pools:
//! a ring of automatic checkpoints, of which the oldest makes room for the next, and those that are kept until they
//! are deleted. Slots are numbered through both. `session.db` tells what happened to every file between them.
//!
//! Every request works whether a watcher runs or not: one lock on the workspace's own files keeps them apart.

mod compare;
mod folder;
mod fork;
mod ignore_files;
mod life;
mod lines;
mod linked_names;
mod method;
mod missed;
mod mount_events;
pub mod outcome;
mod place;
mod queries;
pub mod request;
mod revert;
mod session_db;
pub(crate) mod slots;
mod store_silence;
mod take;
pub(crate) mod wanted;
mod watcher;

pub use self::{outcome::*, request::*, watcher::Watching};
