//! `Delivery` undoes the change that an answer reports, unless the answer is sent to its caller.
//!
//! A caller that goes away before it has its answer never ends what was made for it: a mount would stay, and hold the lock.

use std::{fmt, pin::Pin, sync::Arc, time::Duration};

use engine::interrupt::Interrupt;
use parking_lot::Mutex;

use crate::unfinished_work::Begun;

/// How long a caller with an `Idempotency-Key` has to ask again for an answer that was lost.
pub(crate) const REPEAT_TIME: Duration = Duration::from_secs(10);

/// Undoes something.
type Undoing = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Whether an answer was forgotten.
type Forgetting = Box<dyn FnOnce() -> bool + Send>;

/// What answers with something to undo carry. When the last clone is dropped unsent, it is undone.
#[derive(Clone)]
pub(crate) struct Delivery(Arc<Unsent>);

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Delivery")
    }
}

struct Unsent {
    undo: Mutex<Option<Undo>>,
}

struct Undo {
    undoing: Undoing,
    /// A server that stops waits until this is dropped.
    begun: Begun,
    stopping: Interrupt,
    /// Of a remembered answer: forgets it, unless its caller has asked for it again.
    forget: Option<Forgetting>,
}

impl Delivery {
    /// `undoing` is polled only if the answer is lost. It counts as `begun` until then.
    pub(crate) fn new(
        begun: Begun,
        stopping: Interrupt,
        undoing: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let undo = Undo { undoing: Box::pin(undoing), begun, stopping, forget: None };
        Self(Arc::new(Unsent { undo: Mutex::new(Some(undo)) }))
    }

    /// The answer is remembered, so its caller may ask for it again. `forget` forgets it unless that has happened.
    pub(crate) fn is_kept(&self, forget: impl FnOnce() -> bool + Send + 'static) {
        if let Some(undo) = self.0.undo.lock().as_mut() {
            undo.forget = Some(Box::new(forget));
        }
    }

    /// The answer was handed to the kernel.
    pub(crate) fn is_sent(&self) {
        self.0.undo.lock().take();
    }
}

impl Drop for Unsent {
    fn drop(&mut self) {
        let Some(undo) = self.undo.get_mut().take() else { return };
        // Outside of a runtime the server has ended, and nothing can be undone.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(undo.run());
        }
    }
}

impl Undo {
    async fn run(self) {
        let Self { undoing, begun, stopping, forget } = self;
        if let Some(forget) = forget {
            tokio::select! {
                () = tokio::time::sleep(REPEAT_TIME) => {}
                () = stopping.raised() => {}
            }
            if !forget() {
                return;
            }
        }
        undoing.await;
        drop(begun);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use axum::{body::Body, http::Response};

    use super::*;
    use crate::unfinished_work::UnfinishedWork;

    /// A delivery, and whether what it tells of was undone.
    fn delivery(work: &UnfinishedWork) -> (Delivery, Arc<AtomicBool>) {
        let is_undone = Arc::new(AtomicBool::new(false));
        let undone = Arc::clone(&is_undone);
        let undoing = async move {
            tokio::task::yield_now().await;
            undone.store(true, Ordering::SeqCst);
        };
        (Delivery::new(work.begin(), Interrupt::new(), undoing), is_undone)
    }

    #[tokio::test]
    async fn what_was_told_to_nobody_is_undone_before_the_server_ends() {
        let work = UnfinishedWork::default();
        let (told, is_undone) = delivery(&work);
        told.clone().is_sent();
        drop(told);
        let (lost, is_lost_undone) = delivery(&work);
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(lost);
        drop(response);
        work.all_ended().await;
        assert!(!is_undone.load(Ordering::SeqCst) && is_lost_undone.load(Ordering::SeqCst));
    }
}
