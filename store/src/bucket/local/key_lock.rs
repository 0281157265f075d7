//! The lock under which a key is compared and then replaced or deleted.

use std::{
    fs::{File, OpenOptions},
    io,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::failed;
use crate::bucket::{BucketError, Key, Result};

/// A holder needs milliseconds. One that takes this long was stopped, not slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// Held until dropped. Nobody may take a second one: keys share lock files.
#[derive(Debug)]
pub(super) struct KeyLock {
    _file: File,
}

impl KeyLock {
    pub(super) fn acquire(locks: &Path, key: &Key) -> Result<Self> {
        let slot = blake3::hash(key.as_str().as_bytes()).as_bytes()[0];
        let path = locks.join(format!("{slot:02x}"));
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed(&path))?;
        let give_up = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(50);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _file: file }),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => {}
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(BucketError::Contended { key: key.to_string() });
                }
                Err(errno) => return Err(failed(&path)(io::Error::from(errno))),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }
}
