//! Renews the lease of a write in the background, for as long as the write lives.
//!
//! The packs of a write are a poor clock: one that finds everything stored already, or reads
//! from a slow pipe, sends none for longer than a collection waits. A renewal holds the mutex
//! of the held lease, and publishing and giving up take the lease away under the same mutex, so
//! neither ever meets a renewal half done.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::Mutex,
    task::AbortHandle,
    time::{Instant, sleep_until},
};

use super::{Held, RENEW_AFTER, replace_own};
use crate::{Error, Result, content::TenantStore, format::layout, name::Lineage};

/// When a renewal that failed is tried again. The bucket has repeated it for a while by then.
const AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Renews while it exists.
#[derive(Debug)]
pub(super) struct LeaseRenewer(AbortHandle);

impl LeaseRenewer {
    pub(super) fn start(store: TenantStore, lineage: Lineage, held: &Arc<Mutex<Option<Held>>>) -> Self {
        Self(tokio::spawn(keep(store, lineage, Arc::downgrade(held))).abort_handle())
    }
}

impl Drop for LeaseRenewer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep(store: TenantStore, lineage: Lineage, lease: Weak<Mutex<Option<Held>>>) {
    let mut next = Instant::now() + RENEW_AFTER;
    loop {
        sleep_until(next).await;
        let Some(lease) = lease.upgrade() else { return };
        let mut lease = lease.lock().await;
        let Some(held) = &mut *lease else { return };
        next = held.renewed + RENEW_AFTER;
        if next > Instant::now() {
            continue;
        }
        match held.renew(&store, &lineage).await {
            Ok(()) => next = held.renewed + RENEW_AFTER,
            Err(Error::WriteRevoked { record }) => {
                tracing::warn!(%record, "the write was revoked");
                held.is_revoked = true;
                return;
            }
            // The store does not answer: that alone takes nothing from us.
            Err(error) => {
                tracing::warn!(%error, record = %held.record.record, "the lease could not be renewed");
                next = Instant::now() + AGAIN_AFTER;
            }
        }
    }
}

impl Held {
    pub(super) async fn renew(&mut self, store: &TenantStore, lineage: &Lineage) -> Result<()> {
        if self.is_too_old() {
            return Err(Error::WriteRevoked { record: self.record.record });
        }
        let mut record = self.record.clone();
        record.lease_seq += 1;
        let key = layout::record(lineage, record.record);
        // Noted before it is sent: if its answer never comes, or nobody waits for it any more,
        // the next to replace the record may find it there.
        self.unsure = Some(super::readable(&record)?);
        self.version = replace_own(store, &key, &record, self.version.clone(), None).await?;
        (self.record, self.unsure) = (record, None);
        (self.renewed, self.renewed_at) = (Instant::now(), SystemTime::now());
        Ok(())
    }
}
