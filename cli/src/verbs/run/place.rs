//! Where the profile is while the command runs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::super::{Context, mount::temporary};
use crate::{args::RunArgs, failure::Failure};

const PROFILE: &str = "profile";
/// A load that nobody waits for any more has ended by then.
const LOADING_ENDS: Duration = Duration::from_secs(5);

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
        let directory = temporary()?;
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
