//! `Interrupt` tells work that the user, or the host, wants it to end.

use std::sync::Arc;

use store::ops::point_of_no_return::PointOfNoReturn;
use tokio::sync::watch;

/// Raised once. Who listens cleans up and ends by itself; nobody else is waited for. One who has said that something
/// is not as it was found is waited for as long as that takes.
#[derive(Clone, Debug)]
pub struct Interrupt {
    raised: Arc<watch::Sender<bool>>,
    /// Each [`Unsettled`] is one that receives from it.
    unsettled: Arc<watch::Sender<()>>,
    /// What cannot be undone is done only if this can be made.
    point_of_no_return: PointOfNoReturn,
}

/// While somebody has one, something is not as it was found, such as a service that rests.
#[derive(Debug)]
#[must_use = "it says so until it is dropped"]
pub struct Unsettled(
    #[expect(dead_code, reason = "it is counted, and receives nothing")] watch::Receiver<()>,
);

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupt {
    /// One that is not raised.
    pub fn new() -> Self {
        Self {
            raised: Arc::new(watch::Sender::new(false)),
            unsettled: Arc::new(watch::Sender::new(())),
            point_of_no_return: PointOfNoReturn::default(),
        }
    }

    /// Passed before something is done that cannot be undone.
    pub fn point_of_no_return(&self) -> &PointOfNoReturn {
        &self.point_of_no_return
    }

    /// Whether somebody listens.
    pub fn raise(&self) -> bool {
        let is_heard = self.raised.receiver_count() > 0;
        self.raised.send_replace(true);
        is_heard
    }

    /// Says that work must not be dropped until it has put back what it is about to change.
    pub fn unsettle(&self) -> Unsettled {
        Unsettled(self.unsettled.subscribe())
    }

    /// Whether something is not as it was found yet.
    pub fn is_unsettled(&self) -> bool {
        self.unsettled.receiver_count() > 0
    }

    /// Whether it is raised.
    pub fn is_raised(&self) -> bool {
        *self.raised.borrow()
    }

    /// Ends when it is raised. Listens from now on.
    pub fn raised(&self) -> impl Future<Output = ()> + use<> {
        let mut receiver = self.raised.subscribe();
        async move {
            if receiver.wait_for(|raised| *raised).await.is_err() {
                std::future::pending().await
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_unsettled_until_the_last_who_said_so_has_settled_it() {
        let interrupt = Interrupt::new();
        assert!(!interrupt.is_unsettled());
        let (one, other) = (interrupt.unsettle(), interrupt.clone().unsettle());
        drop(one);
        assert!(interrupt.is_unsettled());
        drop(other);
        assert!(!interrupt.is_unsettled());
    }
}
