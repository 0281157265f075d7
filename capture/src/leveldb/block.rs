//! `block` reads the blocks of a table, checks them, and follows those that lead to others.

use std::{fs::File, io, ops::ControlFlow, os::unix::fs::FileExt};

use super::decode::{Input, fixed32, unmasked};

/// After every block: how it is compressed, and a checksum of both.
pub(super) const TRAILER_BYTES: u64 = 5;

const PLAIN: u8 = 0;
const SNAPPY: u8 = 1;

/// Blocks that lead to others are held whole; an index of 16 MiB is one of a table of
/// a gigabyte, where LevelDB starts a new table every few megabytes.
const MAX_HELD_BYTES: u64 = 16 << 20;

const READ_BYTES: usize = 64 << 10;

/// A place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) offset: u64,
    pub(super) bytes: u64,
}

/// Why a block is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BlockError {
    OutOfBounds,
    Checksum,
    Malformed,
    /// Not known here; says nothing against the block.
    Unknown(&'static str),
}

impl Handle {
    pub(super) fn decode(input: &mut Input<'_>) -> Option<Self> {
        Some(Self { offset: input.varint64()?, bytes: input.varint64()? })
    }

    /// Where the block and its trailer end, if that is not beyond `limit`.
    pub(super) fn end(self, limit: u64) -> Option<u64> {
        let end = self.offset.checked_add(self.bytes)?.checked_add(TRAILER_BYTES)?;
        (end <= limit).then_some(end)
    }
}

/// Compares a block with its checksum, a piece at a time.
pub(super) fn check(file: &File, handle: Handle, limit: u64) -> io::Result<Result<(), BlockError>> {
    let Some(end) = handle.end(limit) else { return Ok(Err(BlockError::OutOfBounds)) };
    let mut buffer = [0; READ_BYTES];
    let (mut at, mut crc) = (handle.offset, 0);
    // The checksum is of the block and the first byte of its trailer.
    let crc_end = end - 4;
    while at < crc_end {
        let piece = &mut buffer[..(crc_end - at).min(READ_BYTES as u64) as usize];
        file.read_exact_at(piece, at)?;
        crc = crc32c::crc32c_append(crc, piece);
        at += piece.len() as u64;
    }
    let mut stored = [0; 4];
    file.read_exact_at(&mut stored, crc_end)?;
    Ok(if unmasked(u32::from_le_bytes(stored)) == crc { Ok(()) } else { Err(BlockError::Checksum) })
}

/// The content of a block, checked and decompressed.
pub(super) fn read(file: &File, handle: Handle, limit: u64) -> io::Result<Result<Vec<u8>, BlockError>> {
    let Some(_) = handle.end(limit) else { return Ok(Err(BlockError::OutOfBounds)) };
    if handle.bytes > MAX_HELD_BYTES {
        return Ok(Err(BlockError::Unknown("it is too large")));
    }
    let mut bytes = vec![0; (handle.bytes + TRAILER_BYTES) as usize];
    file.read_exact_at(&mut bytes, handle.offset)?;
    Ok(content(bytes))
}

fn content(mut bytes: Vec<u8>) -> Result<Vec<u8>, BlockError> {
    let length = bytes.len().checked_sub(TRAILER_BYTES as usize).ok_or(BlockError::Malformed)?;
    let stored = fixed32(&bytes[length + 1..]).ok_or(BlockError::Malformed)?;
    if unmasked(stored) != crc32c::crc32c(&bytes[..=length]) {
        return Err(BlockError::Checksum);
    }
    let compression = bytes[length];
    bytes.truncate(length);
    match compression {
        PLAIN => Ok(bytes),
        SNAPPY => match snap::raw::decompress_len(&bytes) {
            Ok(length) if length as u64 > MAX_HELD_BYTES => Err(BlockError::Unknown("it is too large")),
            Ok(_) => snap::raw::Decoder::new().decompress_vec(&bytes).map_err(|_| BlockError::Malformed),
            Err(_) => Err(BlockError::Malformed),
        },
        _ => Err(BlockError::Unknown("its compression is not known here")),
    }
}

/// The entries of a block, which end where its restarts begin.
fn entries(block: &[u8]) -> Result<Input<'_>, BlockError> {
    let malformed = BlockError::Malformed;
    let count_at = block.len().checked_sub(4).ok_or(malformed.clone())?;
    let restarts = u64::from(fixed32(&block[count_at..]).ok_or(malformed.clone())?);
    let entries_end = (count_at as u64).checked_sub(restarts * 4).ok_or(malformed)?;
    Ok(Input::new(&block[..entries_end as usize]))
}

/// Tells every key in a block of data, in order, until it is told to stop.
pub(super) fn keys(block: &[u8], mut tell: impl FnMut(&[u8]) -> ControlFlow<()>) -> Result<(), BlockError> {
    let mut input = entries(block)?;
    let mut key = Vec::new();
    while !input.is_empty() {
        next_key(&mut input, &mut key).ok_or(BlockError::Malformed)?;
        if tell(&key).is_break() {
            break;
        }
    }
    Ok(())
}

/// Makes the key before that of the next entry, with which it shares a prefix.
fn next_key(input: &mut Input<'_>, key: &mut Vec<u8>) -> Option<()> {
    let (shared, unshared, value) = (input.varint32()?, input.varint32()?, input.varint32()?);
    if shared as usize > key.len() {
        return None;
    }
    key.truncate(shared as usize);
    key.extend_from_slice(input.take(unshared as usize)?);
    input.take(value as usize)?;
    Some(())
}

/// The values in a block of handles (an index or a metaindex), in order.
pub(super) fn handles(block: &[u8]) -> Result<Vec<Handle>, BlockError> {
    let mut input = entries(block)?;
    let (mut handles, mut key_bytes) = (Vec::new(), 0);
    while !input.is_empty() {
        let (handle, key) = entry(&mut input, key_bytes).ok_or(BlockError::Malformed)?;
        handles.push(handle);
        key_bytes = key;
    }
    Ok(handles)
}

/// An entry's handle and the length of its key, which shares a prefix with the one before.
fn entry(input: &mut Input<'_>, previous_key_bytes: u64) -> Option<(Handle, u64)> {
    let (shared, unshared, value) = (input.varint32()?, input.varint32()?, input.varint32()?);
    if u64::from(shared) > previous_key_bytes {
        return None;
    }
    input.take(unshared as usize)?;
    let handle = Handle::decode(&mut Input::new(input.take(value as usize)?))?;
    Some((handle, u64::from(shared) + u64::from(unshared)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_handles_or_are_refused(block in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = handles(&block);
            let mut small = block.clone();
            small.iter_mut().for_each(|byte| *byte %= 8);
            let _ = handles(&small);
            let _ = keys(&small, |_| ControlFlow::Continue(()));
            let _ = content(block);
        }

        #[test]
        fn any_compressed_bytes_are_content_or_are_refused(
            mut block in proptest::collection::vec(any::<u8>(), 0..300)
        ) {
            block.push(SNAPPY);
            let crc = super::super::decode::masked(crc32c::crc32c(&block));
            block.extend(crc.to_le_bytes());
            let _ = content(block);
        }
    }

    #[test]
    fn a_claimed_length_is_not_believed() {
        // A varint of 4 GiB - 1, and nothing after it.
        let mut block = vec![0xff, 0xff, 0xff, 0xff, 0x0f, SNAPPY];
        let crc = super::super::decode::masked(crc32c::crc32c(&block));
        block.extend(crc.to_le_bytes());
        assert_eq!(content(block), Err(BlockError::Unknown("it is too large")));
        assert_eq!(handles(&[0xff; 4]), Err(BlockError::Malformed));
        assert_eq!(Handle { offset: u64::MAX, bytes: 9 }.end(u64::MAX), None);
    }
}
