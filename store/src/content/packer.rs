//! Fills packs with frames.

use bytes::Bytes;

use super::compress::Frame;
use crate::{
    bucket::Buffers,
    format::{
        WRITER,
        frame::Codec,
        index::{IndexEntry, IndexPack},
        pack::{self, Directory, EntryKind, PackEntry},
        table::Location,
    },
    id::{ChunkId, ChunkKey, PackId},
};

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
    /// The pack's id.
    pub id: PackId,
    /// The whole object.
    pub bytes: Bytes,
    /// The frames in it, in the order in which they lie.
    pub entries: Vec<PackEntry>,
}

impl Packer {
    /// An empty pack that has room for so many bytes before it takes more memory.
    pub fn with_capacity(capacity: usize) -> Self {
        Self::recycling(capacity, &Buffers::new(0))
    }

    /// Takes its memory from `buffers` and gives it back there.
    pub(crate) fn recycling(capacity: usize, buffers: &Buffers) -> Self {
        let mut buffer = buffers.take(capacity);
        buffer.clear();
        buffer.extend_from_slice(&pack::header());
        Self { buffer, home: buffers.clone(), entries: Vec::new() }
    }

    /// Makes room for so many more bytes at once: memory that is never filled costs nothing, but growing copies.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.buffer.reserve_exact(more);
    }

    /// How long the pack would be if it were sealed now.
    pub fn len(&self) -> usize {
        self.buffer.len() + self.entries.len() * pack::ENTRY_LEN + pack::TRAILER_LEN
    }

    /// Whether no frame was pushed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The chunks that were pushed.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ChunkId> + '_ {
        self.entries.iter().map(|entry| entry.id)
    }

    /// Appends a frame, and tells where it lies.
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

    /// A frame of another pack as it is.
    pub fn copy(&mut self, entry: &PackEntry, stored: &[u8]) -> PackEntry {
        let entry = PackEntry { offset: self.buffer.len() as u64, ..*entry };
        self.buffer.extend_from_slice(stored);
        self.entries.push(entry);
        entry
    }

    /// Ends the pack with its directory and trailer.
    pub fn seal(self, id: PackId, key: ChunkKey) -> SealedPack {
        self.seal_as(WRITER, id, key)
    }

    /// Names another writer, so that equal packs can be made by any version of the code.
    pub fn seal_as(mut self, writer: &str, id: PackId, key: ChunkKey) -> SealedPack {
        let directory = Directory { pack: id, key, writer: writer.to_owned(), entries: self.entries };
        pack::append_directory(&mut self.buffer, &directory);
        SealedPack { id, bytes: self.home.lend(self.buffer), entries: directory.entries }
    }
}

impl SealedPack {
    /// Where each chunk lies.
    pub fn locations(&self) -> impl Iterator<Item = (ChunkId, Location)> + '_ {
        self.entries.iter().map(|entry| {
            let PackEntry { offset, stored_len, codec, .. } = *entry;
            (entry.id, Location { pack: self.id, offset, stored_len, codec })
        })
    }

    /// The pack as an index lists it.
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
