//! `JobObserver` keeps and logs the remarks of the engine during a job.

use std::sync::Arc;

use engine::observer::{Observation, Observer};
use store::{catalog::clock, progress::Progress};

use crate::{
    live_jobs::{Follower, JobLine, LineLevel, LiveJob},
    observer::RequestObserver,
};

/// Of one job.
#[derive(Debug)]
pub(super) struct JobObserver {
    pub(super) job: Arc<LiveJob>,
    pub(super) log: RequestObserver,
}

impl Observer for JobObserver {
    fn observe(&self, observation: &Observation<'_>) {
        self.log.observe(observation);
        let (level, text) = match observation {
            Observation::Step(text) => (LineLevel::Step, *text),
            Observation::Remark(text) => (LineLevel::Remark, *text),
            Observation::Warning(text) => (LineLevel::Warning, *text),
            _ => return,
        };
        self.job.say(JobLine { at_ms: clock::unix_ms(), level, text: text.to_owned() });
    }

    fn progress(&self) -> Arc<dyn Progress> {
        Arc::new(Follower(Arc::clone(&self.job)))
    }
}
