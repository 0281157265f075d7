//! `Framing` cuts a tar stream into zstd frames: one solid frame, or the stored frames of the chunks.
//!
//! Some decoders stop after the first frame, without a word. A solid archive has one; a
//! spliced one ends its first within the first tar header, so that such a decoder is left
//! with something that no reader takes for an archive.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use zstd::stream::write::Encoder;

use super::chunk_stream::Chunk;
use crate::{
    content::compress::Compressor,
    format::frame::{self, Codec},
};

/// How the archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One frame, compressed anew.
    Solid {
        /// How hard to compress.
        level: i32,
        /// How many threads compress.
        threads: u32,
    },
    /// The chunks' frames as they are stored, and small ones for the bytes between.
    Splice,
}

/// Where the first frame of a spliced archive ends.
const FIRST_FRAME_BYTES: usize = 256;
/// The approximate length of the frames between chunks.
const BETWEEN_BYTES: usize = 128 << 10;
const BETWEEN_LEVEL: i32 = 3;

pub(super) enum Frames<W: Write> {
    Solid(Encoder<'static, W>),
    Splice(Box<Splice<W>>),
}

pub(super) struct Splice<W> {
    out: W,
    compressor: Compressor,
    /// The bytes since the last frame.
    between: Vec<u8>,
    has_first: bool,
}

impl<W: Write> Frames<W> {
    /// `tar_bytes` is how long the stream will be, if that is known.
    pub fn new(framing: Framing, tar_bytes: Option<u64>, out: W) -> io::Result<Self> {
        match framing {
            Framing::Solid { level, threads } => {
                let mut encoder = Encoder::new(out, level)?;
                encoder.include_checksum(true)?;
                // Stated in the frame, for decoders that want to know it first.
                encoder.set_pledged_src_size(tar_bytes)?;
                encoder.multithread(threads)?;
                Ok(Self::Solid(encoder))
            }
            Framing::Splice => {
                let compressor = Compressor::new(BETWEEN_LEVEL).map_err(io::Error::other)?;
                Ok(Self::Splice(Box::new(Splice { out, compressor, between: Vec::new(), has_first: false })))
            }
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Solid(encoder) => encoder.write_all(bytes),
            Self::Splice(splice) => splice.bytes(bytes),
        }
    }

    pub fn chunk(&mut self, chunk: &Chunk) -> io::Result<()> {
        match self {
            Self::Solid(encoder) => encoder.write_all(&chunk.raw),
            Self::Splice(splice) => splice.chunk(chunk),
        }
    }

    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Solid(encoder) => encoder.finish(),
            Self::Splice(mut splice) => {
                splice.end_frame()?;
                Ok(splice.out)
            }
        }
    }
}

impl<W: Write> Splice<W> {
    fn bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.has_first {
            let (first, rest) = bytes.split_at(FIRST_FRAME_BYTES.min(bytes.len()));
            self.between.extend_from_slice(first);
            self.end_frame()?;
            self.has_first = true;
            bytes = rest;
        }
        self.between.extend_from_slice(bytes);
        if self.between.len() >= BETWEEN_BYTES { self.end_frame() } else { Ok(()) }
    }

    fn chunk(&mut self, chunk: &Chunk) -> io::Result<()> {
        self.end_frame()?;
        match chunk.codec {
            Codec::Zstd => self.out.write_all(&chunk.stored),
            Codec::Raw => {
                let mut stored = Vec::new();
                frame::append_stored(&mut stored, &chunk.raw);
                self.out.write_all(&stored)
            }
        }
    }

    fn end_frame(&mut self) -> io::Result<()> {
        if self.between.is_empty() {
            return Ok(());
        }
        let frame = self.compressor.frame(&self.between).map_err(io::Error::other)?;
        self.out.write_all(frame.head)?;
        self.out.write_all(frame.rest)?;
        self.between.clear();
        Ok(())
    }
}

/// Zeros, of which a stream needs many.
pub(super) fn zeros(len: usize) -> Bytes {
    BytesMut::zeroed(len).freeze()
}
