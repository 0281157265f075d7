//! `LiveJobs` holds the jobs that this server does, with their logs and their progress.

use std::{collections::VecDeque, sync::Arc};

use engine::interrupt::Interrupt;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::job::Job,
    id::JobId,
    progress::{Progress, Tick},
};

/// So many lines of a job are kept, the newest.
const MAX_LINES: usize = 500;
/// So many jobs that have ended keep their lines.
const MAX_REMEMBERED: usize = 50;

/// The jobs of this server: those that it does, and the last that it did.
#[derive(Debug, Default)]
pub(crate) struct LiveJobs {
    own: Mutex<VecDeque<Arc<LiveJob>>>,
}

impl LiveJobs {
    /// One that this server does, or did not long ago.
    pub(crate) fn find(&self, id: JobId) -> Option<Arc<LiveJob>> {
        self.own.lock().iter().find(|job| job.id == id).cloned()
    }

    pub(crate) fn add(&self, job: &Arc<LiveJob>) {
        let mut own = self.own.lock();
        while own.len() >= MAX_REMEMBERED {
            let Some(oldest) = own.iter().position(|job| job.has_ended()) else { break };
            own.remove(oldest);
        }
        own.push_back(Arc::clone(job));
    }
}

/// A job as the server that does it knows it.
#[derive(Debug)]
pub(crate) struct LiveJob {
    pub(crate) id: JobId,
    /// Raised when it is to end early.
    pub(crate) interrupt: Interrupt,
    /// Raised when it has ended, and its document says so.
    pub(crate) ended: Interrupt,
    lines: Mutex<VecDeque<JobLine>>,
    progress: Mutex<Option<JobProgress>>,
    /// The document as it was written last.
    pub(crate) document: Mutex<Job>,
}

/// Something that a job has said.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JobLine {
    /// When, by the clock of the server's host.
    pub at_ms: u64,
    /// How much it matters.
    pub level: LineLevel,
    /// The text.
    pub text: String,
}

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LineLevel {
    /// A step is done.
    Step,
    /// A remark.
    Remark,
    /// Somebody should look at it.
    Warning,
}

/// How far a job is.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct JobProgress {
    /// The current step.
    pub stage: String,
    /// How many things there are to do, as far as that is known.
    pub files: u64,
    /// How many of them are done.
    pub files_done: u64,
    /// How many bytes there are to look at, as far as that is known.
    pub bytes: u64,
    /// How many of them were looked at.
    pub bytes_done: u64,
}

impl LiveJob {
    pub(crate) fn new(job: &Job) -> Self {
        Self {
            id: job.id,
            interrupt: Interrupt::new(),
            ended: Interrupt::new(),
            lines: Mutex::default(),
            progress: Mutex::default(),
            document: Mutex::new(job.clone()),
        }
    }

    /// Its log, the oldest line first.
    pub(crate) fn lines(&self) -> Vec<JobLine> {
        self.lines.lock().iter().cloned().collect()
    }

    /// How far it is; `None` if it has not said.
    pub(crate) fn progress(&self) -> Option<JobProgress> {
        self.progress.lock().clone()
    }

    /// The document, as the store has it unless that was away.
    pub(crate) fn document(&self) -> Job {
        self.document.lock().clone()
    }

    fn has_ended(&self) -> bool {
        self.document.lock().ended_at_ms.is_some()
    }

    /// Keeps a line, for as long as it is one of the newest.
    pub(crate) fn say(&self, line: JobLine) {
        let mut lines = self.lines.lock();
        if lines.len() >= MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// Follows the work of a job.
pub(crate) struct Follower(pub(crate) Arc<LiveJob>);

impl Progress for Follower {
    fn begin(&self, stage: &'static str, files: u64, bytes: u64) {
        let begun = JobProgress { stage: stage.to_owned(), files, bytes, ..JobProgress::default() };
        *self.0.progress.lock() = Some(begun);
    }

    fn tick(&self, tick: Tick) {
        if let Some(progress) = &mut *self.0.progress.lock() {
            progress.files_done += tick.files;
            progress.bytes_done += tick.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{catalog::jobs, format::event::Actor};

    use super::*;

    fn live(at: u64) -> Arc<LiveJob> {
        let job = Job::new(jobs::new_id(), "gc", Actor::default(), "here", at);
        Arc::new(LiveJob::new(&job))
    }

    #[test]
    fn lines_and_jobs_are_bounded_and_the_newest_stay() {
        let jobs = LiveJobs::default();
        let running = live(0);
        jobs.add(&running);
        for at in 1..200 {
            let job = live(at);
            jobs.add(&job);
            job.document.lock().ended_at_ms = Some(at);
        }
        assert!(jobs.own.lock().len() <= MAX_REMEMBERED);
        assert!(jobs.find(running.id).is_some(), "one that goes on is never forgotten");
        for at in 0..2000 {
            running.say(JobLine { at_ms: at, level: LineLevel::Step, text: String::new() });
        }
        let lines = running.lines();
        assert_eq!((lines.len(), lines[lines.len() - 1].at_ms), (MAX_LINES, 1999));
    }

    #[test]
    fn progress_begins_anew_with_every_stage() {
        let job = live(0);
        let follower = Follower(Arc::clone(&job));
        follower.tick(Tick { bytes: 5, ..Tick::default() });
        assert!(job.progress().is_none());
        follower.begin("packs", 2, 10);
        follower.tick(Tick { files: 1, bytes: 5, ..Tick::default() });
        let progress = job.progress().unwrap();
        assert_eq!((progress.files_done, progress.bytes_done, progress.bytes), (1, 5, 10));
        follower.begin("records", 1, 0);
        assert_eq!(job.progress().unwrap().bytes_done, 0);
    }
}
