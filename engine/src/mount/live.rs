//! `live` finds the mounts of this host whose daemons live, and asks them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fuse::{
    mount::{control, info::Info, release_if_stuck, status::Status},
    overlay::session::{SessionDir, SessionPlace},
};
use serde_json::json;
use store::ErrorKind;

use crate::{failure::Failure, settings::Settings};

/// How long the daemon of a mount may take to tell its status.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// A mount whose daemon lives.
#[derive(Clone, Debug)]
pub struct LiveMount {
    /// The directory of its session.
    pub session: PathBuf,
    /// The session's own description.
    pub info: Info,
}

impl LiveMount {
    /// The mounts of this host's sessions that somebody serves.
    pub fn all(settings: &Settings) -> Result<Vec<Self>, Failure> {
        let mut found = Vec::new();
        for session in SessionDir::list(&settings.sessions()?, SessionPlace::Here)? {
            let Ok(info) = SessionDir::read_info::<Info>(&session) else { continue };
            release_if_stuck(&info);
            // One that cannot be looked at is told about by `pstore sessions`.
            if matches!(SessionDir::look(&session), Ok(None)) {
                found.push(Self { session, info });
            }
        }
        Ok(found)
    }
}

/// A mount whose daemon lives, and whose session cannot be read: only the daemon knows what it is about.
#[derive(Clone, Debug)]
pub struct UnreadableMount {
    /// The directory of its session.
    pub session: PathBuf,
    /// Why it cannot be read.
    pub problem: String,
}

impl UnreadableMount {
    /// The sessions of this host that somebody serves and that cannot be read.
    pub fn all(settings: &Settings) -> Result<Vec<Self>, Failure> {
        let mut found = Vec::new();
        for session in SessionDir::list(&settings.sessions()?, SessionPlace::Here)? {
            if let Err(error) = SessionDir::read_info::<Info>(&session)
                && matches!(SessionDir::look(&session), Ok(None))
                && session.exists()
            {
                found.push(Self { session, problem: error.to_string() });
            }
        }
        Ok(found)
    }
}

/// The status that the daemon of a session tells; `None` if it does not answer, or not so that this pstore
/// understands it.
#[crate::boxed]
pub async fn status(session: &Path) -> Option<Status> {
    let session = session.to_owned();
    let asked = tokio::task::spawn_blocking(move || control::ask(&session, &json!({ "status": true })));
    // It takes no turn: a daemon that lives answers at once.
    let mut said = tokio::time::timeout(ANSWERS_WITHIN, asked).await.ok()?.ok()?.ok()?;
    serde_json::from_value(said["document"].take()).ok()
}

/// The session of the mount at `mountpoint`.
#[crate::boxed]
pub async fn session_at(settings: &Settings, mountpoint: &Path) -> Result<PathBuf, Failure> {
    let wanted = absolute(mountpoint);
    let live = LiveMount::all(settings)?;
    let others: Vec<String> = live.iter().map(|live| live.info.mountpoint.display().to_string()).collect();
    if let Some(live) = live.into_iter().find(|live| live.info.mountpoint == wanted) {
        return Ok(live.session);
    }
    for UnreadableMount { session, .. } in UnreadableMount::all(settings)? {
        if status(&session).await.is_some_and(|status| status.mountpoint == wanted) {
            return Ok(session);
        }
    }
    let message = format!("nothing of pstore's is mounted on {}", mountpoint.display());
    Err(Failure::new(ErrorKind::NotFound, message).hint(match others.as_slice() {
        [] => "nothing is mounted; `pstore sessions` shows what was cut short".to_owned(),
        others => format!("mounted are {}; `pstore sessions` shows what was cut short", others.join(", ")),
    }))
}

/// Mountpoints are compared as absolute paths without links.
pub fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}
