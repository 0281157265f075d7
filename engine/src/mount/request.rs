//! `MountRequest` says what is mounted, where and how.

use std::{path::PathBuf, time::Duration};

use fuse::{adapter::Owner, mount::info::Mode};
use store::name::{ChromeMajor, ProfileName};

use crate::{
    loads::LoadOptions,
    names::{ActorName, SnapshotName},
};

/// Mounts a profile on a directory of this host.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// The profile, and perhaps one of its snapshots.
    pub source: SnapshotName,
    /// An empty directory.
    pub mountpoint: PathBuf,
    /// The major version of the Chrome that will use it; the newest there is if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// Under the profile's lock, as a fork, or without changes.
    pub mode: Mode,
    /// Fail unless there is an unfinished session to continue.
    pub resume: bool,
    /// Sessions that are left alone; the first digits of their ids.
    pub ignore_session: Vec<String>,
    /// The fate of a session that cannot be continued.
    pub on_diverged: OnDiverged,
    /// Let other users use it.
    pub allow_other: bool,
    /// The reaction to a lost lock.
    pub on_lock_lost: OnLockLost,
    /// How the profile is loaded.
    pub load: LoadOptions,
    /// The region the host is in; as configured if it is not said.
    pub host_region: Option<String>,
    /// The actor.
    pub actor: ActorName,
    /// How long to wait for somebody else who holds the lock.
    pub wait: Duration,
    /// How often its changes are saved as work in progress while it is used; never if it is not said.
    pub autosave: Option<Duration>,
    /// Start from the work in progress that a run has left.
    pub from_wip: bool,
    /// The owner of the files of the mount; by default their owner in the snapshot.
    pub owner: Option<Owner>,
    /// Let the kernel keep writes for a while: quicker, and a killed daemon loses what it has kept. It is so too if
    /// the settings of the tenant say so.
    pub writeback: bool,
}

impl MountRequest {
    /// Mounts the current snapshot under the profile's lock, without waiting for anybody.
    pub fn new(source: SnapshotName, mountpoint: PathBuf) -> Self {
        Self {
            source,
            mountpoint,
            chrome_major: None,
            mode: Mode::Locked,
            resume: false,
            ignore_session: Vec::new(),
            on_diverged: OnDiverged::Fail,
            allow_other: false,
            on_lock_lost: OnLockLost::Warn,
            load: LoadOptions::default(),
            host_region: None,
            actor: ActorName::default(),
            wait: Duration::ZERO,
            autosave: None,
            from_wip: false,
            owner: None,
            writeback: false,
        }
    }
}

/// The fate of a session that cannot be continued, because somebody has gone on elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnDiverged {
    /// Refuse to go on.
    Fail,
    /// Keep the session where no mount finds it.
    SetAside,
    /// Store it as a snapshot of this profile.
    RescueAs(ProfileName),
}

/// The reaction of a mount to a lost lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLockLost {
    /// The mount goes on, but cannot be committed.
    Warn,
    /// All changes are refused from then on.
    Freeze,
    /// The browser is ended.
    Kill,
}
