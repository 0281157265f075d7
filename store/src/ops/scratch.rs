//! Directories of our own, for as long as something takes.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    Result,
    error::IoContext,
    id::{self, Nonce},
};

/// Whatever they are for takes hours at most.
const LEFTOVER_AGE: Duration = Duration::from_secs(86_400);
/// Somebody who has not noticed yet may still write to it.
const ATTEMPTS: u32 = 5;

/// Goes with what is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Made anew below `parent`, and closed to others; its name begins with `kind`, and cannot be
    /// known before. What others of that kind have left that were killed goes.
    pub fn make(parent: &Path, kind: &str) -> Result<Self> {
        fs::create_dir_all(parent).at("cannot make", parent)?;
        remove_leftovers(parent, kind);
        let path = parent.join(format!("{kind}{}", Nonce::from_bytes(id::random())));
        DirBuilder::new().mode(0o700).create(&path).at("cannot make", &path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// They may be as large as a profile.
fn remove_leftovers(parent: &Path, kind: &str) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in
        entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(kind.as_bytes()))
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
        for attempt in 1..=ATTEMPTS {
            match fs::remove_dir_all(&self.0) {
                Err(error) if error.kind() != io::ErrorKind::NotFound && attempt == ATTEMPTS => {
                    tracing::warn!(path = %self.0.display(), %error, "what was put aside could not be removed");
                }
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                _ => return,
            }
        }
    }
}
