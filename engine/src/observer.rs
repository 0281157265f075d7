//! `Observer` hears what the engine says, and what was captured, loaded and locked: for terminals, logs and
//! metrics.

use std::{fmt::Debug, sync::Arc, time::Duration};

use store::{
    format::record::Mode,
    name::{Lineage, ProfileName},
    observer::{LockEvent, StoreObserver},
    ops::{read::restore, write::snapshot::Phases},
    progress::{Progress, Silent},
};

use crate::{failure::Failure, outcome::LoadResult};

/// Receives what the engine has to say besides its outcome. A terminal prints it, a server logs it, a
/// counter counts it. No method may block for long: the engine waits for it.
pub trait Observer: Debug + Send + Sync {
    /// Something happened.
    fn observe(&self, observation: &Observation<'_>);

    /// Whether the front end uses stdout itself. The commands that the engine starts then write to stderr.
    fn owns_stdout(&self) -> bool {
        true
    }

    /// The follower of the progress of the operation that begins now.
    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(Silent)
    }
}

/// Something that happened while a request was carried out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Observation<'a> {
    /// A step is done; only those who follow closely want to know.
    Step(&'a str),
    /// A remark that is not part of the outcome.
    Remark(&'a str),
    /// Something that somebody should look at, though the work goes on.
    Warning(&'a str),
    /// A profile was captured, or could not be.
    Captured(Captured<'a>),
    /// A profile was loaded or mounted, or could not be.
    Loaded(Loaded<'a>),
    /// Something happened to the lock of a profile.
    Lock(&'a Lineage, LockEvent),
    /// A mount began, or could not.
    Mounted(Mounted),
    /// A mount was read, since the last time that this was told.
    MountRead {
        /// Stored bytes that came from the store.
        fetched_bytes: u64,
        /// Bytes that readers were given without asking the store.
        cached_bytes: u64,
    },
    /// The garbage of one tenant was collected, or could not be.
    Collected(Collected),
}

/// How a capture of a directory, or a commit of a mount, ended.
#[derive(Clone, Debug)]
pub struct Captured<'a> {
    /// The profile that the snapshot is of.
    pub profile: &'a ProfileName,
    /// Whether a snapshot was stored.
    pub outcome: CaptureResult,
    /// Whether the browser was ended first.
    pub mode: Mode,
    /// How long the phases took; `None` if it failed.
    pub phases: Option<Phases>,
    /// How long it took in all, ending the browser included.
    pub elapsed: Duration,
    /// The sizes of all files; `None` if it failed.
    pub uncompressed_bytes: Option<u64>,
    /// The bytes that were sent to the store.
    pub stored_bytes: u64,
    /// The bytes of the archive, if the snapshot came as one.
    pub archive_bytes: Option<u64>,
    /// Why the snapshot was stored, but did not become the current one, in a word.
    pub held_back: Option<&'static str>,
    /// When the first cookie lapses that is expected of the profile.
    pub login_lapses_at_ms: Option<u64>,
    /// What was captured.
    pub source: CaptureSource,
    /// Why it failed.
    pub failure: Option<&'a Failure>,
}

/// How a capture ended, in the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureResult {
    /// A snapshot was stored.
    Success,
    /// Nothing had changed, so nothing was stored.
    Skipped,
    /// No snapshot was stored.
    Failed,
}

impl CaptureResult {
    /// The word that metrics have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
        }
    }
}

/// What a capture is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureSource {
    /// A directory.
    Directory,
    /// A mount, which is committed.
    Mount,
    /// An archive, which is imported.
    Archive,
}

/// How a mount began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// How it began.
    pub outcome: MountResult,
    /// How long it took until it could be used; `None` if it failed.
    pub ready: Option<Duration>,
}

/// How a mount began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MountResult {
    /// With the profile, or empty because there is no snapshot yet.
    Success,
    /// Empty, though there is a snapshot.
    Fallback,
    /// It did not.
    Failed,
}

impl MountResult {
    /// The word that metrics have for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Fallback => "fallback",
            Self::Failed => "failed",
        }
    }
}

/// How the collection of one tenant's garbage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collected {
    /// Whether it came to its end.
    pub is_done: bool,
    /// The bytes of the packs that it deleted.
    pub freed_bytes: u64,
}

/// How a load ended.
#[derive(Clone, Copy, Debug)]
pub struct Loaded<'a> {
    /// The profile.
    pub profile: &'a ProfileName,
    /// How it ended; `None` if it failed and no empty profile took its place.
    pub outcome: Option<LoadResult>,
    /// How it was done; `None` of an empty profile, and of one that failed.
    pub way: Option<LoadWay>,
    /// How long it took in all.
    pub elapsed: Duration,
    /// Why it failed.
    pub failure: Option<&'a Failure>,
}

/// How the content of a snapshot reaches a browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadWay {
    /// Every file was written.
    Copy {
        /// How long it took until the last content was fetched.
        download: Duration,
        /// How long it took from then on until every file was in place.
        extract: Duration,
        /// The sizes of all files.
        uncompressed_bytes: u64,
    },
    /// The content is fetched when it is read.
    Mount,
}

impl From<&restore::Report> for LoadWay {
    fn from(report: &restore::Report) -> Self {
        Self::Copy {
            download: report.download,
            extract: report.elapsed.saturating_sub(report.download),
            uncompressed_bytes: report.bytes,
        }
    }
}

/// Keeps everything to itself.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn observe(&self, _: &Observation<'_>) {}
}

/// Tells an engine's observer what a store tells of its locks.
#[derive(Debug)]
pub(crate) struct LockTeller(pub Arc<dyn Observer>);

impl StoreObserver for LockTeller {
    fn lock(&self, lineage: &Lineage, event: LockEvent) {
        self.0.observe(&Observation::Lock(lineage, event));
    }
}
