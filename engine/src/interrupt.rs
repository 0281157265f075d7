//! `Interrupt` tells work that the user, or the host, wants it to end.

use std::sync::Arc;

use store::ops::point_of_no_return::PointOfNoReturn;
use tokio::sync::watch;

/// Raised once. Who listens cleans up and ends by itself; nobody else is waited for.
#[derive(Clone, Debug)]
pub struct Interrupt {
    raised: Arc<watch::Sender<bool>>,
    /// What cannot be undone is done only if this can be made.
    point_of_no_return: PointOfNoReturn,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self::new()
    }
}

impl Interrupt {
    /// One that is not raised.
    pub fn new() -> Self {
        Self { raised: Arc::new(watch::Sender::new(false)), point_of_no_return: PointOfNoReturn::default() }
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
