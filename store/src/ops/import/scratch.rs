//! A directory of our own for as long as an import takes.

use std::{
    fs::{self, DirBuilder},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    error::IoContext,
    id::{self, Nonce},
};

#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Made anew, and closed to others: the name cannot be known before.
    pub fn create(below: &Path) -> Result<Self> {
        let path = below.join(format!("pstore-import-{}", Nonce::from_bytes(id::random())));
        DirBuilder::new().mode(0o700).create(&path).at("cannot make", &path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "what was put aside could not be removed");
        }
    }
}
