//! Takes locks away: expired ones for the reaper, any for an operator.

use std::time::Duration;

use bytes::Bytes;

use super::{LineageHandle, ReadLock};
use crate::{
    Error, Result,
    bucket::{BucketError, Deleted, Key, Object, RetryPolicy, Version, Write},
    error::Holder,
    format::{
        event::{Event, EventKind},
        layout, limits,
        lock::{Lock, OPERATOR_FORCE},
    },
    observer::{EvictionReason, LockEvent},
};

/// Every lost attempt means that somebody else has written; more than this is no accident.
const ATTEMPTS: u32 = 16;

/// A lock that was taken away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The holder that lost the lock.
    pub holder: Holder,
    /// Why it was taken away.
    pub reason: EvictionReason,
    /// How long it had been expired.
    pub expired_for: Duration,
}

/// The outcome of reaping one lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// The lock had expired, and is free.
    Evicted(Eviction),
    /// Held, or expired for less than the grace.
    Left,
    /// There is none, or nobody holds it.
    Free,
    /// Somebody else was quicker.
    Lost,
}

impl LineageHandle {
    /// Takes the lock away if it has been expired for longer than `grace`.
    pub async fn reap(&self, grace: Duration) -> Result<Reaped> {
        let Some(read) = self.lock().await? else { return Ok(Reaped::Free) };
        if read.lock.is_free() {
            let old = read.stamp.age() > grace;
            self.settle(read.lock.block().and_then(|block| block.event.as_ref())).await?;
            if old {
                self.remember_holder(&read.lock).await?;
                self.sweep(&read.version).await;
            }
            return Ok(Reaped::Free);
        }
        let expired_for = match read.expired_for() {
            Some(expired) if expired > grace => expired,
            _ => return Ok(Reaped::Left),
        };
        self.settle(read.lock.block().and_then(|block| block.event.as_ref())).await?;
        self.remember_holder(&read.lock).await?;
        let mut event = self.event(EventKind::LockEvicted);
        event.reason = EvictionReason::TtlExpired.as_str().to_owned();
        event.holder = Some(read.lock.holder());
        let Some(version) = self.free(&read.version, "", event.clone()).await? else {
            return Ok(Reaped::Lost);
        };
        // It is written in the lock that is about to go, and perhaps nowhere else.
        self.settle(Some(&event)).await?;
        let holder = Holder::from(&read);
        tracing::warn!(
            lineage = %self.lineage, holder_run_id = ?holder.run_id, host = ?holder.host,
            "an expired lock was evicted"
        );
        self.tell(LockEvent::Evicted(EvictionReason::TtlExpired));
        self.sweep(&version).await;
        Ok(Reaped::Evicted(Eviction { holder, reason: EvictionReason::TtlExpired, expired_for }))
    }

    /// The outcome that [`Self::reap`] would have. Nothing is changed.
    pub async fn would_reap(&self, grace: Duration) -> Result<Reaped> {
        let Some(read) = self.lock().await? else { return Ok(Reaped::Free) };
        if read.lock.is_free() {
            return Ok(Reaped::Free);
        }
        Ok(match read.expired_for() {
            Some(expired_for) if expired_for > grace => Reaped::Evicted(Eviction {
                holder: Holder::from(&read),
                reason: EvictionReason::TtlExpired,
                expired_for,
            }),
            _ => Reaped::Left,
        })
    }

    /// Takes the lock away from any holder, even a lock that cannot be read. `None` if there
    /// was nothing to take.
    ///
    /// The claim goes first: a holder that lives would else take the free lock again when it
    /// renews, as after an expiry that was none of its doing.
    pub async fn force_unlock(&self, reason: &str) -> Result<Option<Eviction>> {
        for attempt in 1..=ATTEMPTS {
            let key = layout::lock(&self.lineage);
            let (read, version) = match self.store.bucket.get(&key, limits::LOCK).await {
                Ok(Object { bytes, version, stamp }) => {
                    let lock = Lock::decode(&bytes).ok();
                    (lock.map(|lock| ReadLock { lock, version: version.clone(), stamp }), version)
                }
                Err(BucketError::NotFound { .. }) => return Ok(None),
                Err(BucketError::TooLarge { version, .. }) => (None, Version::new(version)),
                Err(error) => return Err(error.into()),
            };
            if let Some(read) = &read {
                self.settle(read.lock.block().and_then(|block| block.event.as_ref())).await?;
                if read.lock.is_free() {
                    return Ok(None);
                }
                self.remember_holder(&read.lock).await?;
            }
            self.withdraw_claim().await?;
            let mut event = self.event(EventKind::ForceUnlock);
            event.reason = reason.to_owned();
            event.holder = read.as_ref().map(|read| read.lock.holder());
            if self.free(&version, OPERATOR_FORCE, event).await?.is_none() {
                tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
                continue;
            }
            let holder = read.as_ref().map(Holder::from).unwrap_or_default();
            let expired_for = read.as_ref().and_then(ReadLock::expired_for).unwrap_or_default();
            tracing::warn!(
                lineage = %self.lineage, holder_run_id = ?holder.run_id, reason,
                "an operator took the lock away"
            );
            self.tell(LockEvent::Evicted(EvictionReason::OperatorForce));
            return Ok(Some(Eviction { holder, reason: EvictionReason::OperatorForce, expired_for }));
        }
        Err(Error::Conflict { what: format!("the lock of {}", self.lineage) })
    }

    /// Notes that the holder is a program which knows only the contract. Only its lock says so, and that is
    /// about to go.
    async fn remember_holder(&self, lock: &Lock) -> Result<()> {
        if lock.is_of_contract_only() { self.remember_contract_only().await } else { Ok(()) }
    }

    /// Replaces the lock by a free one that carries `event`. `None` if somebody else has
    /// changed it, as far as that can be told: the free lock is not to be seen there.
    async fn free(&self, version: &Version, holder: &str, event: Event) -> Result<Option<Version>> {
        let key = layout::lock(&self.lineage);
        let free = Bytes::from(self.free_lock(holder, Some(event.clone())).encode());
        let write = Write::Replace(version.clone());
        let freed = match self.store.bucket.put(&key, free.clone().into(), write).await {
            Ok(version) => Some(version),
            Err(error) if error.is_ambiguous() => self.freed(&key, &free).await?,
            Err(BucketError::VersionMismatch { .. } | BucketError::Contended { .. }) => {
                self.freed(&key, &free).await?
            }
            Err(error) => return Err(error.into()),
        };
        if freed.is_some() {
            self.store_event(&event).await;
        }
        Ok(freed)
    }

    /// The version of the stored lock, if it is `free` byte for byte: the object that it was to replace
    /// may be no lock at all.
    async fn freed(&self, key: &Key, free: &Bytes) -> Result<Option<Version>> {
        match self.store.bucket.get(key, free.len() as u64).await {
            Ok(object) => Ok(Some(object.version).filter(|_| object.bytes == *free)),
            Err(BucketError::NotFound { .. } | BucketError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a free lock where a delete can carry a condition. Elsewhere it stays, which
    /// costs one small object.
    async fn sweep(&self, version: &Version) {
        match self.store.bucket.delete_if(&layout::lock(&self.lineage), version).await {
            Ok(Deleted::Yes | Deleted::Unsupported) => {}
            Err(error) => tracing::debug!(%error, "a free lock was not removed"),
        }
    }
}
