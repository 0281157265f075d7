//! These tests take checkpoints of directories in which others work, and give files back from them.

#![allow(clippy::unwrap_used)]

mod checkpoints;
mod fixture;
mod hostile;
mod ignore_files;
mod model;
mod mounted;
mod refusals;
mod watcher;
