//! `HeldOrOwnLock` is the right to move the pointer, for as long as a capture takes.

use std::{sync::Arc, time::Duration};

use super::{Capture, LockUse};
use crate::{
    Error, Result,
    catalog::lock::{Hold, LockAndPointer, LockRenewer},
};

pub(super) struct HeldOrOwnLock {
    pub hold: Arc<Hold>,
    /// Of a lock of our own: the caller keeps its own.
    keeper: Option<LockRenewer>,
}

impl HeldOrOwnLock {
    pub async fn obtain(capture: &Capture<'_>, survey: LockAndPointer) -> Result<Self> {
        let handle = &capture.handle;
        match &capture.request.lock {
            LockUse::Held(token) => Ok(Self { hold: Arc::new(handle.adopt(*token).await?), keeper: None }),
            LockUse::Take { terms, renew_every, patience } => {
                let hold = Arc::new(handle.acquire_after(survey, *terms, patience.clone()).await?);
                let keeper = hold.keep((*renew_every).max(Duration::from_millis(1)));
                Ok(Self { hold, keeper: Some(keeper) })
            }
        }
    }

    /// Waits until the lock is lost, perhaps for ever.
    pub async fn lost(&self) -> Error {
        let Some(keeper) = &self.keeper else { return std::future::pending().await };
        match &*keeper.lost().await {
            Error::PointerMoved { lineage, reason, .. } => {
                Error::PointerMoved { record: None, lineage: lineage.clone(), reason: reason.clone() }
            }
            Error::LockLost { lineage, holder, .. } => {
                Error::LockLost { record: None, lineage: lineage.clone(), holder: holder.clone() }
            }
            other => Error::Internal { what: other.to_string() },
        }
    }

    /// Gives a lock of our own back. If that fails it expires by itself.
    pub async fn give_back(self) {
        if self.keeper.is_none() {
            return;
        }
        drop(self.keeper);
        if let Err(error) = self.hold.release().await {
            tracing::warn!(%error, "the lock could not be given back; it expires by itself");
        }
    }
}
