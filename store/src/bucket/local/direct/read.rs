//! Reads a large range: past the page cache, unless it is there.

use std::{
    fs::File,
    io::{self, ErrorKind, IoSliceMut},
    ops::Range,
    os::unix::fs::FileExt,
};

use bytes::Bytes;
use rustix::io::ReadWriteFlags;

use super::{BLOCK_BYTES, is_refused, past_the_cache};
use crate::bucket::Buffers;

/// A smaller read is one of a series, as mounts make them: the kernel reads ahead for those.
const MUCH_BYTES: usize = 2 << 20;

/// The bytes of `range`, all of which `file` has.
pub(in crate::bucket::local) fn read(file: &File, range: Range<u64>, buffers: &Buffers) -> io::Result<Bytes> {
    let len = (range.end - range.start) as usize;
    // A place in the buffer is aligned as its place in the file is: the first block that holds any
    // of the range begins at `first`.
    let before = (range.start % BLOCK_BYTES as u64) as usize;
    let blocks = (before + len).next_multiple_of(BLOCK_BYTES);
    // One that was used before need not be filled with zeros again to be read into.
    let mut room = buffers.take(blocks + BLOCK_BYTES);
    room.resize(room.len().max(blocks + BLOCK_BYTES), 0);
    let first = room.as_ptr().align_offset(BLOCK_BYTES).min(BLOCK_BYTES);
    let window = &mut room[first..first + blocks];

    let mut have = 0;
    if len >= MUCH_BYTES && !is_cached(file, range.start) {
        let origin = range.start - before as u64;
        have = past_the_cache(file, || {
            read_blocks(window, before + len, |room, at| file.read_at(room, origin + at as u64))
        })?;
    }
    let have = have.clamp(before, before + len);
    file.read_exact_at(&mut window[have..before + len], range.start + (have - before) as u64)?;
    Ok(buffers.lend(room).slice(first + before..first + before + len))
}

/// Whether the page cache has the page at `start`. The next pages may not be there all the same; but asking
/// for more would have the kernel fetch as much.
fn is_cached(file: &File, start: u64) -> bool {
    let mut byte = [0];
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], start, ReadWriteFlags::NOWAIT);
    read.is_ok_and(|len| len > 0)
}

/// Reads into `room`, which is whole blocks, until `wanted` bytes are there, as far as `read` takes
/// whole blocks, and says how far that was.
fn read_blocks(
    room: &mut [u8],
    wanted: usize,
    mut read: impl FnMut(&mut [u8], usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut have = 0;
    while have < wanted {
        match read(&mut room[have..], have) {
            Ok(0) => break,
            Ok(len) => {
                have += len;
                // The end of the file, or a place from which nothing can be read directly.
                if len % BLOCK_BYTES != 0 {
                    break;
                }
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_refused(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use rustix::fs::{Advice, OFlags, fcntl_getfl};

    use super::*;

    const FILE_BYTES: usize = MUCH_BYTES + (1 << 20) + 777;

    fn content() -> Vec<u8> {
        (0..FILE_BYTES as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
    }

    /// On the disk, and not in the page cache but for `cached`.
    fn file(folder: &std::path::Path, cached: Range<usize>) -> File {
        let path = folder.join("file");
        File::create(&path).unwrap().write_all(&content()).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
        file.read_exact_at(&mut vec![0; cached.len()], cached.start as u64).unwrap();
        file
    }

    #[test]
    fn every_range_is_read_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (content, buffers) = (content(), Buffers::new(1));
        for cached in [0..0, 0..1, 0..9000, 300_000..700_000, 0..FILE_BYTES] {
            for range in [
                0..FILE_BYTES,
                0..4096,
                1..4095,
                4095..4097,
                8192..FILE_BYTES - 1,
                8000..500_000,
                350_001..350_001 + MUCH_BYTES,
                4096..4095 + MUCH_BYTES,
                FILE_BYTES - MUCH_BYTES..FILE_BYTES,
                FILE_BYTES - 1..FILE_BYTES,
            ] {
                let file = file(folder.path(), cached.clone());
                let bytes = read(&file, range.start as u64..range.end as u64, &buffers).unwrap();
                assert!(bytes == content[range.clone()], "{range:?} with {cached:?} in the cache");
                assert!(!fcntl_getfl(&file).unwrap().contains(OFlags::DIRECT));
            }
        }
    }

    #[test]
    fn what_is_read_is_not_left_in_the_cache() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 0..0);
        read(&file, 0..FILE_BYTES as u64, &Buffers::new(1)).unwrap();
        assert!(!is_cached(&file, FILE_BYTES as u64 / 2));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = file(folder.path(), 0..0);
        let answer = read(&file, 4096..FILE_BYTES as u64 + 1, &Buffers::new(1));
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn it_goes_as_far_as_whole_blocks_are_given() {
        let attempt = |wanted: usize, answers: &[io::Result<usize>]| {
            let mut answers = answers.iter();
            let mut room = [0; 5 * BLOCK_BYTES];
            let ended = read_blocks(&mut room, wanted, |room, at| {
                let len = match answers.next() {
                    Some(Ok(len)) => *len,
                    Some(Err(error)) => return Err(error.kind().into()),
                    None => room.len(),
                };
                for (place, byte) in room[..len].iter_mut().enumerate() {
                    *byte = ((at + place) / 7) as u8;
                }
                Ok(len)
            });
            if let Ok(have) = ended {
                assert!(room[..have].iter().enumerate().all(|(place, byte)| *byte == (place / 7) as u8));
            }
            ended.map_err(|error| error.kind())
        };
        let all = 5 * BLOCK_BYTES;
        assert_eq!(attempt(all, &[]), Ok(all));
        assert_eq!(attempt(all, &[Ok(BLOCK_BYTES), Err(ErrorKind::Interrupted.into())]), Ok(all));
        assert_eq!(attempt(all - 5, &[Ok(BLOCK_BYTES), Ok(all - BLOCK_BYTES - 5)]), Ok(all - 5));
        assert_eq!(attempt(all, &[Ok(BLOCK_BYTES), Ok(100)]), Ok(BLOCK_BYTES + 100));
        assert_eq!(attempt(all, &[Ok(BLOCK_BYTES), Ok(0)]), Ok(BLOCK_BYTES));
        assert_eq!(attempt(all, &[Err(ErrorKind::InvalidInput.into())]), Ok(0));
        assert_eq!(
            attempt(all, &[Ok(BLOCK_BYTES), Err(ErrorKind::PermissionDenied.into())]),
            Err(ErrorKind::PermissionDenied)
        );
    }
}
