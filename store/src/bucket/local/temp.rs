//! Makes files under a temporary name, and removes those that a crash left behind.
//!
//! A writer of such a file holds its flock; a process that can lock one knows that its writer is gone.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::sharing;

/// A file of our own in `tmp/`, gone when dropped unless it was renamed.
#[derive(Debug)]
pub(super) struct Temp {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl Temp {
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        loop {
            let path = folder.join(random_name()?);
            let mut options = OpenOptions::new();
            let file = sharing::open(options.read(true).write(true).create_new(true), folder, &path)?;
            // A cleaner may come between these two calls; its victim has no name any more.
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            if locked && file.metadata()?.nlink() > 0 {
                return Ok(Self { file, path, renamed: false });
            }
        }
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file a second name; an existing name is an error.
    pub(super) fn link(&self, to: &Path) -> io::Result<()> {
        fs::hard_link(&self.path, to)
    }

    /// Gives the file another name, in place of the file that has it.
    pub(super) fn rename(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        self.renamed = true;
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.renamed {
            // What cannot be removed now is removed at the next open.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes every temporary file whose writer is gone. What is gone already, or belongs to
/// a user we may not clean up after, is passed over.
pub(super) fn clean(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let removed = match File::open(&path) {
            Ok(file) if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() => {
                tracing::debug!(path = %path.display(), "removing what a crashed writer left");
                fs::remove_file(&path)
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        match removed {
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Never used twice, so a name that was judged abandoned cannot be somebody's new file.
fn random_name() -> io::Result<String> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}
