//! `PinKeeper` renews a pin in the background.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinHandle};

use super::{Pinned, Renewal};
use crate::Error;

impl Pinned {
    /// Renews the pin every so often until the keeper is dropped.
    pub fn keep(self: &Arc<Self>, every: Duration) -> PinKeeper {
        let (sender, lost) = watch::channel(None);
        let pinned = Arc::clone(self);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                match pinned.renew().await {
                    // Who misses what was moved looks where it is by then.
                    Ok(Renewal::Held | Renewal::Moved(_)) => {}
                    Err(error @ Error::NotFound { .. }) => {
                        tracing::warn!(%error, "a snapshot was deleted while it was read");
                        sender.send_replace(Some(Arc::new(error)));
                        return;
                    }
                    Err(error) => tracing::warn!(%error, "a pin could not be renewed"),
                }
            }
        });
        PinKeeper { task, lost }
    }
}

/// Keeps a pin renewed while it exists.
#[derive(Debug)]
pub struct PinKeeper {
    task: JoinHandle<()>,
    /// Why there is nothing left to pin.
    lost: watch::Receiver<Option<Arc<Error>>>,
}

impl PinKeeper {
    /// Renews no more.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Waits until the snapshot is gone, perhaps for ever.
    pub async fn lost(&self) -> Arc<Error> {
        let mut lost = self.lost.clone();
        loop {
            if let Some(error) = lost.borrow_and_update().clone() {
                return error;
            }
            if lost.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for PinKeeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
