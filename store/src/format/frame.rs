//! Encodes and decodes frames: one chunk is one complete zstd frame with its content size.
//!
//! Bytes that will not compress become a frame of raw blocks, written here without
//! asking the compressor: it stays a valid frame, so that every stored chunk can be
//! concatenated into a `.zst` file as it is.

use std::{borrow::Cow, cell::RefCell};

use super::{FormatError, Result, UNNAMED_WRITER};

/// How the stored bytes of a chunk are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The bytes themselves.
    Raw,
    /// One zstd frame without a dictionary.
    Zstd,
}

impl Codec {
    /// The number of the codec in the format.
    pub const fn to_u8(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
        }
    }

    /// The codec that `writer` used; encryption, of which there is none yet, is checked too.
    pub fn from_parts(codec: u8, encryption: u8, writer: &str) -> Result<Self> {
        if encryption != 0 {
            return Err(FormatError::feature(format!("encryption {encryption}"), writer));
        }
        match codec {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Zstd),
            other => Err(FormatError::feature(format!("codec {other}"), writer)),
        }
    }

    /// Tables and roots keep both in one byte: the codec low, the encryption high.
    pub(super) fn from_byte(byte: u8) -> Result<Self> {
        Self::from_parts(byte & 0x0f, byte >> 4, UNNAMED_WRITER)
    }
}

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const MAX_BLOCK: usize = 128 * 1024;

/// The longest a frame of `raw` incompressible bytes gets.
pub(crate) const fn stored_bound(raw: usize) -> usize {
    4 + 1 + 4 + raw + 3 * (raw / MAX_BLOCK + 1)
}

/// Appends a frame of raw blocks that holds `raw`, which is at most 4 GiB.
pub fn append_stored(out: &mut Vec<u8>, raw: &[u8]) {
    out.reserve(stored_bound(raw.len()));
    append_header(out, raw.len());
    let mut blocks = raw.chunks(MAX_BLOCK).peekable();
    if blocks.peek().is_none() {
        append_block_header(out, 0, true);
    }
    while let Some(block) = blocks.next() {
        append_block_header(out, block.len(), blocks.peek().is_none());
        out.extend_from_slice(block);
    }
}

/// Appends a frame of raw blocks. If `raw` is one block, it appends only the head, and returns `raw`, so
/// that most bytes need not be copied once more.
pub(crate) fn append_stored_head<'a>(out: &mut Vec<u8>, raw: &'a [u8]) -> &'a [u8] {
    if raw.len() > MAX_BLOCK {
        append_stored(out, raw);
        return &[];
    }
    append_header(out, raw.len());
    append_block_header(out, raw.len(), true);
    raw
}

/// The frame's header: single segment, so the content size alone bounds the window.
fn append_header(out: &mut Vec<u8>, raw_len: usize) {
    const SINGLE_SEGMENT: u8 = 1 << 5;
    out.extend_from_slice(&MAGIC);
    match raw_len {
        len @ 0..256 => {
            out.push(SINGLE_SEGMENT);
            out.push(len as u8);
        }
        len @ 256..65_792 => {
            out.push(1 << 6 | SINGLE_SEGMENT);
            out.extend_from_slice(&((len - 256) as u16).to_le_bytes());
        }
        len => {
            out.push(2 << 6 | SINGLE_SEGMENT);
            out.extend_from_slice(&(len as u32).to_le_bytes());
        }
    }
}

/// The header of a raw block.
fn append_block_header(out: &mut Vec<u8>, len: usize, last: bool) {
    out.extend_from_slice(&(u32::from(last) | (len as u32) << 3).to_le_bytes()[..3]);
}

/// Decodes stored bytes that must hold exactly `raw_len` bytes; those that are stored as
/// they are need not be copied.
///
/// The caller has bounded `raw_len`; nothing longer is ever allocated.
pub fn decode(codec: Codec, stored: &[u8], raw_len: usize) -> Result<Cow<'_, [u8]>> {
    let raw = match codec {
        Codec::Raw => Cow::Borrowed(stored),
        Codec::Zstd => match single_raw_block(stored, raw_len) {
            Some(raw) => Cow::Borrowed(raw),
            None => {
                check_frame(stored, raw_len)?;
                Cow::Owned(decompress(stored, raw_len)?)
            }
        },
    };
    if raw.len() != raw_len {
        return Err(FormatError::malformed(format!("it holds {} bytes instead of {raw_len}", raw.len())));
    }
    Ok(raw)
}

/// The content of a frame that is exactly as [`append_stored`] makes it of one block.
fn single_raw_block(stored: &[u8], raw_len: usize) -> Option<&[u8]> {
    if raw_len > MAX_BLOCK {
        return None;
    }
    let mut head = Vec::with_capacity(16);
    append_header(&mut head, raw_len);
    append_block_header(&mut head, raw_len, true);
    stored.strip_prefix(&head[..]).filter(|raw| raw.len() == raw_len)
}

fn decompress(stored: &[u8], raw_len: usize) -> Result<Vec<u8>> {
    thread_local! {
        // Making one for each frame would cost as much as decompressing a short one.
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let raw = DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(zstd::bulk::Decompressor::new()?),
        };
        decompressor.decompress(stored, raw_len)
    });
    raw.map_err(|error| FormatError::malformed(format!("its frame does not decompress: {error}")))
}

/// One frame, that states its content size, and nothing after it.
fn check_frame(stored: &[u8], raw_len: usize) -> Result<()> {
    let stated = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    if stated != Some(raw_len as u64) {
        return Err(FormatError::malformed(format!("its frame does not say that it holds {raw_len} bytes")));
    }
    match zstd::zstd_safe::find_frame_compressed_size(stored) {
        Ok(len) if len == stored.len() => Ok(()),
        _ => Err(FormatError::malformed("it is not one whole frame")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_frames_are_valid_zstd_with_their_size() {
        for len in [0, 1, 255, 256, 65_791, 65_792, MAX_BLOCK, MAX_BLOCK + 1, 3 * MAX_BLOCK] {
            let raw: Vec<u8> = (0..len).map(|i| (i * 7) as u8).collect();
            let mut frame = Vec::new();
            append_stored(&mut frame, &raw);
            assert!(frame.len() <= stored_bound(len));
            let mut parts = Vec::new();
            let rest = append_stored_head(&mut parts, &raw);
            parts.extend_from_slice(rest);
            assert_eq!(parts, frame);
            assert!(
                matches!(zstd::zstd_safe::get_frame_content_size(&frame), Ok(Some(size)) if size == len as u64)
            );
            assert_eq!(decode(Codec::Zstd, &frame, len).unwrap(), raw);
        }
    }

    #[test]
    fn a_frame_of_another_length_is_refused() {
        let frame = zstd::bulk::compress(&[1; 1000], 3).unwrap();
        decode(Codec::Zstd, &frame, 999).unwrap_err();
        decode(Codec::Zstd, &frame, 1001).unwrap_err();
        decode(Codec::Raw, &[1, 2, 3], 2).unwrap_err();
    }
}
