//! `Cutoff` ends the work on a snapshot when its time is up, or when nobody wants it any more.

use std::time::{Duration, Instant};

use engine::{Engine, failure::Failure, interrupt::Interrupt};
use futures::future::BoxFuture;
use store::{Error, ErrorKind};

use super::snapshot_request::ContainerSnapshotRequest;

/// When the work on a snapshot ends, whether or not it is done.
pub(super) struct Cutoff<'a> {
    engine: &'a Engine,
    request: &'a ContainerSnapshotRequest,
    /// Since when the time runs.
    began: Instant,
}

impl<'a> Cutoff<'a> {
    /// The time runs from now on.
    pub fn new(engine: &'a Engine, request: &'a ContainerSnapshotRequest) -> Self {
        Self { engine, request, began: Instant::now() }
    }

    /// So much of the time does not count: it was spent on something that has a limit of its own.
    pub fn put_off(&mut self, spent: Duration) {
        self.began += spent;
    }

    /// Whether the work is given up while nothing rests.
    pub fn is_given_up(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let (caller, ending) = (self.engine.interrupt.clone(), self.ending().clone());
        move || caller.is_raised() || ending.is_raised()
    }

    /// Does a part of the work during which nothing rests: it ends with its caller, too.
    pub async fn before_rest<T>(&self, work: BoxFuture<'_, Result<T, Failure>>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            () = self.engine.interrupt.raised() => Err(Error::Interrupted.into()),
            done = self.limited(work) => done,
        }
    }

    /// Does a part of the work. Fails when the time is up, or when it is told to end.
    pub async fn limited<T>(&self, work: BoxFuture<'_, Result<T, Failure>>) -> Result<T, Failure> {
        let left = self.request.time_limit.map(|limit| limit.saturating_sub(self.began.elapsed()));
        if left == Some(Duration::ZERO) {
            // Nothing is begun that the daemon would finish for nobody.
            return Err(self.too_late());
        }
        let until_late = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.ending().raised() => Err(Error::Interrupted.into()),
            () = until_late => Err(self.too_late()),
            done = work => done,
        }
    }

    /// Raised when nothing may rest any longer.
    fn ending(&self) -> &Interrupt {
        self.request.ending.as_ref().unwrap_or(&self.engine.interrupt)
    }

    fn too_late(&self) -> Failure {
        let seconds = self.request.time_limit.unwrap_or_default().as_secs_f64();
        let message = format!("the snapshot of {} was not done within {seconds} s", self.request.container);
        Failure::new(ErrorKind::Unavailable, message)
            .hint("--timeout allows more; nothing was changed, and the container goes on")
    }
}
