//! `StartupBuffer` keeps chunks that are read before most others until the end, so that they lie side by side.

use crate::{
    content::{compress::Frame, packer::Packer},
    format::{
        frame::Codec,
        pack::{ENTRY_LEN, EntryKind, PackEntry},
    },
    id::ChunkId,
};

/// A start reads less than this; the rest of a tree that pretends to be read at once is stored
/// like any other.
const MAX_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct StartupBuffer {
    frames: Vec<u8>,
    entries: Vec<PackEntry>,
}

impl StartupBuffer {
    /// Keeps a chunk back, unless too much is kept back already.
    pub fn push(&mut self, id: ChunkId, raw_len: u32, frame: Frame<'_>) -> bool {
        if self.frames.len() + frame.len() > MAX_BYTES {
            return false;
        }
        self.entries.push(PackEntry {
            id,
            kind: EntryKind::Data,
            codec: Codec::Zstd,
            offset: self.frames.len() as u64,
            stored_len: frame.len() as u32,
            raw_len,
            crc: frame.crc,
        });
        self.frames.extend_from_slice(frame.head);
        self.frames.extend_from_slice(frame.rest);
        true
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How much of a pack it takes.
    pub fn len(&self) -> usize {
        self.frames.len() + self.entries.len() * ENTRY_LEN
    }

    /// Puts all of it into one pack.
    pub fn move_to(&self, packer: &mut Packer) {
        for entry in &self.entries {
            let start = entry.offset as usize;
            packer.copy(entry, &self.frames[start..start + entry.stored_len as usize]);
        }
    }
}
