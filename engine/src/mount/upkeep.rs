//! `Upkeep` is the work that goes on beside a mount: giving back space, and saving its work in progress.
//!
//! A commit or an unmount does not wait until work in progress is uploaded: that is given up.

use std::{sync::Arc, time::Duration};

use store::{
    ErrorKind,
    ops::write::snapshot::{Outcome, Report},
};
use tokio::{task::JoinHandle, time::MissedTickBehavior};

use super::serving::Serving;

/// How often space is given back and the journal looked at.
const TIDY_EVERY: Duration = Duration::from_secs(2);

/// The work that goes on beside a mount. Its owner takes the last turn before dropping it: nothing is cut short.
#[derive(Debug)]
pub struct Upkeep([Option<JoinHandle<()>>; 2]);

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.0.iter().flatten().for_each(JoinHandle::abort);
    }
}

impl Serving {
    /// Gives back space and saves work in progress from time to time, until it is dropped.
    pub fn upkeep(self: &Arc<Self>) -> Upkeep {
        let saving = self.autosave_every.map(|every| self.autosaving(every));
        Upkeep([Some(self.tidying()), saving])
    }

    fn tidying(self: &Arc<Self>) -> JoinHandle<()> {
        let serving = Arc::clone(self);
        tokio::spawn(async move {
            let mut tidy = tokio::time::interval(TIDY_EVERY);
            loop {
                tidy.tick().await;
                serving.tell_reads();
                let mount = Arc::clone(&serving.mount);
                let _ = tokio::task::spawn_blocking(move || mount.tidy()).await;
            }
        })
    }

    /// Saves what has changed from time to time, until it is aborted or the lock is lost.
    fn autosaving(self: &Arc<Self>, every: Duration) -> JoinHandle<()> {
        let serving = Arc::clone(self);
        tokio::spawn(async move {
            let mut due = tokio::time::interval(every);
            due.set_missed_tick_behavior(MissedTickBehavior::Delay);
            due.tick().await;
            loop {
                due.tick().await;
                if serving.is_over() || serving.mount.keeper().is_none_or(|keeper| keeper.loss().is_some()) {
                    break;
                }
                serving.save_now().await;
            }
        })
    }

    /// Saves what has changed, unless somebody wants a commit or an unmount.
    async fn save_now(self: &Arc<Self>) {
        let Ok(_turn) = self.turn.try_lock() else { return };
        if self.is_over() {
            return;
        }
        let name = &self.mount.lineage.name;
        let wanted = self.waiting.subscribe();
        match self.autosave.save(&self.engine, &self.mount, &self.unwritten, wanted).await {
            Ok(true) => tracing::info!("the work in progress of {name} is saved"),
            Ok(false) => {}
            Err(failure) if failure.kind == ErrorKind::Interrupted => {
                tracing::info!("the work in progress of {name} is not saved: somebody wants the mount");
            }
            Err(failure) => self
                .engine
                .warn(&format!("the work in progress of {name} could not be saved: {}", failure.message)),
        }
    }

    /// The changes of this mount are committed to its profile: its work in progress is over, and so is what another run has
    /// left, if a snapshot was stored. One that was held back ends nothing.
    pub(crate) async fn work_is_committed(&self, report: &Report) {
        if report.held_back.is_none() {
            self.autosave.end(&self.mount, report.outcome == Outcome::Stored).await;
        }
    }

    /// Nobody wants the changes of this mount that are not committed, if there are any.
    pub(crate) async fn work_is_dropped(&self) {
        self.autosave.end(&self.mount, false).await;
    }
}
