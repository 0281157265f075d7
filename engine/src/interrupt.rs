//! The user, or the host, wants the command to end.

use std::sync::Arc;

use store::ops::commitment::Commitment;
use tokio::sync::watch;

/// Raised once. Who listens cleans up and ends by itself; nobody else is waited for.
#[derive(Clone, Debug)]
pub struct Interrupt {
    raised: Arc<watch::Sender<bool>>,
    /// What cannot be undone is done only if this can be made.
    commitment: Commitment,
}

impl Interrupt {
    pub fn new() -> Self {
        Self { raised: Arc::new(watch::Sender::new(false)), commitment: Commitment::default() }
    }

    pub fn commitment(&self) -> &Commitment {
        &self.commitment
    }

    /// Whether somebody listens.
    pub fn raise(&self) -> bool {
        let is_heard = self.raised.receiver_count() > 0;
        self.raised.send_replace(true);
        is_heard
    }

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
