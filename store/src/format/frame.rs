//! One chunk, one complete zstd frame with its content size.
//!
//! Bytes that will not compress become a frame of raw blocks, written here without
//! asking the compressor: it stays a valid frame, so that every stored chunk can be
//! concatenated into a `.zst` file as it is.

use super::{FormatError, Result, UNNAMED_WRITER};

/// How the stored bytes of a chunk are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// The bytes themselves.
    Raw,
    /// One zstd frame without a dictionary.
    Zstd,
}

impl Codec {
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
pub const fn stored_bound(raw: usize) -> usize {
    4 + 1 + 4 + raw + 3 * (raw / MAX_BLOCK + 1)
}

/// Appends a frame of raw blocks that holds `raw`, which is at most 4 GiB.
pub fn append_stored(out: &mut Vec<u8>, raw: &[u8]) {
    out.reserve(stored_bound(raw.len()));
    out.extend_from_slice(&MAGIC);
    // Frame header: single segment, so the content size alone bounds the window.
    const SINGLE_SEGMENT: u8 = 1 << 5;
    match raw.len() {
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
    let mut blocks = raw.chunks(MAX_BLOCK).peekable();
    if blocks.peek().is_none() {
        out.extend_from_slice(&[1, 0, 0]);
    }
    while let Some(block) = blocks.next() {
        let last = u32::from(blocks.peek().is_none());
        out.extend_from_slice(&(last | (block.len() as u32) << 3).to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
}

/// Decodes stored bytes that must hold exactly `raw_len` bytes.
///
/// The caller has bounded `raw_len`; nothing longer is ever allocated.
pub fn decode(codec: Codec, stored: &[u8], raw_len: usize) -> Result<Vec<u8>> {
    let raw = match codec {
        Codec::Raw => stored.to_vec(),
        Codec::Zstd => {
            check_frame(stored, raw_len)?;
            zstd::bulk::decompress(stored, raw_len)
                .map_err(|error| FormatError::malformed(format!("its frame does not decompress: {error}")))?
        }
    };
    if raw.len() != raw_len {
        return Err(FormatError::malformed(format!("it holds {} bytes instead of {raw_len}", raw.len())));
    }
    Ok(raw)
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
