//! `ChunkFetcher` fetches chunks of a snapshot when they are needed and not before.
//!
//! A chunk comes from memory, from this host's disk, or from the bucket, and is checked
//! against its id in each case. A chunk that several readers miss at once is fetched once.
//! A request belongs to none of the readers that wait for it: one that gives up takes nothing from
//! the others, and a failure is forgotten, so that the next reader tries again.
//!
//! Demand never queues behind prefetching: each has request slots of its own, and a prefetch
//! that has not got its slot yet holds no chunk back from a reader that wants it now.

mod found_chunks;
mod inflight;
mod memory;
mod packs;
mod read_ahead;
pub mod startup;
mod stats;
#[cfg(test)]
pub(super) mod tests;

pub use found_chunks::{ChunkLookup, FoundChunks};
pub use read_ahead::ReadAhead;
pub use stats::FetchStats;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use tokio::{runtime::Handle, sync::Semaphore};

use self::{
    inflight::{Flight, Ticket},
    memory::Memory,
    packs::Packs,
    startup::FirstReads,
    stats::Counters,
};
use super::{
    TenantStore,
    chunk::{Chunk, Piece},
    chunk_cache::{self, ChunkCache},
    reader::plan,
    relocator::{LOOKS, Relocator, placed},
};
use crate::{Error, Result, id::ChunkId};

/// So many chunks are decompressed ahead on one thread.
const PREPARED_TOGETHER: usize = 16;

/// How much may be kept and asked for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Uncompressed chunks in memory.
    pub memory_bytes: usize,
    /// Requests under way for readers that wait.
    pub requests: usize,
    /// Requests under way for readers to come.
    pub prefetch_requests: usize,
    /// The most bytes that may wait to be prefetched; beyond them nothing is.
    pub prefetch_bytes: u64,
    /// How long one request is waited for before it is sent again.
    pub patience: Duration,
    /// After this a reader is told that the chunk cannot be had.
    pub deadline: Duration,
    /// Of the cache on this host's disk.
    pub disk: chunk_cache::Limits,
}

impl Limits {
    /// For a store whose requests are repeated for `retrying`; zero: never. A server that hangs is
    /// asked again at least twice within it.
    pub fn within(retrying: Duration) -> Self {
        let own = Self::default();
        match retrying.is_zero() {
            true => Self { deadline: Duration::ZERO, ..own },
            false => Self { patience: own.patience.min(retrying / 3), deadline: retrying, ..own },
        }
    }

    /// How long a reader waits for a chunk at most.
    pub(super) fn longest_wait(&self) -> Duration {
        if self.deadline.is_zero() { self.patience } else { self.deadline }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 32 << 20,
            requests: 16,
            prefetch_requests: 4,
            prefetch_bytes: 64 << 20,
            patience: Duration::from_secs(15),
            deadline: Duration::from_secs(60),
            disk: chunk_cache::Limits::default(),
        }
    }
}

/// The chunks of one tenant, for one mount.
///
/// Lock order: `flights` before the memory's own; neither is held across an await.
#[derive(Debug)]
pub struct ChunkFetcher {
    store: TenantStore,
    runtime: Handle,
    limits: Limits,
    memory: Memory,
    /// Where packs are files of this host, nothing is fetched at all.
    local: Option<Packs>,
    disk: Option<Arc<ChunkCache>>,
    flights: Mutex<HashMap<ChunkId, Flight>>,
    demand: Semaphore,
    background: Arc<Semaphore>,
    queued_bytes: AtomicU64,
    counters: Counters,
    first_reads: FirstReads,
    /// Where chunks are that were moved since the mount began.
    relocator: Relocator,
}

impl ChunkFetcher {
    /// Requests are made on `runtime`; chunks that are moved are found by `relocator`.
    pub fn new(store: TenantStore, runtime: Handle, limits: Limits, relocator: Relocator) -> Arc<Self> {
        let local = Packs::of(&store);
        let disk = match (&local, &store.cache) {
            (None, Some(cache)) => Some(Arc::new(ChunkCache::new(cache, limits.disk))),
            _ => None,
        };
        if let Some(disk) = disk.clone() {
            // What is there is known before the first reader asks.
            runtime.spawn_blocking(move || disk.refresh());
        }
        Arc::new(Self {
            runtime,
            memory: Memory::new(limits.memory_bytes),
            local,
            disk,
            flights: Mutex::default(),
            demand: Semaphore::new(limits.requests.max(1)),
            background: Arc::new(Semaphore::new(limits.prefetch_requests.max(1))),
            queued_bytes: AtomicU64::new(0),
            counters: Counters::default(),
            first_reads: FirstReads::default(),
            relocator,
            limits,
            store,
        })
    }

    /// The tenant whose chunks are fetched.
    pub fn store(&self) -> &TenantStore {
        &self.store
    }

    /// Whether packs are files of this host, so that nothing is far away.
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    /// The counts of all reads so far, and of their costs.
    pub fn stats(&self) -> FetchStats {
        self.counters.stats()
    }

    /// The chunks, if they can be had without waiting for a network: from memory or this
    /// host's disk, read, decompressed and verified on this thread. If one cannot, those that were found are kept.
    ///
    /// A pack that is gone is [`Error::Missing`], unless its chunks may have been moved: to find that out
    /// takes waiting.
    pub fn now(&self, pieces: &[Piece]) -> ChunkLookup {
        let mut found = FoundChunks::new(&placed(&self.relocator.known(), pieces), &self.memory);
        if found.is_complete() {
            return ChunkLookup::Here(self.hand_out(found));
        }
        if let Some(local) = &self.local {
            return match found.read_local(local, &self.memory) {
                Err(Error::Missing { .. }) if self.relocator.can_follow() => ChunkLookup::Away(found),
                Err(error) => ChunkLookup::Here(Err(error)),
                Ok(()) => ChunkLookup::Here(self.hand_out(found)),
            };
        }
        // Where one must be fetched anyway, the others are read there.
        let Some(disk) = self.disk.as_deref().filter(|disk| found.missing().all(|piece| disk.has(&piece.id)))
        else {
            return ChunkLookup::Away(found);
        };
        found.read_disk(disk, self.store.key(), &self.memory);
        match found.is_complete() {
            true => ChunkLookup::Here(self.hand_out(found)),
            false => ChunkLookup::Away(found),
        }
    }

    /// The chunks, fetched where they are missing.
    ///
    /// A pack that is gone is [`Error::Missing`], if its chunks were not moved.
    pub async fn chunks(self: &Arc<Self>, pieces: &[Piece]) -> Result<Vec<Chunk>> {
        self.fetch_rest(FoundChunks::new(&placed(&self.relocator.known(), pieces), &self.memory)).await
    }

    /// The chunks of which [`Self::now`] has found some: these are not looked for again.
    ///
    /// A pack that is gone is [`Error::Missing`], if its chunks were not moved.
    pub async fn fetch_rest(self: &Arc<Self>, mut found: FoundChunks) -> Result<Vec<Chunk>> {
        let mut looks = 0;
        loop {
            let (known, pieces) = (self.relocator.known(), found.pieces().to_vec());
            match self.completed(found).await {
                Err(missing @ Error::Missing { .. }) if looks < LOOKS => {
                    self.relocator.look_again(&known, missing).await?;
                    found = FoundChunks::new(&placed(&self.relocator.known(), &pieces), &self.memory);
                    looks += 1;
                }
                ended => return self.hand_out(ended?),
            }
        }
    }

    async fn completed(self: &Arc<Self>, mut found: FoundChunks) -> Result<FoundChunks> {
        if !found.is_complete() && (self.local.is_some() || self.disk.is_some()) {
            let fetcher = Arc::clone(self);
            let reading = self.runtime.spawn_blocking(move || {
                if let Some(local) = &fetcher.local {
                    found.read_local(local, &fetcher.memory)?;
                } else if let Some(disk) = &fetcher.disk {
                    disk.refresh();
                    // What is not there is fetched.
                    found.read_disk(disk, fetcher.store.key(), &fetcher.memory);
                }
                Ok::<_, Error>(found)
            });
            found = reading.await.map_err(internal)??;
        }
        let wanted: Vec<Piece> = found.missing().copied().collect();
        self.counters.misses(&wanted);
        let mut fetched = Vec::with_capacity(wanted.len());
        for ticket in self.demand(&wanted) {
            fetched.push(ticket.chunk().await?);
        }
        found.fill(fetched);
        Ok(found)
    }

    /// The chunks that were read in the first seconds since the first read, in that order.
    pub fn first_reads(&self) -> Vec<ChunkId> {
        self.first_reads.in_order()
    }

    /// Fetches in the background chunks that will probably be read soon. Where packs are files, the
    /// kernel is asked to read them. Beyond the bytes that may wait it does nothing.
    pub fn prefetch(self: &Arc<Self>, pieces: Vec<Piece>) {
        let pieces = placed(&self.relocator.known(), &pieces).into_owned();
        let Some(queued) = self.queue(&pieces) else { return };
        if self.local.is_some() {
            self.runtime.spawn_blocking(move || {
                if let Some(local) = &queued.fetcher.local {
                    local.will_need(&pieces);
                }
            });
        } else {
            self.runtime.spawn(async move { queued.fetcher.fetch_ahead(pieces).await });
        }
    }

    /// As [`Self::prefetch`]; where packs are files, these are also decompressed and verified,
    /// so that a reader of many small files one after another does not wait for that.
    pub fn prepare(self: &Arc<Self>, mut pieces: Vec<Piece>) {
        if self.local.is_none() {
            return self.prefetch(pieces);
        }
        pieces.retain(|piece| self.memory.get(&piece.id).is_none());
        let pieces = placed(&self.relocator.known(), &pieces).into_owned();
        // Side by side, and the first of them soon.
        for part in pieces.chunks(PREPARED_TOGETHER) {
            let part = part.to_vec();
            let Some(queued) = self.queue(&part) else { return };
            self.runtime.spawn_blocking(move || {
                let ChunkFetcher { local: Some(local), memory, .. } = &*queued.fetcher else { return };
                // A reader is told what fails.
                let numbered = part.into_iter().enumerate();
                let _ = local.read(numbered, |_, id, chunk| memory.put(id, &chunk));
            });
        }
    }

    /// A place in the queue of prefetches, if there is one.
    fn queue(self: &Arc<Self>, pieces: &[Piece]) -> Option<Queued> {
        let bytes = pieces.iter().map(|piece| u64::from(piece.location.stored_len)).sum();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let queued = Queued { fetcher: Arc::clone(self), bytes };
        (!pieces.is_empty() && before + bytes <= self.limits.prefetch_bytes).then_some(queued)
    }

    /// Whether the chunk could be had without a request.
    fn has(&self, piece: &Piece) -> bool {
        self.memory.get(&piece.id).is_some() || self.disk.as_ref().is_some_and(|disk| disk.has(&piece.id))
    }

    fn hand_out(&self, found: FoundChunks) -> Result<Vec<Chunk>> {
        self.counters.handed_out(found.pieces(), found.memory_hits, found.disk_hits);
        self.first_reads.note(found.pieces());
        found.all().ok_or_else(|| Error::Internal { what: "a chunk was not waited for".to_owned() })
    }

    fn demand(self: &Arc<Self>, pieces: &[Piece]) -> Vec<Ticket> {
        let (tickets, wants) = self.register(pieces);
        for fetch in plan(wants) {
            let fetcher = Arc::clone(self);
            self.runtime.spawn(async move {
                let _slot = fetcher.demand.acquire().await;
                fetcher.fetch(fetch, false).await;
            });
        }
        tickets
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<ChunkId, Flight>> {
        self.flights.lock()
    }
}

/// Something that waits to be fetched ahead.
struct Queued {
    fetcher: Arc<ChunkFetcher>,
    bytes: u64,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.fetcher.queued_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn internal(error: tokio::task::JoinError) -> Error {
    Error::Internal { what: error.to_string() }
}
