//! `hot` stores a mount as a snapshot while its browser runs, for somebody who names it as a directory.

use store::ErrorKind;

use super::{SnapshotOutcome, SnapshotRequest};
use crate::{
    Engine,
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
            capture.require_cold("a directory that is no mount of pstore's")?;
            return Err(Failure::internal("a capture of a running browser has no mount"));
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
        let verdict = committed.verdict();
        committed.captured.warnings.iter().for_each(|warning| self.warn(warning));
        Ok(SnapshotOutcome { captured: committed.captured, frozen_ms: Some(committed.frozen_ms), verdict })
    }
}
