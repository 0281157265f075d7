//! Fills packs with frames.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::compress::Frame;
use crate::{
    format::{
        WRITER,
        frame::Codec,
        index::{IndexEntry, IndexPack},
        pack::{self, Directory, EntryKind, PackEntry},
        table::Location,
    },
    id::{ChunkId, ChunkKey, PackId},
};

/// Buffers that are used again: packs are large, and an allocator that keeps what every
/// thread has freed would hold many times what is in use.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

impl Buffers {
    fn take(&self, capacity: usize) -> Vec<u8> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.clear();
        buffer.reserve(capacity);
        buffer
    }
}

/// A buffer on loan, given back when the last reader of its bytes is done.
struct Loan {
    buffer: Vec<u8>,
    home: Buffers,
}

impl AsRef<[u8]> for Loan {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        self.home.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// A pack that is being filled, in memory.
#[derive(Debug)]
pub struct Packer {
    buffer: Vec<u8>,
    home: Buffers,
    entries: Vec<PackEntry>,
}

/// A complete pack, ready to be uploaded.
#[derive(Clone, Debug)]
pub struct SealedPack {
    pub id: PackId,
    pub bytes: Bytes,
    pub entries: Vec<PackEntry>,
}

impl Packer {
    pub fn with_capacity(capacity: usize) -> Self {
        Self::recycling(capacity, &Buffers::default())
    }

    /// Takes its memory from `buffers` and gives it back there.
    pub fn recycling(capacity: usize, buffers: &Buffers) -> Self {
        let mut buffer = buffers.take(capacity);
        buffer.extend_from_slice(&pack::header());
        Self { buffer, home: buffers.clone(), entries: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.buffer.len() + self.entries.len() * pack::ENTRY_LEN + pack::TRAILER_LEN
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn push(&mut self, id: ChunkId, kind: EntryKind, raw_len: u32, frame: Frame<'_>) -> PackEntry {
        let entry = PackEntry {
            id,
            kind,
            codec: Codec::Zstd,
            offset: self.buffer.len() as u64,
            stored_len: frame.len() as u32,
            raw_len,
            crc: frame.crc,
        };
        self.buffer.extend_from_slice(frame.head);
        self.buffer.extend_from_slice(frame.rest);
        self.entries.push(entry);
        entry
    }

    pub fn seal(self, id: PackId, key: ChunkKey) -> SealedPack {
        self.seal_as(WRITER, id, key)
    }

    /// Names another writer, so that equal packs can be made by any version of the code.
    pub fn seal_as(mut self, writer: &str, id: PackId, key: ChunkKey) -> SealedPack {
        let directory = Directory { pack: id, key, writer: writer.to_owned(), entries: self.entries };
        pack::append_directory(&mut self.buffer, &directory);
        SealedPack {
            id,
            bytes: Bytes::from_owner(Loan { buffer: self.buffer, home: self.home }),
            entries: directory.entries,
        }
    }
}

impl SealedPack {
    pub fn locations(&self) -> impl Iterator<Item = (ChunkId, Location)> + '_ {
        self.entries.iter().map(|entry| {
            let PackEntry { offset, stored_len, codec, .. } = *entry;
            (entry.id, Location { pack: self.id, offset, stored_len, codec })
        })
    }

    pub fn index(&self) -> IndexPack {
        let chunks = self
            .entries
            .iter()
            .map(|entry| IndexEntry {
                id: entry.id,
                offset: entry.offset,
                stored_len: entry.stored_len,
                codec: entry.codec,
            })
            .collect();
        IndexPack { pack: self.id, chunks }
    }
}
