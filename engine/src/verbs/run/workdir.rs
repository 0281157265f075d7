//! `WorkDir` is the directory of a copied profile while the command runs.

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::{PermissionsExt, lchown},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use store::{Error, id::RecordId, name::Lineage, scratch::Scratch};

use super::request::RunRequest;
use crate::{
    Engine, copies,
    failure::Failure,
    host::{
        mountpoint::{PROFILE, open_to, temporary},
        user::User,
    },
};

/// A load that nobody waits for any more has ended by then.
const LOADING_ENDS: Duration = Duration::from_secs(5);

/// The directory in which a copy is put.
pub(super) enum WorkDir {
    /// Ours, to be removed.
    Temporary(Scratch, PathBuf),
    /// The user's, to be left.
    Named(PathBuf),
}

impl WorkDir {
    /// The directory that is asked for, else one of our own. `current` is the snapshot that the lineage has now, if that is known; `Some(None)` if it has none.
    pub(super) fn choose(
        engine: &Engine,
        request: &RunRequest,
        lineage: &Lineage,
        current: Option<Option<RecordId>>,
    ) -> Result<Self, Failure> {
        if let Some(directory) = &request.directory {
            return Ok(Self::Named(std::path::absolute(directory).unwrap_or_else(|_| directory.clone())));
        }
        let directory = temporary()?;
        copies::note(engine, &directory, lineage, current)?;
        let profile = directory.path().join(PROFILE);
        Ok(Self::Temporary(directory, profile))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(_, path) | Self::Named(path) => path,
        }
    }

    /// Gives the profile to the user who is to use it. Until that is done nobody else reaches it,
    /// so nobody can put a link in the way.
    pub(super) fn give_to(&self, user: &User) -> Result<(), Failure> {
        let Self::Temporary(folder, profile) = self else { return Ok(()) };
        let given = fs::set_permissions(profile, Permissions::from_mode(0o700))
            .and_then(|()| give(profile, user.uid, user.gid));
        given.map_err(|error| Error::io("cannot give to another user", profile, error))?;
        open_to(folder, user.gid)
    }

    /// Nobody has used it. What was being loaded into it goes first: threads that are at work
    /// there notice a little later that they need not be.
    pub(super) async fn abandon(self, engine: &Engine) {
        let Self::Temporary(directory, _) = self else { return };
        let started = Instant::now();
        // A profile is written beside its place, under a hidden name.
        let is_hidden = |entry: fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_loading = || fs::read_dir(directory.path()).into_iter().flatten().flatten().any(is_hidden);
        while is_loading() && started.elapsed() < LOADING_ENDS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let path = directory.path().to_owned();
        if let Err(error) = directory.remove() {
            engine.warn(&format!("{} could not be removed: {error}", path.display()));
        }
    }

    /// Removes it, unless it holds changes that were not captured.
    pub(super) fn finish(self, engine: &Engine, captured: bool) {
        let Self::Temporary(directory, profile) = self else { return };
        if !captured {
            engine.warn(&format!(
                "what was not captured is kept in {}; `pstore sessions` tells what can be done with it",
                profile.display()
            ));
        } else if let Err(error) = directory.remove() {
            engine.warn(&format!("{} could not be removed: {error}", profile.display()));
        }
    }
}

/// All of a tree, and no link's target.
fn give(top: &Path, uid: u32, gid: u32) -> io::Result<()> {
    let mut open = vec![top.to_owned()];
    while let Some(path) = open.pop() {
        lchown(&path, Some(uid), Some(gid))?;
        if path.symlink_metadata()?.is_dir() {
            for entry in fs::read_dir(&path)? {
                open.push(entry?.path());
            }
        }
    }
    Ok(())
}
