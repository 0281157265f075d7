//! `workers` runs work that blocks: on threads side by side, or beside a future that waits for it.

use std::thread;

use tokio::task::{JoinHandle, JoinSet};

use crate::{Error, Result};

/// Runs `work` on `threads` threads; the first error counts, after all have ended.
pub fn run(threads: usize, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(&work)).collect();
        let mut result = Ok(());
        for worker in workers {
            let panicked = || Error::Internal { what: "a worker thread panicked".to_owned() };
            let ended = worker.join().unwrap_or_else(|_| Err(panicked()));
            result = result.and(ended);
        }
        result
    })
}

/// Runs work that computes or blocks away from the threads that wait.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let started = match start(work) {
        Ok(started) => started,
        Err(done) => return *done,
    };
    started.await.map_err(|error| Error::Internal { what: error.to_string() })?
}

/// The task that was started, or its result if it is done. Boxed: futures that wait for it are nested deeply.
fn start<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<JoinHandle<Result<T>>, Box<Result<T>>> {
    #[cfg(any(test, feature = "test-support"))]
    if at_once::is_wanted() {
        return Err(Box::new(work()));
    }
    Ok(tokio::task::spawn_blocking(work))
}

/// For tests that choose every step themselves: no other thread decides when one is done.
#[cfg(any(test, feature = "test-support"))]
pub mod at_once {
    use std::cell::Cell;

    thread_local! {
        static WANTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Runs the work that this thread asks for from now on on the thread itself.
    pub fn begin() {
        WANTED.set(true);
    }

    /// Ends the effect of [`begin`].
    pub fn end() {
        WANTED.set(false);
    }

    pub(super) fn is_wanted() -> bool {
        WANTED.get()
    }
}

/// Runs work that waits beside the caller, so that it goes on while the caller computes. Dropped, it
/// is given up.
pub async fn beside<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    let mut task = JoinSet::new();
    task.spawn(work);
    let lost = |what: String| Error::Internal { what };
    let ended = task.join_next().await.ok_or_else(|| lost("a task was never spawned".to_owned()))?;
    ended.map_err(|error| lost(error.to_string()))?
}
