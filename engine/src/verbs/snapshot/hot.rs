//! `hot` stores a mount as a snapshot while its browser runs, for somebody who names it as a directory.

use std::time::Duration;

use store::ErrorKind;

use super::{SnapshotOutcome, SnapshotRequest};
use crate::{
    Engine,
    captures::refused_hot,
    failure::Failure,
    mount::live::{LiveMount, absolute},
    outcome::Outcome,
    verbs::commit::CommitRequest,
};

impl Engine {
    /// Has the daemon of the mount that the directory is commit it. No other directory can be taken at one moment.
    pub(super) async fn snapshot_running(
        &self,
        request: &SnapshotRequest,
    ) -> Result<SnapshotOutcome, Failure> {
        let SnapshotRequest { directory, profile, chrome_major, force, capture, .. } = request;
        let wanted = absolute(directory);
        let Some(live) =
            LiveMount::all(&self.settings)?.into_iter().find(|live| live.info.mountpoint == wanted)
        else {
            return Err(refused_hot("a directory that is no mount of pstore's"));
        };
        let mounted = live.info.chrome_major;
        if let Some(given) = chrome_major.filter(|given| u64::from(*given) != mounted) {
            let message =
                format!("{} is a mount of Chrome {mounted}, not of Chrome {given}", directory.display());
            return Err(Failure::new(ErrorKind::VersionMismatch, message));
        }
        let commit = CommitRequest {
            other: Some(profile.clone()),
            force: *force,
            capture: capture.clone(),
            ..CommitRequest::new(wanted)
        };
        let committed = self.commit(&commit).await?;
        let (verdict, frozen_ms) = (committed.verdict(), Some(committed.frozen_ms));
        let mut captured = committed.captured;
        captured.elapsed = Duration::from_millis(captured.elapsed_ms);
        captured.warnings.iter().for_each(|warning| self.warn(warning));
        Ok(SnapshotOutcome { captured, frozen_ms, verdict })
    }
}
