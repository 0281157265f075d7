//! Writing large objects past the page cache.
//!
//! What is stored is seldom read soon, and never by who stored it. In the page cache it would
//! push out what programs work with, and copying it there takes more of a processor than the
//! disk takes to write it.
//!
//! Where a file system will not have it, or only the last bytes are left, the cache it is.

use std::{
    fs::File,
    io::{self, ErrorKind, Write as _},
    num::NonZeroU64,
};

use rustix::fs::{Advice, OFlags, fcntl_getfl, fcntl_setfl};

use crate::bucket::Buffers;

/// Less is not worth the trouble.
const LARGE_BYTES: usize = 256 << 10;
/// How much goes to the disk at a time.
const PART_BYTES: usize = 1 << 20;
/// What every disk takes: addresses, offsets and lengths are multiples of it.
const BLOCK_BYTES: usize = 4096;

/// Writes all of `bytes` to `file`, which is empty. It is not durable yet.
pub(super) fn write(file: &File, bytes: &[u8], buffers: &Buffers) -> io::Result<()> {
    let direct = match bytes.len() {
        ..LARGE_BYTES => 0,
        len => write_blocks(file, &bytes[..len - len % BLOCK_BYTES], buffers)?,
    };
    write_early(file, direct, &bytes[direct..])
}

/// Says how far it came: as far as the file system let it, by whole blocks.
fn write_blocks(mut file: &File, bytes: &[u8], buffers: &Buffers) -> io::Result<usize> {
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(0);
    }
    let mut room = buffers.take(PART_BYTES + BLOCK_BYTES);
    room.resize(room.len().max(PART_BYTES + BLOCK_BYTES), 0);
    let first = room.as_ptr().align_offset(BLOCK_BYTES);
    let mut written = 0;
    let ended = loop {
        let part = &bytes[written..bytes.len().min(written + PART_BYTES)];
        let Some(aligned) = room.get_mut(first..first.saturating_add(part.len())) else { break Ok(written) };
        if part.is_empty() {
            break Ok(written);
        }
        aligned.copy_from_slice(part);
        match file.write(aligned) {
            // The rest of a block would have to be written over what is there of it.
            Ok(len) if len % BLOCK_BYTES != 0 => {
                written += len;
                break Ok(written);
            }
            Ok(0) => break Err(ErrorKind::WriteZero.into()),
            Ok(len) => written += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A disk of other blocks.
            Err(error) if error.kind() == ErrorKind::InvalidInput => break Ok(written),
            Err(error) => break Err(error),
        }
    };
    drop(buffers.lend(room));
    fcntl_setfl(file, flags)?;
    ended
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
}
