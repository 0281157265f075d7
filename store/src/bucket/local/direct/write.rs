//! Writes a large object in parts, from a buffer with the alignment that a disk needs.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    num::NonZeroU64,
};

use rustix::fs::Advice;

use super::{BLOCK_BYTES, LARGE_BYTES, is_refused, past_the_cache};
use crate::bucket::Buffers;

/// How much goes to the disk at a time.
const PART_BYTES: usize = 1 << 20;

/// Writes all of `bytes` to `file`, which is empty. It is not durable yet.
pub(in crate::bucket::local) fn write(file: &File, bytes: &[u8], buffers: &Buffers) -> io::Result<()> {
    let direct = match bytes.len() {
        ..LARGE_BYTES => 0,
        len => write_direct(file, &bytes[..len - len % BLOCK_BYTES], buffers)?,
    };
    write_early(file, direct, &bytes[direct..])
}

/// Says how far it came.
fn write_direct(mut file: &File, blocks: &[u8], buffers: &Buffers) -> io::Result<usize> {
    let mut room = buffers.take(PART_BYTES + BLOCK_BYTES);
    room.resize(room.len().max(PART_BYTES + BLOCK_BYTES), 0);
    let first = room.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    let aligned = &mut room[first..][..PART_BYTES];
    let ended = past_the_cache(file, || write_blocks(blocks, aligned, |part| file.write(part)));
    drop(buffers.lend(room));
    ended
}

/// Writes `blocks` by way of `room`, as far as `write` takes whole blocks, and says how far that was.
fn write_blocks(
    blocks: &[u8],
    room: &mut [u8],
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut written = 0;
    while written < blocks.len() {
        let part = &blocks[written..blocks.len().min(written + room.len())];
        room[..part.len()].copy_from_slice(part);
        match write(&room[..part.len()]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            // What is left of a block has no place that could be written directly.
            Ok(len) if len % BLOCK_BYTES != 0 => return Ok(written + len),
            Ok(len) => written += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_refused(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

/// Writes so that the disk is at work while the rest is still being written, and the fsync
/// that follows finds less left to do. The kernel starts writing back what it is told will
/// not be needed; it does not drop what is still being written back.
fn write_early(mut file: &File, from: usize, bytes: &[u8]) -> io::Result<()> {
    let mut offset = from as u64;
    for part in bytes.chunks(PART_BYTES) {
        file.write_all(part)?;
        let len = part.len() as u64;
        if part.len() == PART_BYTES {
            // Only a hint, so it may fail.
            let _ = rustix::fs::fadvise(file, offset, NonZeroU64::new(len), Advice::DontNeed);
        }
        offset += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rustix::fs::{OFlags, fcntl_getfl};

    use super::*;

    #[test]
    fn every_length_is_written_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let buffers = Buffers::new(1);
        let bytes: Vec<u8> =
            (0..3 * PART_BYTES as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
        for len in [
            0,
            1,
            BLOCK_BYTES,
            LARGE_BYTES - 1,
            LARGE_BYTES,
            LARGE_BYTES + 1,
            PART_BYTES,
            PART_BYTES + BLOCK_BYTES + 7,
            3 * PART_BYTES - 1,
        ] {
            let path = folder.path().join(len.to_string());
            let file = File::create(&path).unwrap();
            write(&file, &bytes[..len], &buffers).unwrap();
            assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT));
            assert!(std::fs::read(&path).unwrap() == bytes[..len], "{len} bytes");
        }
    }

    #[test]
    fn it_goes_as_far_as_whole_blocks_are_taken() {
        let blocks: Vec<u8> = (0..5 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
        let attempt = |answers: &[io::Result<usize>]| {
            let (mut answers, mut disk) = (answers.iter(), Vec::new());
            let ended = write_blocks(&blocks, &mut [0; 2 * BLOCK_BYTES], |part| match answers.next() {
                Some(Ok(len)) => {
                    disk.extend_from_slice(&part[..*len]);
                    Ok(*len)
                }
                Some(Err(error)) => Err(error.kind().into()),
                None => {
                    disk.extend_from_slice(part);
                    Ok(part.len())
                }
            });
            if let Ok(written) = &ended {
                assert!(disk == blocks[..*written]);
            }
            ended.map_err(|error| error.kind())
        };
        let all = blocks.len();
        assert_eq!(attempt(&[]), Ok(all));
        assert_eq!(attempt(&[Err(ErrorKind::Interrupted.into()), Ok(BLOCK_BYTES)]), Ok(all));
        assert_eq!(attempt(&[Ok(BLOCK_BYTES), Ok(100)]), Ok(BLOCK_BYTES + 100));
        assert_eq!(attempt(&[Err(ErrorKind::InvalidInput.into())]), Ok(0));
        assert_eq!(attempt(&[Ok(2 * BLOCK_BYTES), Err(ErrorKind::Unsupported.into())]), Ok(2 * BLOCK_BYTES));
        assert_eq!(
            attempt(&[Ok(BLOCK_BYTES), Err(ErrorKind::StorageFull.into())]),
            Err(ErrorKind::StorageFull)
        );
        assert_eq!(attempt(&[Ok(0)]), Err(ErrorKind::WriteZero));
    }
}
