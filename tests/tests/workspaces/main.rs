//! These tests take checkpoints of directories in which others work, and give files back from them.

#![allow(clippy::unwrap_used)]

mod busy;
mod checkpoints;
mod fixture;
mod hostile;
mod ignore_files;
mod killed;
mod model;
mod mounted;
mod refusals;
mod reverts;
mod triggers;
mod watcher;
