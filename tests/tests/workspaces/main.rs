//! These tests take checkpoints of directories in which others work, and give files back from them.

#![allow(clippy::unwrap_used)]

mod checkpoints;
mod fixture;
mod hostile;
mod model;
mod refusals;
mod watcher;
