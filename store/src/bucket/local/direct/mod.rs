//! Reads and writes much of an object past the page cache.
//!
//! An object is seldom read soon after it was stored, and never by its writer; a restore or a collection
//! reads large pieces, and each of them once. In the page cache they would push out the files that programs
//! work with, and putting them there takes more of a processor than the disk takes to move them.
//!
//! Where a file system refuses, or only a part of a block is left, the page cache is used.

use std::{fs::File, io};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

/// Less is not worth the trouble.
pub(super) const LARGE_BYTES: usize = 256 << 10;
/// The block size that suits every disk: addresses, offsets and lengths are multiples of it.
const BLOCK_BYTES: usize = 4096;

/// Does `work` on `file` past the cache, which goes by the cache again afterwards; nothing comes of
/// it where the file system will not have that.
fn past_the_cache<T: Default>(file: &File, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let flags = fcntl_getfl(file)?;
    if fcntl_setfl(file, flags | OFlags::DIRECT).is_err() {
        return Ok(T::default());
    }
    let ended = work();
    fcntl_setfl(file, flags)?;
    ended
}

/// Whether the file system, or a disk of other blocks, says only now that it cannot.
fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}
