//! Renewing the lock.

use std::time::Duration;

use super::{Controls, ReadLock, Terms, hold::State, millis};
use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy, Write},
    format::{event::EventKind, layout, lock::Lock},
};

const ATTEMPTS: u32 = 5;

impl Controls {
    /// Renews the lock. If it is gone but nobody has claimed the pointer since, it is taken
    /// again: then nothing was lost but time.
    pub(super) async fn renew(&self, state: &mut State, terms: Terms) -> Result<()> {
        let key = layout::lock(&self.lineage);
        let mut last = None;
        for attempt in 1..=ATTEMPTS {
            let next = self.renewed(&state.lock, terms.ttl);
            let write = Write::Replace(state.version.clone());
            let error = match self.store.bucket.put(&key, next.encode().into(), write).await {
                Ok(version) => {
                    (state.lock, state.version) = (next, version);
                    return Ok(());
                }
                Err(error) if error.is_ambiguous() || is_lost(&error) => error,
                Err(error) => return Err(error.into()),
            };
            match self.lock().await? {
                Some(ReadLock { lock, version, .. }) if lock.is_held_by(state.nonce) => {
                    let renewed = lock.renewal_count > state.lock.renewal_count;
                    (state.lock, state.version) = (lock, version);
                    if renewed {
                        return Ok(());
                    }
                }
                found => return self.regain(state, terms, found.as_ref()).await,
            }
            last = Some(error);
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(last.map_or_else(|| self.lost(None), Error::from))
    }

    fn renewed(&self, lock: &Lock, ttl: Duration) -> Lock {
        let now = self.clock.unix_ms();
        let mut next = lock.clone();
        next.renewed_at_ms = now;
        next.expires_at_ms = now.saturating_add(millis(ttl));
        next.renewal_count += 1;
        if let Some(block) = &mut next.pstore {
            block.seq += 1;
        }
        next
    }

    /// The lock is not ours. If nobody holds it and the claim on the pointer is still ours,
    /// nobody has worked on the profile since, and it may be taken again.
    async fn regain(&self, state: &mut State, terms: Terms, found: Option<&ReadLock>) -> Result<()> {
        let lost = self.lost(found);
        let pointer = self.pointer().await?;
        let still_claimed =
            pointer.as_ref().and_then(|read| read.lease()).is_some_and(|lease| lease.nonce == state.nonce);
        if found.is_some_and(ReadLock::is_live) || !still_claimed || !self.rules.claim {
            self.tell_lost(&lost).await;
            return Err(lost);
        }
        let taken = match self.take(None, terms).await {
            Ok(taken) => taken,
            Err(Error::LockHeld { .. }) => {
                self.tell_lost(&lost).await;
                return Err(lost);
            }
            Err(error) => return Err(error),
        };
        self.tell_eviction(&taken.lock).await;
        // Between the look and the taking somebody may have come and gone: the claim that
        // the pointer carries now tells.
        let claimed_by_us = taken
            .pointer
            .as_ref()
            .and_then(|read| read.lease())
            .is_some_and(|lease| lease.nonce == state.nonce);
        if !claimed_by_us {
            self.release_lock(taken.nonce, taken.version).await.ok();
            self.tell_lost(&lost).await;
            return Err(lost);
        }
        state.pointer = match self.claim(&taken, Some(state.nonce)).await {
            Ok(pointer) => pointer,
            Err(error) => {
                self.release_lock(taken.nonce, taken.version).await.ok();
                return Err(error);
            }
        };
        (state.nonce, state.lock, state.version) = (taken.nonce, taken.lock, taken.version);
        let mut event = self.event(EventKind::LockRegained);
        event.holder = Some(self.actor.clone());
        self.store_event(&event).await;
        tracing::warn!(lineage = %self.lineage, run = ?self.actor.run_id, "the lock was gone and was taken again");
        Ok(())
    }

    pub(super) async fn tell_lost(&self, error: &Error) {
        let mut event = self.event(EventKind::LockLost);
        if let Error::LockLost { holder: Some(holder), .. } = error {
            event.reason = format!("held by {} now", holder.run_id);
        }
        event.holder = Some(self.actor.clone());
        self.store_event(&event).await;
    }
}

fn is_lost(error: &BucketError) -> bool {
    matches!(error, BucketError::VersionMismatch { .. } | BucketError::Contended { .. })
}
