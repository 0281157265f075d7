//! `UnfinishedWork` finishes a request that has begun, whether or not its caller still waits.

use std::panic::AssertUnwindSafe;

use engine::failure::Failure;
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::problem::Refusal;

/// The requests that are being carried out.
#[derive(Debug)]
pub(crate) struct UnfinishedWork {
    /// Each piece of work holds a clone until it has ended; none is left once the server stops.
    begun: Mutex<Option<mpsc::Sender<()>>>,
    ended: tokio::sync::Mutex<mpsc::Receiver<()>>,
}

impl Default for UnfinishedWork {
    fn default() -> Self {
        let (begun, ended) = mpsc::channel(1);
        Self { begun: Mutex::new(Some(begun)), ended: tokio::sync::Mutex::new(ended) }
    }
}

/// Holds up the end of a server until it is dropped; a server that stops already no longer waits.
#[derive(Debug)]
pub(crate) struct Begun {
    _sender: Option<mpsc::Sender<()>>,
}

impl UnfinishedWork {
    /// Work that has begun, and ends when this is dropped.
    pub(crate) fn begin(&self) -> Begun {
        Begun { _sender: self.begun.lock().clone() }
    }

    /// Carries it out in a task of its own: a caller that goes away does not take it along.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Refusal>> + Send + 'static,
    ) -> Result<T, Refusal> {
        let begun = self.begin();
        let task = tokio::spawn(async move {
            let answer = work.await;
            drop(begun);
            answer
        });
        task.await
            .unwrap_or_else(|error| Err(Failure::internal(format!("the request failed: {error}")).into()))
    }

    /// Waits until all that was begun has ended. What begins from now on is not waited for.
    pub(crate) async fn all_ended(&self) {
        self.begun.lock().take();
        let _ = self.ended.lock().await.recv().await;
    }
}

/// Carries it out; a panic in it is a failure.
pub(crate) async fn caught<T>(work: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
    let ended = AssertUnwindSafe(work).catch_unwind().await;
    ended.unwrap_or_else(|_| Err(Failure::internal("the request ended with a panic").into()))
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn what_was_begun_is_done_though_nobody_waits_for_it() {
        let (work, is_done) = (Arc::new(UnfinishedWork::default()), Arc::new(AtomicBool::new(false)));
        let done = Arc::clone(&is_done);
        let waiting = work.finish(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            done.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(5), waiting).await.is_err());
        assert!(!is_done.load(Ordering::SeqCst));
        work.all_ended().await;
        assert!(is_done.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_panic_is_an_internal_failure() {
        let answer: Result<(), Refusal> =
            UnfinishedWork::default().finish(async { panic!("on purpose") }).await;
        assert_eq!(answer.unwrap_err().status, 500);
        let answer: Result<(), Refusal> = caught(async { panic!("on purpose") }).await;
        assert_eq!(answer.unwrap_err().status, 500);
    }
}
