//! `renew` renews the lock, or takes it again if it is gone and the pointer unclaimed, or reports its loss.

use super::{LineageHandle, ReadLock, Terms, hold::HoldState, millis, new_nonce, presence::Mark};
use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy, Write},
    format::{event::EventKind, layout, lock::Lock},
};

const ATTEMPTS: u32 = 5;

impl LineageHandle {
    /// Renews the lock. If it is gone but nobody has claimed the pointer since, it is taken
    /// again: then nothing was lost but time.
    pub(super) async fn renew(&self, state: &mut HoldState, terms: Terms) -> Result<()> {
        let key = layout::lock(&self.lineage);
        let mut last = None;
        for attempt in 1..=ATTEMPTS {
            let next = self.renewed(&state.lock, terms);
            state.sends(&next);
            let write = Write::Replace(state.version.clone());
            let error = match self.store.bucket.put(&key, next.encode().into(), write).await {
                Ok(version) => {
                    state.wrote(next, version);
                    return Ok(());
                }
                Err(error) if error.is_ambiguous() || is_lost(&error) => error,
                Err(error) => return Err(error.into()),
            };
            match self.lock().await? {
                Some(read) if read.lock.is_held_by(state.nonce) => {
                    if terms.with_process && self.rules.fence_twins && !state.knows(&read.lock) {
                        let lost = self.lost(Some(&read));
                        self.tell_lost(&lost).await;
                        return Err(lost);
                    }
                    let arrived = Mark::of(&read.lock).is_same(Mark::of(&next));
                    state.finds(read);
                    if arrived {
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

    fn renewed(&self, lock: &Lock, terms: Terms) -> Lock {
        let now = self.clock.unix_ms();
        let mut next = lock.clone();
        next.renewed_at_ms = now;
        next.expires_at_ms = now.saturating_add(millis(terms.ttl));
        next.renewal_count += 1;
        if let Some(block) = &mut next.pstore {
            block.seq += 1;
            block.mark = Some(new_nonce());
            block.by_token = !terms.with_process;
        }
        next
    }

    /// The lock is not ours. If nobody holds it and the claim on the pointer is still ours,
    /// nobody has worked on the profile since, and it may be taken again.
    async fn regain(&self, state: &mut HoldState, terms: Terms, found: Option<&ReadLock>) -> Result<()> {
        let lost = self.lost(found);
        let pointer = self.pointer().await?;
        let still_claimed =
            pointer.as_ref().is_some_and(|now| self.is_as_left(state.nonce, &state.pointer, now));
        if found.is_some_and(|found| self.is_live(found)) || !still_claimed || !self.rules.claim {
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
        let claimed_by_us =
            taken.pointer.as_ref().is_some_and(|now| self.is_as_left(state.nonce, &state.pointer, now));
        if !claimed_by_us {
            self.give_back(taken).await;
            self.tell_lost(&lost).await;
            return Err(lost);
        }
        let pointer = match self.claim(taken.granted(), Some((state.nonce, &state.pointer))).await {
            Ok(pointer) => pointer,
            Err(error) => {
                self.give_back(taken).await;
                return Err(error);
            }
        };
        if let Some(presence) = state.presence.take() {
            presence.end();
        }
        *state = HoldState::of(taken, pointer);
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
