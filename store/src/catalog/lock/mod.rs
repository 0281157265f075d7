//! Reads and writes `lock.json`, which says who may move a lineage's pointer.
//!
//! The lock keeps people out of each other's way; the claim on the pointer, which its holder
//! makes, keeps data safe (see [`super::pointer`]). So a lock may be judged expired
//! at any moment without harm, and is: by the store's own clock, never by a host's.
//!
//! Whoever loses a lock learns it from `hold`, whose `LockRenewer` notices the loss. Crates above this one react:
//! `engine/src/host/supervise` stops the command that runs under the lock. `engine/src/mount/watch.rs` warns, or also
//! makes the mount read-only or ends its browser. `fuse/src/mount/commit.rs` refuses commits to the profile. In
//! `volumes`, the save of a project and the snapshot of a container fail.

mod acquire;
mod evict;
mod hold;
mod patience;
mod presence;
mod queue;
mod release;
mod renew;

pub use evict::{Eviction, Reaped};
pub use hold::{Hold, LockRenewer};
pub use patience::{Patience, Waiting};

use std::time::Duration;

use super::{
    lineage_handle::LineageHandle,
    pointer::{self, VersionedPointer},
};
use crate::{
    Error, Result,
    bucket::{Bucket, BucketError, Stamp, Version},
    error::Holder,
    format::{
        Unknown, WRITER,
        event::{Actor, Event},
        layout, limits,
        lock::{Lock, LockBlock},
        pointer::BLOCK_VERSION,
    },
    id::{self, Nonce},
    name::Lineage,
    observer::LockEvent,
};

/// How long a lock is held after its last renewal, unless a tenant is configured otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(300);
/// How often it is renewed.
pub const DEFAULT_RENEW_EVERY: Duration = Duration::from_secs(60);

/// How a lock was come by, in the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was free.
    Acquired,
    /// From a holder that had let it expire.
    ForcedExpired,
    /// It was held already, by the same holder.
    Held,
}

impl Outcome {
    /// The word that programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::ForcedExpired => "forced_expired",
            Self::Held => "held",
        }
    }
}

/// The terms of a lock: how long it is held, and whether it ends with its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long it is held after its last renewal.
    pub ttl: Duration,
    /// Whether it ends with this process, and not only when it is given back or expires. Others
    /// on this machine then notice that the process has ended, if the store has a cache here.
    pub with_process: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { ttl: DEFAULT_TTL, with_process: true }
    }
}

/// A lock as it was read.
#[derive(Clone, Debug)]
pub struct ReadLock {
    /// The lock itself.
    pub lock: Lock,
    /// The version that a replacement must name.
    pub version: Version,
    /// When the lock was written, and when it was read.
    pub stamp: Stamp,
}

impl ReadLock {
    /// How long it is held yet, if nobody renews it.
    pub fn remaining(&self) -> Duration {
        if self.lock.is_free() { Duration::ZERO } else { self.lock.ttl().saturating_sub(self.stamp.age()) }
    }

    /// How long ago it expired; `None` while it is held, or free.
    pub fn expired_for(&self) -> Option<Duration> {
        let expired = !self.lock.is_free() && self.stamp.age() > self.lock.ttl();
        expired.then(|| self.stamp.age().saturating_sub(self.lock.ttl()))
    }
}

impl From<&ReadLock> for Holder {
    fn from(read: &ReadLock) -> Self {
        let Actor { run_id, host, host_run_id, .. } = read.lock.holder();
        Self {
            run_id,
            host,
            host_run_id,
            acquired_at_ms: read.lock.acquired_at_ms,
            renewal_count: read.lock.renewal_count,
            remaining: read.remaining(),
            nonce: read.lock.block().map(|block| block.nonce),
        }
    }
}

/// The lock and the pointer as they were read at about the same time.
#[derive(Clone, Debug)]
pub struct LockAndPointer {
    /// The lock, if there is one.
    pub lock: Option<ReadLock>,
    /// The pointer, if there is one.
    pub pointer: Option<VersionedPointer>,
}

impl LockAndPointer {
    /// Looks at lock and pointer, before anything is known of the tenant.
    pub async fn of(bucket: &dyn Bucket, lineage: &Lineage) -> Result<Self> {
        let pointer = pointer::read_from(bucket, lineage);
        let (lock, pointer) = futures::future::try_join(ReadLock::of(bucket, lineage), pointer).await?;
        Ok(Self { lock, pointer })
    }

    /// Whether a program that knows only the contract has left a trace in either.
    pub fn contract_only_seen(&self) -> bool {
        self.pointer.as_ref().is_some_and(|read| read.pointer.contract_only_seen())
            || self.lock.as_ref().is_some_and(|read| read.lock.is_of_contract_only())
    }
}

impl ReadLock {
    async fn of(bucket: &dyn Bucket, lineage: &Lineage) -> Result<Option<Self>> {
        let key = layout::lock(lineage);
        match bucket.get(&key, limits::LOCK).await {
            Ok(object) => {
                let lock = Lock::decode(&object.bytes).map_err(|error| error.of(&key))?;
                Ok(Some(Self { lock, version: object.version, stamp: object.stamp }))
            }
            Err(BucketError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

impl LineageHandle {
    /// Looks at lock and pointer.
    pub async fn survey(&self) -> Result<LockAndPointer> {
        LockAndPointer::of(&*self.store.bucket, &self.lineage).await
    }

    /// The lock, if there is one.
    pub async fn lock(&self) -> Result<Option<ReadLock>> {
        ReadLock::of(&*self.store.bucket, &self.lineage).await
    }

    /// Whether somebody holds it. Both times are the store's, so no host's clock matters.
    pub fn is_live(&self, read: &ReadLock) -> bool {
        !read.lock.is_free() && read.stamp.age() <= read.lock.ttl() && !self.is_orphan(read)
    }

    /// Whether it was held by a process of this machine that is proved to be dead.
    pub fn is_orphan(&self, read: &ReadLock) -> bool {
        let cache = self.store.cache.as_ref();
        !read.lock.is_free() && cache.is_some_and(|cache| presence::is_dead(cache, &read.lock))
    }

    /// Fails unless the lock is the one known by `nonce`. Whether it has expired does not
    /// matter as long as nobody has taken it.
    pub(super) async fn require_lock(&self, nonce: Nonce) -> Result<()> {
        if !self.rules.verify_after_read {
            return Ok(());
        }
        let found = self.lock().await?;
        match found {
            Some(read) if read.lock.is_held_by(nonce) => Ok(()),
            found => Err(self.lost(found.as_ref())),
        }
    }

    /// Fails if anybody holds the lock.
    pub(super) async fn require_free(&self) -> Result<()> {
        self.must_be_free(self.lock().await?.as_ref())
    }

    /// Fails with [`Error::LockHeld`] if this lock is held.
    pub fn must_be_free(&self, lock: Option<&ReadLock>) -> Result<()> {
        match lock {
            Some(read) if self.is_live(read) => Err(self.held_by(read)),
            _ => Ok(()),
        }
    }

    /// As [`Self::must_be_free`], for somebody who would take the lock: the observer hears of the conflict.
    pub fn refuse_if_held(&self, lock: Option<&ReadLock>) -> Result<()> {
        self.must_be_free(lock).inspect_err(|_| self.tell(LockEvent::Conflict))
    }

    /// Tells the observer of an event of this lock.
    pub(super) fn tell(&self, event: LockEvent) {
        self.store.observer.lock(&self.lineage, event);
    }

    pub(super) fn held_by(&self, read: &ReadLock) -> Error {
        Error::LockHeld { lineage: self.lineage.to_string(), holder: Box::new(read.into()) }
    }

    pub(super) fn lost(&self, found: Option<&ReadLock>) -> Error {
        let holder = found.filter(|read| !read.lock.is_free()).map(|read| Box::new(Holder::from(read)));
        Error::LockLost { record: None, lineage: self.lineage.to_string(), holder }
    }

    /// One nonce for all attempts of an actor, which is not enough: see the rules.
    fn own_nonce(&self) -> Nonce {
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&blake3::hash(self.actor.run_id.as_bytes()).as_bytes()[..16]);
        Nonce::from_bytes(bytes)
    }

    /// A lock held from now on.
    fn new_lock(&self, nonce: Nonce, terms: Terms) -> Lock {
        let now = self.clock.unix_ms();
        let mut lock = Lock {
            version: 1,
            holder_run_id: self.actor.run_id.clone(),
            holder_host: self.actor.host.clone(),
            holder_host_run_id: self.actor.host_run_id.clone(),
            acquired_at_ms: now,
            renewed_at_ms: now,
            expires_at_ms: now.saturating_add(millis(terms.ttl)),
            renewal_count: 0,
            pstore: None,
            unknown: Unknown::new(),
        };
        lock.pstore = Some(block(&lock, nonce, None));
        lock
    }

    /// The document of a free lock, which has expired by every clock.
    fn free_lock(&self, holder_run_id: &str, event: Option<Event>) -> Lock {
        let now = self.clock.unix_ms();
        let mut lock = Lock {
            version: 1,
            holder_run_id: holder_run_id.to_owned(),
            holder_host: String::new(),
            holder_host_run_id: String::new(),
            acquired_at_ms: now,
            renewed_at_ms: now,
            expires_at_ms: 0,
            renewal_count: 0,
            pstore: None,
            unknown: Unknown::new(),
        };
        lock.pstore = Some(block(&lock, new_nonce(), event));
        lock
    }
}

fn block(lock: &Lock, nonce: Nonce, event: Option<Event>) -> LockBlock {
    LockBlock {
        v: BLOCK_VERSION,
        writer: WRITER.to_owned(),
        bind: lock.binding(),
        nonce,
        seq: 0,
        mark: Some(new_nonce()),
        by_token: false,
        event,
        unknown: Unknown::new(),
    }
}

fn new_nonce() -> Nonce {
    Nonce::from_bytes(id::random())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
