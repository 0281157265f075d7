//! Takes the lock, and claims the pointer with it.

use super::{
    Hold, LineageHandle, LockAndPointer, Outcome, ReadLock, Terms, new_nonce,
    presence::{Mark, Presence},
};
use crate::{
    Error, Result,
    bucket::{BucketError, RetryPolicy, Version, Write},
    catalog::pointer::{GrantedLock, VersionedPointer},
    format::{
        event::{Event, EventKind},
        layout,
        lock::Lock,
    },
    id::Nonce,
    observer::{EvictionReason, LockEvent},
};

/// Every lost attempt means that somebody else has written the lock.
const ATTEMPTS: u32 = 8;

/// A lock that was just taken, before the pointer is claimed.
pub(super) struct Taken {
    pub nonce: Nonce,
    pub lock: Lock,
    pub version: Version,
    pub outcome: Outcome,
    /// The pointer as it was before the lock was taken.
    pub pointer: Option<VersionedPointer>,
    /// Whether a program that knows only the contract had it before.
    pub after_contract_only: bool,
    /// Tells this machine that the holder lives.
    pub(super) presence: Option<Presence>,
}

impl Taken {
    /// The lock that the pointer is claimed for.
    pub fn granted(&self) -> GrantedLock {
        let Self { nonce, pointer, after_contract_only, .. } = self;
        GrantedLock { nonce: *nonce, pointer: pointer.clone(), after_contract_only: *after_contract_only }
    }
}

impl LineageHandle {
    pub(super) async fn acquire_now(&self, survey: Option<LockAndPointer>, terms: Terms) -> Result<Hold> {
        let taken = self.take(survey, terms).await?;
        let claim = async {
            if self.rules.claim {
                self.claim(taken.granted(), None).await
            } else {
                self.pointer().await.and_then(|read| read.ok_or_else(|| self.lost(None)))
            }
        };
        // Beside each other: a caller waits for a profile no longer than it must.
        let (claimed, ()) = futures::future::join(claim, self.tell_eviction(&taken.lock)).await;
        match claimed {
            Ok(pointer) => Ok(Hold::new(self.clone(), taken, pointer, terms)),
            Err(error) => {
                self.give_back(taken).await;
                Err(error)
            }
        }
    }

    /// Takes the lock alone; whom it was taken from is told by [`Self::tell_eviction`].
    pub(super) async fn take(&self, mut survey: Option<LockAndPointer>, terms: Terms) -> Result<Taken> {
        let key = layout::lock(&self.lineage);
        let mut tried: Vec<(Nonce, Outcome, Option<Presence>)> = Vec::new();
        let mut after_contract_only = false;
        for attempt in 1..=ATTEMPTS {
            let LockAndPointer { lock: found, pointer } = match survey.take() {
                Some(survey) => survey,
                None => self.survey().await?,
            };
            let is_there = |nonce: Nonce| found.as_ref().is_some_and(|read| read.lock.is_held_by(nonce));
            if let Some(late) = tried.iter().position(|(nonce, ..)| is_there(*nonce)) {
                let (nonce, outcome, presence) = tried.swap_remove(late);
                match self.arrived_late(nonce, outcome).await? {
                    Some(taken) => return Ok(Taken { after_contract_only, presence, ..taken }),
                    None => continue,
                }
            }
            self.must_be_free(found.as_ref())?;
            after_contract_only |= found.as_ref().is_some_and(|read| read.lock.is_of_contract_only());
            let (outcome, eviction) = self.make_way(found.as_ref()).await?;
            // A lost attempt that arrives late must not look like the one that counts.
            let nonce = if self.rules.fresh_nonce { new_nonce() } else { self.own_nonce() };
            let mut lock = self.new_lock(nonce, terms);
            // Born with the lock that makes it true, and stored once that is there.
            if let Some(block) = &mut lock.pstore {
                block.event = eviction;
            }
            let presence = self.announce(terms, &lock, nonce);
            let write = found.map_or(Write::Create, |read| Write::Replace(read.version));
            match self.store.bucket.put(&key, lock.encode().into(), write).await {
                Ok(version) => {
                    return Ok(Taken {
                        nonce,
                        lock,
                        version,
                        outcome,
                        pointer,
                        after_contract_only,
                        presence,
                    });
                }
                Err(
                    error @ (BucketError::AlreadyExists { .. }
                    | BucketError::VersionMismatch { .. }
                    | BucketError::Contended { .. }
                    | BucketError::Unavailable { .. }),
                ) => {
                    if let Some(read) = self.lock().await?
                        && read.lock.is_held_by(nonce)
                    {
                        let ReadLock { lock, version, .. } = read;
                        return Ok(Taken {
                            nonce,
                            lock,
                            version,
                            outcome,
                            pointer,
                            after_contract_only,
                            presence,
                        });
                    }
                    tried.push((nonce, outcome, presence));
                    tracing::debug!(%key, %error, attempt, "the lock was not taken");
                    tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Conflict { what: format!("the lock of {}", self.lineage) })
    }

    /// Makes the file that tells this machine of the holder's life, before the lock names it.
    fn announce(&self, terms: Terms, lock: &Lock, nonce: Nonce) -> Option<Presence> {
        let cache = self.store.cache.as_ref().filter(|_| terms.with_process)?;
        let presence = Presence::announce(cache, nonce)?;
        presence.names(&[Mark::of(lock)]);
        Some(presence)
    }

    /// Gives back a lock that is of no use: nobody should have to wait for it.
    pub(super) async fn give_back(&self, taken: Taken) {
        let released = self.release_lock(taken.version, |lock| lock.is_held_by(taken.nonce)).await;
        if let (Ok(()), Some(presence)) = (released, taken.presence) {
            presence.end();
        }
    }

    /// The lock that an attempt of ours has made after it was given up, if it is still
    /// there: nobody should have to wait for himself.
    async fn arrived_late(&self, nonce: Nonce, outcome: Outcome) -> Result<Option<Taken>> {
        // The pointer is read before the look that counts.
        let pointer = self.pointer().await?;
        let found = self.lock().await?.filter(|read| read.lock.is_held_by(nonce));
        match found {
            Some(ReadLock { lock, version, .. }) => {
                let (presence, after_contract_only) = (None, false);
                Ok(Some(Taken { nonce, lock, version, outcome, pointer, after_contract_only, presence }))
            }
            None => Ok(None),
        }
    }

    /// Of a lock that was taken: if somebody lost it by that, it is written down.
    pub(super) async fn tell_eviction(&self, lock: &Lock) {
        if let Some(event) = lock.block().and_then(|block| block.event.as_ref()) {
            let dead = event.reason == EvictionReason::HolderDead.as_str();
            let reason = if dead { EvictionReason::HolderDead } else { EvictionReason::TtlExpired };
            self.tell(LockEvent::Evicted(reason));
            self.store_event(event).await;
        }
    }

    /// Writes down the facts that would be forgotten when `found` is replaced, and says how the new
    /// lock came about: by an eviction, if somebody had let it expire.
    async fn make_way(&self, found: Option<&ReadLock>) -> Result<(Outcome, Option<Event>)> {
        let Some(read) = found else { return Ok((Outcome::Acquired, None)) };
        self.settle(read.lock.block().and_then(|block| block.event.as_ref())).await?;
        if read.lock.is_free() {
            return Ok((Outcome::Acquired, None));
        }
        let mut event = self.event(EventKind::LockEvicted);
        let reason =
            if self.is_orphan(read) { EvictionReason::HolderDead } else { EvictionReason::TtlExpired };
        event.reason = reason.as_str().to_owned();
        event.holder = Some(read.lock.holder());
        Ok((Outcome::ForcedExpired, Some(event)))
    }

    /// A hold that another process of the same holder has acquired. An actor without a name
    /// acts as that holder.
    pub async fn adopt(&self, nonce: Nonce) -> Result<Hold> {
        let pointer = self.pointer().await?;
        let read = match self.lock().await? {
            Some(read) if read.lock.is_held_by(nonce) => read,
            found => return Err(self.lost(found.as_ref())),
        };
        let claimed = pointer
            .filter(|read| !self.rules.claim || read.lease().is_some_and(|lease| lease.nonce == nonce));
        let Some(pointer) = claimed else {
            let reason = "it was moved by somebody else since the lock was taken".to_owned();
            return Err(Error::PointerMoved { record: None, lineage: self.lineage.to_string(), reason });
        };
        let ReadLock { lock, version, .. } = read;
        let terms = Terms { ttl: lock.ttl(), with_process: false };
        let mut handle = self.clone();
        if handle.actor.run_id.is_empty() {
            handle.actor = lock.holder();
        }
        let taken = Taken {
            nonce,
            lock,
            version,
            outcome: Outcome::Held,
            pointer: None,
            after_contract_only: false,
            presence: None,
        };
        Ok(Hold::new(handle, taken, pointer, terms))
    }
}
