//! A directory that goes with what is in it, and is its owner's alone.

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{Result, catalog::clock, error::IoContext};

/// How the names of directories start in which archives are written.
const NAME: &str = "pstore-publish-";
/// The largest archive takes hours at most.
const LEFTOVER_AGE: Duration = Duration::from_secs(86_400);

#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub fn make(parent: &Path) -> Result<Self> {
        fs::create_dir_all(parent).at("cannot make", parent)?;
        remove_leftovers(parent);
        let path = parent.join(format!("{NAME}{}", clock::new_record_id()));
        fs::DirBuilder::new().mode(0o700).create(&path).at("cannot make", &path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Removes what publishers that were killed have left: it may be as large as a profile.
fn remove_leftovers(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(NAME.as_bytes()))
    {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        if modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > LEFTOVER_AGE)) {
            // Nothing can be done about one that stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing can be done about one that stays.
        let _ = fs::remove_dir_all(&self.0);
    }
}
