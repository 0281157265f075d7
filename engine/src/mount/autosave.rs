//! `Autosave` stores what a mount has changed as its work in progress, from time to time, while the browser runs.
//!
//! A work in progress is a snapshot with the tag `wip`, which no pointer names. The next one takes its place, and a commit ends it.

use std::sync::Arc;

use fuse::mount::{CommitRequest, CommitTarget, Moment, Mount};
use store::{
    ErrorKind,
    catalog::{clock, lineage_handle::LineageHandle},
    format::record::Reason,
    id::RecordId,
    ops::{work_in_progress, write::snapshot::Outcome},
    progress::Silent,
};
use tokio::sync::Mutex;

use crate::{
    Engine,
    captures::{CaptureMode, CaptureOptions, Judgement, ProfileToCapture},
    engine::threads,
    failure::Failure,
    observer::CaptureSource,
};

/// What a mount has saved while it goes on.
#[derive(Debug, Default)]
pub(super) struct Autosave {
    saved: Mutex<Saved>,
}

#[derive(Debug, Default)]
struct Saved {
    /// The work in progress of this session; more than one if a save was interrupted.
    own: Vec<RecordId>,
    /// Whether a save was interrupted, which may have left another.
    is_unsure: bool,
    /// Whether another run has left one.
    has_left: bool,
    /// What was written up to this epoch is in it.
    epoch: u64,
}

impl Autosave {
    /// Of a session that has saved `own` before it was cut short, where another run has left its work if `has_left`.
    pub(super) fn new(own: Option<RecordId>, has_left: bool) -> Self {
        Self { saved: Mutex::new(Saved { own: own.into_iter().collect(), has_left, ..Saved::default() }) }
    }

    /// Stores what has changed since the last time; `false` if nothing has.
    pub(super) async fn save(&self, engine: &Engine, mount: &Arc<Mount>) -> Result<bool, Failure> {
        let mut saved = self.saved.lock().await;
        if !mount.is_at_stake() || !mount.fs.is_changed_since(saved.epoch) {
            return Ok(false);
        }
        let options = CaptureOptions { mode: CaptureMode::Hot, ..CaptureOptions::new(Reason::Autosave) };
        let Some(hold) = mount.hold() else { return Ok(false) };
        saved.make_sure(hold.handle()).await?;
        let actor = hold.handle().actor();
        let settings = engine.settings.tenant(&mount.lineage.name.tenant);
        let profile = ProfileToCapture::leave_running(&mount.info.mountpoint, mount.is_written_to()).await?;
        let (fallback, of) = (mount.info.fallback.as_deref(), (mount.tenant()?, &mount.lineage.name));
        let Judgement { mut about, examiner, .. } = engine.judge(&options, actor, profile, fallback, of)?;
        about.in_progress = Some(actor.clone());
        let request = CommitRequest {
            to: CommitTarget::Aside,
            about,
            hold_back: None,
            examiner: Some(examiner),
            threads: threads(),
            max_bytes: Some(settings.max_profile_bytes),
            quota_bytes: settings.quota_bytes,
            archive: None,
            moment: Moment::Now,
        };
        saved.is_unsure = true;
        let storing = async { Ok(mount.commit(request, Arc::new(Silent)).await?) };
        let name = &mount.lineage.name;
        let commit = engine
            .observe_capture(name, options.mode, CaptureSource::Mount, storing, |commit| &commit.report)
            .await?;
        let report = commit.report;
        saved.epoch = commit.epoch;
        if report.outcome == Outcome::Unchanged {
            saved.is_unsure = false;
            return Ok(false);
        }
        if let Some(held_back) = report.held_back {
            // What is there already is better than one with a damaged database.
            work_in_progress::discard(hold.handle(), report.record).await?;
            return Err(Failure::new(ErrorKind::HeldBack, held_back.reason));
        }
        let session = mount.session_id().parse().ok();
        let at_ms = clock::unix_ms();
        work_in_progress::replace(hold.handle(), report.record, session, at_ms, &saved.own).await?;
        saved.own = vec![report.record];
        (saved.is_unsure, saved.has_left) = (false, false);
        Ok(true)
    }

    /// All that was changed is stored otherwise, or nobody wants it. What another run has left is over, too, if this one
    /// has `gone_on` without it. Asks nothing of the store if there is no work in progress.
    pub(super) async fn end(&self, mount: &Mount, gone_on: bool) {
        let mut saved = self.saved.lock().await;
        let has_some = saved.is_unsure || !saved.own.is_empty() || gone_on && saved.has_left;
        let Some(hold) = mount.hold().filter(|_| has_some) else { return };
        let ended = async {
            saved.make_sure(hold.handle()).await?;
            work_in_progress::end(hold.handle(), &saved.own).await
        };
        match ended.await {
            Ok(()) => (saved.own, saved.has_left) = (Vec::new(), false),
            // The next commit tries again, and retention after that.
            Err(error) => tracing::warn!(%error, "the work in progress could not be removed"),
        }
    }
}

impl Saved {
    /// Finds what an interrupted save may have left.
    async fn make_sure(&mut self, handle: &LineageHandle) -> store::Result<()> {
        if self.is_unsure {
            let found = work_in_progress::saved_by(handle).await?;
            self.own.retain(|known| !found.contains(known));
            self.own.extend(found);
            self.is_unsure = false;
        }
        Ok(())
    }
}
