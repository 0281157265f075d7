//! `client` finds the watcher of a workspace, and asks it.

use std::{fs, io, time::Duration};

use fuse::mount::control;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{ErrorKind, format::WRITER};

use crate::{
    failure::Failure,
    mount::call::{self, SentOutcome},
    outcome::Outcome,
    workspace::{
        folder::WorkspaceFolder,
        outcome::{CheckpointOutcome, RevertOutcome, WorkspaceOutcome},
    },
};

/// The file that names the watcher's process; it holds a lock of it as long as it lives.
pub(super) const PID: &str = "watcher";

/// What a watcher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    Checkpoint,
    Revert,
}

macro_rules! sent {
    ($($outcome:ty),*) => {$(
        impl SentOutcome for $outcome {
            fn with_verdict(self, _: Option<Failure>) -> Self {
                self
            }
        }
    )*};
}
sent!(CheckpointOutcome, RevertOutcome, WorkspaceOutcome);

/// The process that watches, if one does.
pub(crate) fn pid(folder: &WorkspaceFolder) -> Option<u32> {
    let path = folder.path.join(PID);
    let file = fs::File::open(&path).ok()?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared) {
        Err(rustix::io::Errno::WOULDBLOCK) => fs::read_to_string(&path).ok()?.trim().parse().ok(),
        // It was not locked, or cannot be: nobody lives there.
        _ => None,
    }
}

/// Asks the watcher to end.
pub(crate) fn end(pid: u32) -> Result<(), Failure> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(process) = process else { return Ok(()) };
    match kill_process(process, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(Failure::new(
            ErrorKind::Denied,
            format!("the watcher, process {pid}, cannot be ended: {error}"),
        )),
    }
}

/// Has the watcher carry out a request; `None` if there is none that answers. One that is there and has not answered after
/// `patience` is a failure.
pub(crate) async fn ask<T: SentOutcome + Outcome>(
    folder: &WorkspaceFolder,
    verb: Verb,
    request: &impl Serialize,
    patience: Duration,
) -> Option<Result<T, Failure>> {
    let pid = pid(folder)?;
    let call = json!({ "writer": WRITER, "verb": verb, "request": request });
    let path = folder.path.clone();
    let asked =
        tokio::task::spawn_blocking(move || control::ask_within(&path, &call, patience)).await.ok()?;
    match asked {
        Ok(answer) => Some(call::received(answer)),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let message = format!("the watcher, process {pid}, does not answer");
            let hint = format!("`kill -9 {pid}` loses nothing, and `pstore workspace start` begins another");
            Some(Err(Failure::new(ErrorKind::Unavailable, message).hint(hint)))
        }
        Err(error) => {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                tracing::info!(%error, "the watcher does not answer");
            }
            None
        }
    }
}
