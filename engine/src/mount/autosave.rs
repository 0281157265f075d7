//! `Autosave` stores what a mount has changed as its work in progress, from time to time, while the browser runs.
//!
//! A work in progress is a snapshot with the tag `wip`, which no pointer names. The next one takes its place, and a commit ends it.

use std::{collections::BTreeSet, sync::Arc};

use capture::{
    chrome::{
        held_cookies::{Attempt, CookieState, Unwritten},
        stop,
    },
    examiner::UNJUDGED,
};
use parking_lot::Mutex as SyncMutex;

use fuse::mount::{Aside, CommitRequest, CommitTarget, Moment, Mount};
use store::{
    ErrorKind,
    catalog::clock,
    content::workers::blocking,
    format::record::Reason,
    id::RecordId,
    ops::{work_in_progress, write::snapshot::Outcome},
    progress::Silent,
};
use tokio::sync::{Mutex, watch};

use super::publication::KEPT_BY_THE_KERNEL;
use crate::{
    Engine,
    captures::{CaptureMode, CaptureOptions, Judgement, ProfileToCapture},
    engine::threads,
    failure::Failure,
    observer::CaptureSource,
};

/// How many of the earlier ones are deleted again, in case somebody read them.
const TRIED_AGAIN: usize = 3;

/// What a mount has saved while it goes on.
#[derive(Debug, Default)]
pub(super) struct Autosave {
    saved: Mutex<Saved>,
}

#[derive(Debug, Default)]
struct Saved {
    /// Every record that this session has begun for it and not deleted since; the last that became a snapshot counts.
    own: Arc<SyncMutex<Vec<RecordId>>>,
    /// What another run had left when this one began.
    left: Option<RecordId>,
    /// What was written up to this epoch is in it, or was held back.
    epoch: u64,
    /// The cookies that are in it, if they were the same as those of the browser.
    cookies: Option<CookieState>,
    /// What was said about saves: nobody wants to be told each minute.
    told: BTreeSet<String>,
}

impl Saved {
    /// Whether something has changed that is not in it. A browser that was made to write its cookies writes once more
    /// afterwards, what nobody set: that is no change.
    async fn lacks_changes(&self, mount: &Arc<Mount>) -> bool {
        if !mount.fs.is_changed_since(self.epoch) {
            return false;
        }
        let Some(saved) = self.cookies else { return true };
        let (mountpoint, changed) = (mount.info.mountpoint.clone(), mount.fs.changed_since(self.epoch));
        let now = blocking(move || Ok(stop::cookies_alone(&mountpoint, &changed))).await;
        now.ok().flatten() != Some(saved)
    }
}

impl Autosave {
    /// Of a session that has saved `own` before it was cut short, where another run has left `left`.
    pub(super) fn new(own: Option<RecordId>, left: Option<RecordId>) -> Self {
        let own = Arc::new(SyncMutex::new(own.into_iter().collect()));
        Self { saved: Mutex::new(Saved { own, left, ..Saved::default() }) }
    }

    /// Stores what has changed since the last time; `false` if nothing has. The browser is known to leave some cookies
    /// `unwritten`. Gives up when somebody is `wanted`. The caller waits until it returns: it must not be dropped
    /// while the tree is taken.
    pub(super) async fn save(
        &self,
        engine: &Engine,
        mount: &Arc<Mount>,
        unwritten: &Unwritten,
        wanted: watch::Receiver<usize>,
    ) -> Result<bool, Failure> {
        let mut saved = self.saved.lock().await;
        if !mount.is_at_stake() || !saved.lacks_changes(mount).await {
            return Ok(false);
        }
        let options = CaptureOptions { mode: CaptureMode::Hot, ..CaptureOptions::new(Reason::Autosave) };
        let Some(hold) = mount.hold() else { return Ok(false) };
        let actor = hold.handle().actor();
        let settings = engine.settings.tenant(&mount.lineage.name.tenant);
        let before = saved.own.lock().clone();
        let store = async |attempt: &Attempt| {
            let (place, is_written_to) = (&mount.info.mountpoint, mount.is_written_to());
            let profile = ProfileToCapture::leave_running(place, is_written_to, attempt).await?;
            let mut remarks = profile.remarks();
            let (fallback, of) = (mount.info.fallback.as_deref(), (mount.tenant()?, &mount.lineage.name));
            let Judgement { mut about, examiner, .. } =
                engine.judge(&options, actor, profile, fallback, of)?;
            about.in_progress = Some(actor.clone());
            let request = CommitRequest {
                to: CommitTarget::Aside(Aside { begun: Arc::clone(&saved.own), wanted: wanted.clone() }),
                about,
                hold_back: None,
                examiner: Some(examiner),
                threads: threads(),
                max_bytes: Some(settings.max_profile_bytes),
                quota_bytes: settings.quota_bytes,
                archive: None,
                moment: Moment::Now,
            };
            let commit = mount.commit(request, Arc::new(Silent)).await?;
            remarks.extend(attempt.remark());
            remarks.extend(commit.may_lack_writes.then(|| KEPT_BY_THE_KERNEL.to_owned()));
            Ok((commit, remarks))
        };
        let storing = async {
            let mut attempt = Attempt::first(unwritten);
            loop {
                let stored = store(&attempt).await;
                match attempt.next().filter(|_| stored.is_err()) {
                    Some(next) => attempt = next,
                    None => return stored.map(|(commit, remarks)| (commit, remarks, attempt.state())),
                }
            }
        };
        let name = &mount.lineage.name;
        let (commit, remarks, cookies) = engine
            .observe_capture(name, options.mode, CaptureSource::Mount, storing, |(commit, ..)| &commit.report)
            .await?;
        for remark in remarks {
            if saved.told.insert(remark.clone()) {
                engine.warn(&format!("the work in progress of {name}: {remark}"));
            }
        }
        let report = commit.report;
        if report.outcome == Outcome::Unchanged {
            (saved.epoch, saved.cookies) = (commit.epoch, cookies);
            return Ok(false);
        }
        let record = report.record;
        if let Some(held_back) = report.held_back {
            // What is there already is better than one with a damaged database.
            work_in_progress::delete(hold.handle(), record).await?;
            saved.own.lock().retain(|own| *own != record);
            // The same files would be held back once more. What could not be judged may be judged the next time.
            if held_back.word != UNJUDGED {
                (saved.epoch, saved.cookies) = (commit.epoch, cookies);
            }
            return Err(Failure::new(ErrorKind::HeldBack, held_back.reason));
        }
        // Only the holder says what is in progress.
        if let Err(error) = hold.renew().await {
            work_in_progress::delete(hold.handle(), record).await?;
            return Err(error.into());
        }
        let session = mount.session_id().parse().ok();
        work_in_progress::replace(hold.handle(), record, session, clock::unix_ms(), &before).await?;
        // A reader may have kept those before: the next save, and the commit, try again.
        let kept = before.into_iter().rev().take(TRIED_AGAIN).rev();
        *saved.own.lock() = kept.chain([record]).collect();
        (saved.epoch, saved.cookies) = (commit.epoch, cookies);
        Ok(true)
    }

    /// All that was changed is stored otherwise, or nobody wants it. What another run has left is over, too, if this one
    /// has `gone_on` without it. Asks nothing of the store if there is no work in progress.
    pub(super) async fn end(&self, mount: &Mount, gone_on: bool) {
        let mut saved = self.saved.lock().await;
        saved.cookies = None;
        let (own, left) = (saved.own.lock().clone(), saved.left.filter(|_| gone_on));
        let has_some = !own.is_empty() || left.is_some();
        let Some(hold) = mount.hold().filter(|_| has_some) else { return };
        let ended = async {
            hold.renew().await?;
            work_in_progress::end(hold.handle(), &own, left).await
        };
        match ended.await {
            Ok(()) => {
                saved.own.lock().clear();
                saved.left = saved.left.filter(|_| !gone_on);
            }
            // The next commit tries again, and retention after that.
            Err(error) => tracing::warn!(%error, "the work in progress could not be removed"),
        }
    }
}
