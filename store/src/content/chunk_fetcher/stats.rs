//! `FetchStats` counts a mount's reads, and their costs.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, MutexGuard};

use crate::{content::chunk::Piece, id::ChunkId};

/// Counted since the mount began. Bytes are stored bytes, unless they say otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchStats {
    /// Ranges asked of the bucket, each counted once however often it was sent.
    pub requests: u64,
    /// Requests that had to be sent again.
    pub retries: u64,
    /// Everything that came from the bucket.
    pub fetched_bytes: u64,
    /// Of those, bytes that readers waited for.
    pub demanded_bytes: u64,
    /// Of those, bytes that were fetched ahead of readers.
    pub prefetched_bytes: u64,
    /// Fetched, but so far of no use: prefetched and not read, or between wanted chunks.
    pub wasted_bytes: u64,
    /// Uncompressed bytes of the chunks that readers were given.
    pub read_bytes: u64,
    /// Of those, the bytes of chunks that were in memory, in the cache on disk, or in a store that is a directory.
    pub cached_bytes: u64,
    /// Chunks given to readers from memory.
    pub memory_hits: u64,
    /// Chunks given to readers from the cache on disk, or from a store that is a directory.
    pub disk_hits: u64,
    /// Chunks that had to be fetched from the bucket.
    pub misses: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub requests: AtomicU64,
    pub retries: AtomicU64,
    fetched_bytes: AtomicU64,
    demanded_bytes: AtomicU64,
    prefetched_bytes: AtomicU64,
    read_bytes: AtomicU64,
    /// Uncompressed bytes of the chunks that had to be fetched for readers.
    missed_bytes: AtomicU64,
    memory_hits: AtomicU64,
    disk_hits: AtomicU64,
    misses: AtomicU64,
    /// Bytes between wanted chunks.
    gap_bytes: AtomicU64,
    /// Chunks that were prefetched and not read yet.
    unread: Mutex<HashMap<ChunkId, u32>>,
    unread_count: AtomicU64,
}

impl Counters {
    pub fn stats(&self) -> FetchStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let unread: u64 = self.unread().values().map(|len| u64::from(*len)).sum();
        FetchStats {
            requests: get(&self.requests),
            retries: get(&self.retries),
            fetched_bytes: get(&self.fetched_bytes),
            demanded_bytes: get(&self.demanded_bytes),
            prefetched_bytes: get(&self.prefetched_bytes),
            wasted_bytes: get(&self.gap_bytes) + unread,
            read_bytes: get(&self.read_bytes),
            cached_bytes: get(&self.read_bytes).saturating_sub(get(&self.missed_bytes)),
            memory_hits: get(&self.memory_hits),
            disk_hits: get(&self.disk_hits),
            misses: get(&self.misses),
        }
    }

    pub fn misses(&self, pieces: &[Piece]) {
        let bytes = pieces.iter().map(|piece| u64::from(piece.raw_len)).sum();
        self.misses.fetch_add(pieces.len() as u64, Ordering::Relaxed);
        self.missed_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A range of `len` bytes has come, `wanted` of which are chunks somebody asked for.
    pub fn fetched(&self, len: u64, wanted: u64, ahead: bool) {
        self.fetched_bytes.fetch_add(len, Ordering::Relaxed);
        self.gap_bytes.fetch_add(len.saturating_sub(wanted), Ordering::Relaxed);
        let counter = if ahead { &self.prefetched_bytes } else { &self.demanded_bytes };
        counter.fetch_add(len, Ordering::Relaxed);
    }

    pub fn prefetched(&self, id: ChunkId, stored_len: u32) {
        let mut unread = self.unread();
        unread.insert(id, stored_len);
        self.unread_count.store(unread.len() as u64, Ordering::Relaxed);
    }

    pub fn handed_out(&self, pieces: &[Piece], memory_hits: usize, disk_hits: usize) {
        let bytes = pieces.iter().map(|piece| u64::from(piece.raw_len)).sum();
        self.read_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.memory_hits.fetch_add(memory_hits as u64, Ordering::Relaxed);
        self.disk_hits.fetch_add(disk_hits as u64, Ordering::Relaxed);
        if self.unread_count.load(Ordering::Relaxed) > 0 {
            let mut unread = self.unread();
            for piece in pieces {
                unread.remove(&piece.id);
            }
            self.unread_count.store(unread.len() as u64, Ordering::Relaxed);
        }
    }

    fn unread(&self) -> MutexGuard<'_, HashMap<ChunkId, u32>> {
        self.unread.lock()
    }
}
