//! `Mountpoint` makes a directory to mount on, and removes it.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

use fuse::mount::{clean_up, is_stale};
use store::{
    Error, ErrorKind,
    scratch::{self, Scratch},
};

use crate::{Engine, failure::Failure};

/// The directory of the profile in the directory of a run.
pub const PROFILE: &str = "profile";

/// A directory for a profile that is used for a while. It stays until it is removed: what is in
/// it may be nowhere else.
pub fn temporary() -> Result<Scratch, Failure> {
    Ok(Scratch::make(&std::env::temp_dir(), scratch::Kind::Run)?.lasting())
}

/// An empty directory to mount on. Whatever happens, nothing below it is ever removed: that
/// could be the profile.
#[derive(Debug)]
pub struct Mountpoint {
    folder: Scratch,
    path: PathBuf,
}

impl Mountpoint {
    /// Makes one that nobody else uses.
    pub fn make() -> Result<Self, Failure> {
        let folder = temporary()?;
        let path = folder.path().join(PROFILE);
        fs::create_dir(&path).map_err(|error| {
            Failure::new(ErrorKind::Io, format!("{} cannot be made: {error}", path.display()))
        })?;
        Ok(Self { folder, path })
    }

    /// Takes away the empty directories that processes that were killed have left. A mount that
    /// nobody answers for stays in sight.
    pub fn sweep() {
        for left in left() {
            // Neither can be removed with anything in it, or on it.
            let _ = fs::remove_dir(left.path().join(PROFILE));
            let _ = fs::remove_dir(left.path());
        }
    }

    /// As [`Self::sweep`], and takes away such mounts as well.
    pub fn sweep_mounts() {
        for path in left().map(|left| left.path().join(PROFILE)) {
            if is_stale(&path) {
                let _ = clean_up(&path);
            }
        }
        Self::sweep();
    }

    /// Lets the members of a group reach what is mounted there.
    pub fn open_to(&self, gid: u32) -> Result<(), Failure> {
        open_to(&self.folder, gid)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, if nothing is in it.
    pub fn remove(self, engine: &Engine) {
        if let Err(error) = fs::remove_dir(&self.path).and_then(|()| fs::remove_dir(self.folder.path())) {
            engine.warn(&format!("{} could not be removed: {error}", self.folder.path().display()));
        }
    }
}

/// Lets the members of a group reach what is in a directory; they still cannot list it.
pub fn open_to(folder: &Scratch, gid: u32) -> Result<(), Failure> {
    let opened = chown(folder.path(), None, Some(gid))
        .and_then(|()| fs::set_permissions(folder.path(), Permissions::from_mode(0o710)));
    opened.map_err(|error| Error::io("cannot give to another user", folder.path(), error).into())
}

/// The directories that dead processes of this user have left.
fn left() -> impl Iterator<Item = Scratch> {
    let found = scratch::list(&std::env::temp_dir(), scratch::Kind::Run);
    found.into_iter().filter_map(|path| Scratch::take(&path))
}
