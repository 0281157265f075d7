//! Reads and writes much of an object past the page cache.
//!
//! What is stored is seldom read soon, and never by who stored it; what is read in large pieces is
//! read once, by a restore or a collection. In the page cache it would push out what programs work
//! with, and putting it there takes more of a processor than the disk takes to move it.
//!
//! Where a file system will not have it, or only a part of a block is left, the cache it is.

use std::{fs::File, io};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;

/// Less is not worth the trouble.
pub(super) const LARGE_BYTES: usize = 256 << 10;
/// What every disk takes: addresses, offsets and lengths are multiples of it.
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
