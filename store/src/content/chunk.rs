//! A chunk's bytes, verified, and cheap to hand around.

use std::ops::Deref;

use bytes::Bytes;

use super::reader::Verified;
use crate::{
    Result,
    format::{frame::Codec, table::Location},
    id::{ChunkId, ChunkKey},
};

/// A chunk that somebody may want: what it is, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub id: ChunkId,
    pub raw_len: u32,
    pub location: Location,
}

/// The bytes of a chunk. Only what was checked against its id becomes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk(Bytes);

impl Chunk {
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
