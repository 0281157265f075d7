//! `FoundChunks` holds the chunks of one read that were found so far, until the others are there.

use super::{memory::Memory, packs::Packs};
use crate::{
    Result,
    content::{
        chunk::{Chunk, Piece},
        chunk_cache::ChunkCache,
    },
    id::ChunkKey,
};

/// The answer to a look for chunks that waits for nothing.
#[derive(Debug)]
pub enum ChunkLookup {
    /// All of them; or why they cannot be had.
    Here(Result<Vec<Chunk>>),
    /// Some are far away.
    Away(FoundChunks),
}

impl ChunkLookup {
    /// The answer, if nothing is far away.
    pub fn here(self) -> Option<Result<Vec<Chunk>>> {
        match self {
            Self::Here(chunks) => Some(chunks),
            Self::Away(_) => None,
        }
    }
}

/// The wanted chunks that were found so far.
#[derive(Debug)]
pub struct FoundChunks {
    pieces: Vec<Piece>,
    chunks: Vec<Option<Chunk>>,
    pub(super) memory_hits: usize,
    pub(super) disk_hits: usize,
}

impl FoundChunks {
    pub(super) fn new(pieces: &[Piece], memory: &Memory) -> Self {
        let chunks: Vec<_> = pieces.iter().map(|piece| memory.get(&piece.id)).collect();
        let memory_hits = chunks.iter().flatten().count();
        Self { pieces: pieces.to_vec(), chunks, memory_hits, disk_hits: 0 }
    }

    /// All that is wanted.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(super) fn is_complete(&self) -> bool {
        self.chunks.iter().all(Option::is_some)
    }

    /// Those that are not there yet.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Piece> {
        self.pieces.iter().zip(&self.chunks).filter(|(_, chunk)| chunk.is_none()).map(|(piece, _)| piece)
    }

    /// Takes those that were missing, in their order.
    pub(super) fn fill(&mut self, fetched: Vec<Chunk>) {
        let empty = self.chunks.iter_mut().filter(|chunk| chunk.is_none());
        empty.zip(fetched).for_each(|(place, chunk)| *place = Some(chunk));
    }

    /// All of them, if they are there.
    pub(super) fn all(self) -> Option<Vec<Chunk>> {
        self.chunks.into_iter().collect()
    }

    pub(super) fn read_local(&mut self, packs: &Packs, memory: &Memory) -> Result<()> {
        let missing: Vec<(usize, Piece)> = (0..self.pieces.len())
            .filter(|at| self.chunks[*at].is_none())
            .map(|at| (at, self.pieces[at]))
            .collect();
        packs.read(missing.into_iter(), |at, id, chunk| {
            memory.put(id, &chunk);
            self.chunks[at] = Some(chunk);
            self.disk_hits += 1;
        })
    }

    /// Takes what a cache on disk has.
    pub(super) fn read_disk(&mut self, disk: &ChunkCache, key: &ChunkKey, memory: &Memory) {
        for (piece, place) in self.pieces.iter().zip(&mut self.chunks).filter(|(_, chunk)| chunk.is_none()) {
            let Some(chunk) = disk.read(key, &piece.id, piece.raw_len) else { continue };
            memory.put(piece.id, &chunk);
            *place = Some(chunk);
            self.disk_hits += 1;
        }
    }
}
