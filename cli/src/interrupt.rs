//! The user, or the host, wants the command to end.

use std::sync::Arc;

use tokio::sync::watch;

/// Raised once. Who listens cleans up and ends by itself; nobody else is waited for.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt(Arc<watch::Sender<bool>>);

impl Interrupt {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Whether somebody listens.
    pub(crate) fn raise(&self) -> bool {
        self.0.send(true).is_ok()
    }

    /// Ends when it is raised. Listens from now on.
    pub(crate) fn raised(&self) -> impl Future<Output = ()> + use<> {
        let mut receiver = self.0.subscribe();
        async move {
            if receiver.wait_for(|raised| *raised).await.is_err() {
                std::future::pending().await
            }
        }
    }
}
