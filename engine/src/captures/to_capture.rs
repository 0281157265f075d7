//! `ProfileToCapture` is a profile directory that can be captured: its browser was ended, or runs on on a mount.

use std::path::Path;

use capture::{
    chrome::{
        held_cookies::Attempt,
        profile::{self, Facts},
        singleton::{self, Lock},
        stop::{self, StopError, StopOptions, Stopped},
    },
    marker::{self, Marker},
};
use store::{Error, content::workers::blocking};

use super::CaptureOptions;
use crate::failure::Failure;

/// A directory that no browser uses any more, or a mount that can be captured beside one.
#[derive(Clone, Debug)]
pub struct ProfileToCapture {
    /// The facts in the profile's own files.
    pub facts: Facts,
    pub(super) stopped: Stopped,
    pub(super) marker: Marker,
}

impl ProfileToCapture {
    /// Ends the browser, waits until nobody has a file open for writing, and learns what the profile
    /// says.
    #[crate::boxed]
    pub async fn stop(directory: &Path, options: &CaptureOptions) -> Result<Self, Failure> {
        Self::stop_with(directory, stop_options(options)).await
    }

    /// The same on a mount. Only the mount can find a moment at which no file is open for writing:
    /// to somebody who looks from outside, several busy programs always have one open.
    #[crate::boxed]
    pub async fn stop_on_mount(mountpoint: &Path, options: &CaptureOptions) -> Result<Self, Failure> {
        Self::stop_with(mountpoint, StopOptions { open_wait: None, ..stop_options(options) }).await
    }

    /// Leaves the browser on a mount alone, and learns what the profile says. `is_written_to` if somebody has files of
    /// it open for writing; `attempt` is which of several this is.
    #[crate::boxed]
    pub async fn leave_running(
        mountpoint: &Path,
        is_written_to: bool,
        attempt: &Attempt,
    ) -> Result<Self, Failure> {
        let (mountpoint, attempt) = (mountpoint.to_owned(), attempt.clone());
        let running = blocking(move || {
            let stopped = stop::leave_running(&mountpoint, is_written_to, &attempt);
            let stopped = stopped.map_err(|error| in_use(&mountpoint, error))?;
            Self::learn(&mountpoint, stopped)
        });
        Ok(running.await?)
    }

    async fn stop_with(directory: &Path, options: StopOptions) -> Result<Self, Failure> {
        let directory = directory.to_owned();
        let stopped = blocking(move || {
            let stopped = stop::stop(&directory, &options).map_err(|error| in_use(&directory, error))?;
            singleton::remove_stale(&directory).map_err(|error| {
                Error::io("cannot remove the links of a browser that is gone from", &directory, error)
            })?;
            Self::learn(&directory, stopped)
        });
        Ok(stopped.await?)
    }

    fn learn(directory: &Path, stopped: Stopped) -> Result<Self, Error> {
        let marker = Marker::read(directory)
            .map_err(|error| Error::io("cannot read", directory.join(marker::NAME), error))?;
        Ok(Self { facts: Facts::read(directory), stopped, marker })
    }

    /// The facts of a session whose browser is long gone.
    pub(super) fn long_gone(fallback: Option<String>) -> Self {
        Self {
            facts: Facts::default(),
            stopped: Stopped::default(),
            marker: Marker { fallback, ..Marker::default() },
        }
    }

    /// The marker that the load left in the directory.
    pub fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Remarks about the directory, whatever is in it.
    pub fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.facts.path_is_too_long() {
            remarks.push(format!(
                "the directory's path is longer than {} bytes: Chrome silently does without some databases there",
                profile::MAX_PATH_BYTES
            ));
        }
        if let Some(Lock { host, pid }) = &self.stopped.lock_of_another_host {
            remarks.push(format!(
                "the directory has the lock of a Chrome on {host:?} (process {pid}), which was left there and is \
                 not stored: if that one still runs, what it has not written is missing; if not, remove \
                 SingletonLock, or no Chrome starts here"
            ));
        }
        if let Some(why) = &self.stopped.unwritten_cookies {
            remarks
                .push(format!("cookies that were set in the last half minute may be missing, since {why}"));
        }
        remarks
    }
}

fn stop_options(options: &CaptureOptions) -> StopOptions {
    StopOptions { allow_stop: options.allow_stop, wait: options.stop_wait, ..StopOptions::default() }
}

/// The error of a directory that a browser uses and that cannot be had.
pub fn in_use(directory: &Path, error: StopError) -> Error {
    match error {
        StopError::Look { source, .. } => Error::io("cannot see who uses", directory, source),
        error => Error::InUse { path: directory.to_owned(), by: error.to_string() },
    }
}
