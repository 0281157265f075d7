//! A directory of our own to mount on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fuse::mount::{clean_up, is_stale};
use store::ErrorKind;

use super::super::Context;
use crate::failure::Failure;

const PREFIX: &str = "pstore-run-";
const PROFILE: &str = "profile";

/// A directory for a profile that is used for a while.
pub(in crate::verbs) fn temporary() -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(|error| {
        Failure::new(ErrorKind::Io, format!("no directory can be made for the profile: {error}"))
    })
}

/// An empty directory to mount on. Whatever happens, nothing below it is ever removed: that
/// could be the profile.
pub(in crate::verbs) struct Mountpoint {
    folder: PathBuf,
    path: PathBuf,
}

impl Mountpoint {
    pub(in crate::verbs) fn make() -> Result<Self, Failure> {
        let folder = temporary()?.keep();
        let path = folder.join(PROFILE);
        fs::create_dir(&path).map_err(|error| {
            Failure::new(ErrorKind::Io, format!("{} cannot be made: {error}", path.display()))
        })?;
        Ok(Self { folder, path })
    }

    /// Takes away what a process that was killed has left in the way this makes them.
    pub(in crate::verbs) fn sweep() {
        let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
        let ours = entries
            .flatten()
            .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
        for folder in ours.map(|entry| entry.path()) {
            let path = folder.join(PROFILE);
            if is_stale(&path) && clean_up(&path).is_ok() {
                // Whoever else does the same may be faster.
                let _ = fs::remove_dir(&path).and_then(|()| fs::remove_dir(&folder));
            }
        }
    }

    pub(in crate::verbs) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::verbs) fn remove(self, context: &Context) {
        if let Err(error) = fs::remove_dir(&self.path).and_then(|()| fs::remove_dir(&self.folder)) {
            context.console.warn(&format!("{} could not be removed: {error}", self.folder.display()));
        }
    }
}
