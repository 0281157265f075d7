//! Fills packs with frames.

use bytes::Bytes;

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

/// A pack that is being filled, in memory.
#[derive(Debug)]
pub struct Packer {
    buffer: Vec<u8>,
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
        let mut buffer = Vec::with_capacity(capacity);
        buffer.extend_from_slice(&pack::header());
        Self { buffer, entries: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.buffer.len() + self.entries.len() * pack::ENTRY_LEN + pack::TRAILER_LEN
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn push(&mut self, id: ChunkId, kind: EntryKind, raw_len: u32, frame: &[u8]) -> PackEntry {
        let entry = PackEntry {
            id,
            kind,
            codec: Codec::Zstd,
            offset: self.buffer.len() as u64,
            stored_len: frame.len() as u32,
            raw_len,
            crc: crc32c::crc32c(frame),
        };
        self.buffer.extend_from_slice(frame);
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
        SealedPack { id, bytes: self.buffer.into(), entries: directory.entries }
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
