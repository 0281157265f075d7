//! `progress` tells a client how far a call is, if the client has asked for that.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use engine::observer::{Observation, Observer};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use store::progress::{Progress, Tick};

/// The time between two notifications.
const INTERVAL: Duration = Duration::from_millis(250);

/// What was done so far. It only grows: a client takes each notification for more than the one before.
#[derive(Debug, Default)]
struct Done {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Files of all stages that have begun.
    expected_files: AtomicU64,
    /// The files of the last notification.
    told_files: AtomicU64,
}

impl Done {
    /// What the client is told next, if there is more than it knows.
    fn news(&self, token: &ProgressToken) -> Option<ProgressNotificationParam> {
        let (files, bytes) = (self.files.load(Relaxed), self.bytes.load(Relaxed));
        if files <= self.told_files.swap(files, Relaxed) {
            return None;
        }
        let report = ProgressNotificationParam::new(token.clone(), files as f64)
            .with_message(format!("{files} files, {} MiB", bytes >> 20));
        let expected = self.expected_files.load(Relaxed);
        Some(if expected >= files { report.with_total(expected as f64) } else { report })
    }
}

/// Tells a client how far its call is.
#[derive(Clone, Debug)]
pub(crate) struct Reports {
    done: Arc<Done>,
    peer: Peer<RoleServer>,
    token: ProgressToken,
}

impl Reports {
    /// Tells what there is to tell.
    pub(crate) async fn once(&self) {
        if let Some(report) = self.done.news(&self.token) {
            // The reader of a client notices that it has gone.
            let _ = self.peer.notify_progress(report).await;
        }
    }

    /// Tells again and again, and never ends.
    pub(crate) async fn repeated(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.once().await;
        }
    }
}

impl Progress for Done {
    fn begin(&self, _: &'static str, files: u64, _: u64) {
        self.expected_files.fetch_add(files, Relaxed);
    }

    fn tick(&self, tick: Tick) {
        self.files.fetch_add(tick.files, Relaxed);
        self.bytes.fetch_add(tick.bytes, Relaxed);
    }
}

/// Hears what the engine says during one call: progress is counted, all else goes on to who hears it otherwise.
#[derive(Debug)]
pub(crate) struct CallObserver {
    done: Arc<Done>,
    further: Arc<dyn Observer>,
}

impl CallObserver {
    pub(crate) fn new(further: Arc<dyn Observer>) -> Self {
        Self { done: Arc::default(), further }
    }

    /// With which the client is told.
    pub(crate) fn reports(&self, peer: Peer<RoleServer>, token: ProgressToken) -> Reports {
        Reports { done: Arc::clone(&self.done), peer, token }
    }
}

impl Observer for CallObserver {
    fn observe(&self, observation: &Observation<'_>) {
        self.further.observe(observation);
    }

    fn progress(&self) -> Arc<dyn Progress> {
        Arc::clone(&self.done) as Arc<dyn Progress>
    }
}
