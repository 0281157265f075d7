//! `RunRequest` says which command is run on which profile.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use store::{
    format::record::Reason,
    name::{ChromeMajor, ProfileName},
    ops::read::resolve::Reference,
};

use crate::{
    captures::CaptureOptions, failure::Failure, loads::LoadOptions, mount::OnDiverged, names::SnapshotName,
};

/// Locks a profile, mounts or copies it, runs a command on it, captures it, and unlocks it.
#[derive(Clone, Debug)]
pub struct RunRequest {
    /// The profile, and perhaps one of its snapshots.
    pub source: SnapshotName,
    /// The first digits of the snapshot's id, said apart from the name.
    pub sha: Option<Reference>,
    /// The major version of the Chrome that will use it; that of its whole version, or the newest there is, if
    /// it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// How the profile is loaded.
    pub load: LoadOptions,
    /// How the profile is captured.
    pub capture: CaptureOptions,
    /// Copy the profile instead of mounting it.
    pub copy: bool,
    /// Sessions that are left alone; the first digits of their ids.
    pub ignore_session: Vec<String>,
    /// The fate of a session that cannot be continued.
    pub on_diverged: OnDiverged,
    /// Copy the profile to this directory, and leave it there.
    pub directory: Option<PathBuf>,
    /// How long to wait for somebody else who holds the lock.
    pub wait: Duration,
    /// How often the profile is saved as work in progress while the command runs; never if it is not said.
    pub autosave: Option<Duration>,
    /// Start from the work in progress that a run has left.
    pub from_wip: bool,
    /// Let the kernel keep what the command writes for a while: quicker, and if `run` is killed that is lost.
    pub writeback: bool,
    /// Variables that the command gets, though they may carry credentials; `NAME*` for all that begin so.
    pub pass_env: Vec<String>,
    /// Start the command as this user, and give it the profile: `NAME` or `UID[:GID]`.
    pub user: Option<String>,
    /// The command and its arguments, with `{profile}` where the profile's directory is meant.
    pub command: Vec<OsString>,
}

impl RunRequest {
    /// Runs `command` on the current snapshot of `source`, mounted if that can be.
    pub fn new(source: SnapshotName, command: Vec<OsString>) -> Self {
        Self {
            source,
            sha: None,
            chrome_major: None,
            load: LoadOptions::default(),
            capture: CaptureOptions::new(Reason::RunEnd),
            copy: false,
            ignore_session: Vec::new(),
            on_diverged: OnDiverged::Fail,
            directory: None,
            wait: Duration::ZERO,
            autosave: None,
            from_wip: false,
            writeback: false,
            pass_env: Vec::new(),
            user: None,
            command,
        }
    }

    pub(super) fn profile(&self) -> &ProfileName {
        &self.source.profile
    }

    /// Which snapshot is meant; `None` for whichever is current.
    pub(super) fn reference(&self) -> Result<Option<&Reference>, Failure> {
        self.source.with_sha(self.sha.as_ref())
    }

    /// The Chrome that will use it, as far as that is said.
    pub(super) fn major(&self) -> Option<ChromeMajor> {
        self.chrome_major.or_else(|| self.load.major_of_version())
    }
}
