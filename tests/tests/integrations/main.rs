//! These tests use pstore as its documents and examples say: the book, its commands, and programs of others.

#![allow(clippy::unwrap_used)]

mod book;
mod fleet;
mod how_to;
mod programs;
mod reference;

use std::path::{Path, PathBuf};

/// The project.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}
