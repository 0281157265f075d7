//! `Chunk` is a chunk's bytes, verified; `Piece` and `Locations` tell where chunks lie.

use std::{collections::HashMap, ops::Deref};

use bytes::Bytes;

use super::reader::Verified;
use crate::{
    Result,
    format::{frame::Codec, table::Location, tree::Entry},
    id::{ChunkId, ChunkKey},
};

/// A chunk that somebody may want: its id and length, and its location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The chunk's id.
    pub id: ChunkId,
    /// How many bytes it has uncompressed.
    pub raw_len: u32,
    /// Where its frame lies.
    pub location: Location,
}

/// Where chunks lie.
pub type Locations = HashMap<ChunkId, Location>;

/// Where each chunk of a tree lies; `locations` has all of them, in the order of the entries.
pub(crate) fn locations_by_id(entries: &[Entry], locations: Vec<Location>) -> Locations {
    let ids = entries.iter().flat_map(|entry| entry.chunks().map(|(id, _)| id));
    let mut known = Locations::with_capacity(locations.len());
    for (id, location) in ids.zip(locations) {
        known.entry(id).or_insert(location);
    }
    known
}

/// The bytes of a chunk, checked against its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk(Bytes);

impl Chunk {
    /// Decompresses a frame, and checks that it is the chunk `id`.
    pub fn check(key: &ChunkKey, id: &ChunkId, codec: Codec, stored: &[u8], raw_len: u32) -> Result<Self> {
        Ok(Self(Verified::check(key, id, codec, stored, raw_len)?.into_bytes().into()))
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}
