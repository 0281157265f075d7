//! `unmount` ends a mount, with or without a commit. The mount's daemon does it.

use std::{path::PathBuf, sync::Arc};

use fuse::mount::Mount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{Error, ErrorKind, format::record::Reason};

use super::commit::{self, CommitOutcome};
use crate::{
    Engine,
    captures::CaptureOptions,
    failure::Failure,
    mount::{
        DestinationRequest,
        call::{self, SentOutcome},
        live::session_at,
        serving::Serving,
    },
    outcome::Outcome,
    settings::Settings,
};

const NAMED_AT_MOST: usize = 10;

/// The verb in a call of the daemon.
pub(crate) const VERB: &str = "unmount";

/// Unmounts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnmountRequest {
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The fate of changes that are not committed; a mount that has some stays if it is not said.
    pub changes: Option<UncommittedChanges>,
    /// How it is captured, if it is committed.
    pub capture: CaptureOptions,
}

/// The fate of changes that are not committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UncommittedChanges {
    /// They are committed first.
    Commit,
    /// They are thrown away.
    Discard,
    /// They are left for another mount to continue.
    Keep,
}

impl UnmountRequest {
    /// Unmounts what is mounted on `mountpoint`, unless it holds changes.
    pub fn new(mountpoint: PathBuf) -> Self {
        Self { mountpoint, changes: None, capture: CaptureOptions::new(Reason::Commit) }
    }
}

/// The outcome for a mount.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum UnmountOutcome {
    /// The commit was held back: the mount stays, and somebody has to decide.
    HeldBack(Box<CommitOutcome>),
    /// It was unmounted, or is in use after its changes were committed.
    Ended(Box<EndedMount>),
}

/// A mount that was unmounted, or is in use after its changes were committed.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EndedMount {
    /// Where it was mounted.
    pub mountpoint: PathBuf,
    /// Its session.
    pub session: String,
    /// Whether the session is kept, with changes that are not committed.
    pub kept: bool,
    /// Whether changes were to be thrown away.
    pub discarded: bool,
    /// The commit, if there was one.
    pub committed: Option<CommitOutcome>,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl Outcome for UnmountOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        match self {
            Self::HeldBack(commit) => commit.verdict(),
            Self::Ended(ended) => ended.verdict.clone(),
        }
    }
}

impl SentOutcome for UnmountOutcome {
    fn with_verdict(self, verdict: Option<Failure>) -> Self {
        match self {
            Self::HeldBack(commit) => Self::HeldBack(Box::new(commit.with_verdict(verdict))),
            Self::Ended(ended) => Self::Ended(Box::new(EndedMount { verdict, ..*ended })),
        }
    }
}

impl Engine {
    /// Has the daemon of a mount end it.
    #[crate::boxed]
    pub async fn unmount(&self, request: &UnmountRequest) -> Result<UnmountOutcome, Failure> {
        unmount(&self.settings, request).await
    }
}

/// Has the daemon of a mount of this host end it. The daemon knows the store.
#[crate::boxed]
pub async fn unmount(settings: &Settings, request: &UnmountRequest) -> Result<UnmountOutcome, Failure> {
    request.capture.check()?;
    request.capture.require_cold("what is unmounted")?;
    call::ask(session_at(settings, &request.mountpoint).await?, VERB, request).await
}

/// Ends a mount, in its daemon.
pub(crate) async fn serve(
    serving: &Arc<Serving>,
    request: &UnmountRequest,
) -> Result<UnmountOutcome, Failure> {
    // The request may come from another program than ours.
    request.capture.require_cold("what is unmounted")?;
    serving.require_ended_by_anybody()?;
    let mount = &serving.mount;
    let mut committed = None;
    match request.changes {
        Some(UncommittedChanges::Commit) => {
            let outcome = commit::serve(serving, &request.capture, DestinationRequest::default()).await?;
            if outcome.verdict().is_some_and(|verdict| verdict.kind == ErrorKind::HeldBack) {
                return Ok(UnmountOutcome::HeldBack(Box::new(outcome)));
            }
            committed = Some(outcome);
        }
        None if mount.is_at_stake() => {
            let (paths, count) = mount.at_stake(NAMED_AT_MOST);
            let mountpoint = mount.info.mountpoint.clone();
            return Err(Error::Uncommitted { mountpoint, paths, count }.into());
        }
        None | Some(UncommittedChanges::Discard | UncommittedChanges::Keep) => {}
    }
    if let Err(failure) = serving.unmount().await {
        return match committed {
            None => Err(failure),
            Some(committed) => Ok(still_mounted(mount, committed, failure)),
        };
    }
    // Asked only now: until it was unmounted somebody may have written more, after the commit.
    let discarded = request.changes == Some(UncommittedChanges::Discard);
    let kept = !discarded && mount.is_at_stake();
    if kept {
        mount.set_aside().await;
    } else {
        serving.work_is_dropped().await;
        mount.end().await?;
    }
    serving.finish();
    Ok(UnmountOutcome::Ended(Box::new(EndedMount {
        mountpoint: mount.info.mountpoint.clone(),
        session: mount.session_id(),
        kept,
        discarded,
        committed,
        verdict: None,
    })))
}

/// The commit was made, and the mount is in use: both are told.
fn still_mounted(mount: &Mount, committed: CommitOutcome, failure: Failure) -> UnmountOutcome {
    let shown = mount.info.mountpoint.display();
    let message = format!(
        "the changes are committed, but {}; end what uses it, then `pstore unmount {shown}`",
        failure.message
    );
    UnmountOutcome::Ended(Box::new(EndedMount {
        mountpoint: mount.info.mountpoint.clone(),
        session: mount.session_id(),
        kept: mount.is_at_stake(),
        discarded: false,
        committed: Some(committed),
        verdict: Some(Failure::new(failure.kind, message)),
    }))
}
