//! Where the profile is while the command runs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use store::ErrorKind;

use super::super::Context;
use crate::{args::RunArgs, failure::Failure};

const PREFIX: &str = "pstore-run-";
const PROFILE: &str = "profile";
/// A load that nobody waits for any more has ended by then.
const LOADING_ENDS: Duration = Duration::from_secs(5);

fn made() -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(|error| {
        Failure::new(ErrorKind::Io, format!("no directory can be made for the profile: {error}"))
    })
}

/// An empty directory to mount on. Whatever happens, nothing below it is ever removed: that
/// could be the profile.
pub(super) struct Mountpoint {
    folder: PathBuf,
    path: PathBuf,
}

impl Mountpoint {
    pub(super) fn make() -> Result<Self, Failure> {
        let folder = made()?.keep();
        let path = folder.join(PROFILE);
        fs::create_dir(&path).map_err(|error| {
            Failure::new(ErrorKind::Io, format!("{} cannot be made: {error}", path.display()))
        })?;
        Ok(Self { folder, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn remove(self, context: &Context) {
        if let Err(error) = fs::remove_dir(&self.path).and_then(|()| fs::remove_dir(&self.folder)) {
            context.console.warn(&format!("{} could not be removed: {error}", self.folder.display()));
        }
    }
}

/// Where a copy is put.
pub(super) enum Place {
    /// Ours, to be removed.
    Temporary(tempfile::TempDir, PathBuf),
    /// The user's, to be left.
    Named(PathBuf),
}

impl Place {
    pub(super) fn choose(args: &RunArgs) -> Result<Self, Failure> {
        if let Some(directory) = &args.directory {
            return Ok(Self::Named(std::path::absolute(directory).unwrap_or_else(|_| directory.clone())));
        }
        let directory = made()?;
        let profile = directory.path().join(PROFILE);
        Ok(Self::Temporary(directory, profile))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(_, path) | Self::Named(path) => path,
        }
    }

    /// Nobody has used it. What was being loaded into it goes first: threads that are at work
    /// there notice a little later that they need not be.
    pub(super) async fn abandon(self, context: &Context) {
        let Self::Temporary(directory, _) = self else { return };
        let started = Instant::now();
        // A profile is written beside its place, under a hidden name.
        let is_hidden = |entry: fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_loading = || fs::read_dir(directory.path()).into_iter().flatten().flatten().any(is_hidden);
        while is_loading() && started.elapsed() < LOADING_ENDS {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let path = directory.path().to_owned();
        if let Err(error) = directory.close() {
            context.console.warn(&format!("{} could not be removed: {error}", path.display()));
        }
    }

    /// What was not captured is not thrown away.
    pub(super) fn finish(self, context: &Context, captured: bool) {
        if let Self::Temporary(directory, _) = self
            && !captured
        {
            let kept = directory.keep();
            context
                .console
                .warn(&format!("what was not captured is kept in {}", kept.join(PROFILE).display()));
        }
    }
}
