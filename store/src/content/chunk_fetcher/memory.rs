//! Keeps the chunks used last, uncompressed, in bounded memory.
//!
//! Each shard has two generations. A used chunk goes to the young one; when that is full it
//! becomes the old one, and old chunks that were not used since are forgotten. That keeps used
//! chunks, as a list by age would, and moves nothing on most hits.

use std::collections::HashMap;

use parking_lot::{Mutex, MutexGuard};

use crate::{content::chunk::Chunk, id::ChunkId};

const SHARDS: usize = 8;

#[derive(Debug)]
pub(super) struct Memory {
    shards: [Mutex<Shard>; SHARDS],
    /// Of one generation of one shard.
    generation_bytes: usize,
}

#[derive(Debug, Default)]
struct Shard {
    young: HashMap<ChunkId, Chunk>,
    old: HashMap<ChunkId, Chunk>,
    young_bytes: usize,
}

impl Memory {
    pub fn new(max_bytes: usize) -> Self {
        Self { shards: Default::default(), generation_bytes: max_bytes / SHARDS / 2 }
    }

    pub fn get(&self, id: &ChunkId) -> Option<Chunk> {
        let mut shard = self.shard(id);
        if let Some(chunk) = shard.young.get(id) {
            return Some(chunk.clone());
        }
        let chunk = shard.old.remove(id)?;
        // It is dropped only when the lock is free again: that may be many bytes.
        let _forgotten = shard.put(*id, chunk.clone(), self.generation_bytes);
        drop(shard);
        Some(chunk)
    }

    pub fn put(&self, id: ChunkId, chunk: &Chunk) {
        let mut shard = self.shard(&id);
        let _forgotten = shard.put(id, chunk.clone(), self.generation_bytes);
        drop(shard);
    }

    fn shard(&self, id: &ChunkId) -> MutexGuard<'_, Shard> {
        let at = usize::from(id.as_bytes()[0]) % SHARDS;
        self.shards[at].lock()
    }
}

impl Shard {
    /// Adds a chunk; returns those that are forgotten for it.
    fn put(&mut self, id: ChunkId, chunk: Chunk, most: usize) -> HashMap<ChunkId, Chunk> {
        let mut forgotten = HashMap::new();
        if chunk.len() > most {
            return forgotten;
        }
        if self.young_bytes + chunk.len() > most {
            let full = std::mem::take(&mut self.young);
            forgotten = std::mem::replace(&mut self.old, full);
            self.young_bytes = 0;
        }
        let len = chunk.len();
        if self.young.insert(id, chunk).is_none() {
            self.young_bytes += len;
        }
        forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{format::frame::Codec, id::ChunkKey};

    fn chunk(seed: u32) -> (ChunkId, Chunk) {
        let key = ChunkKey::from_bytes([1; 32]);
        let raw = [&seed.to_le_bytes()[..], &[7; 996]].concat();
        let id = key.id_of(&raw);
        (id, Chunk::check(&key, &id, Codec::Raw, &raw, 1000).unwrap())
    }

    fn held(memory: &Memory) -> usize {
        let bytes = |map: &HashMap<ChunkId, Chunk>| map.values().map(|chunk| chunk.len()).sum::<usize>();
        let shards = memory.shards.iter().map(|shard| shard.lock());
        shards.map(|shard| bytes(&shard.young) + bytes(&shard.old)).sum()
    }

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let memory = Memory::new(64_000);
        let (used, bytes) = chunk(0);
        memory.put(used, &bytes);
        for seed in 1..2000 {
            let (id, bytes) = chunk(seed);
            memory.put(id, &bytes);
            assert_eq!(memory.get(&id), Some(bytes));
            assert!(memory.get(&used).is_some(), "forgotten at {seed}");
            assert!(held(&memory) <= 64_000, "{}", held(&memory));
        }
        assert_eq!(memory.get(&chunk(1).0), None);
    }
}
