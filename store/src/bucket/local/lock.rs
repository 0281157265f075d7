//! Locks keys by files in `locks/`, which are never removed.
//!
//! A [`KeyLock`] is held while a key is compared and then replaced or deleted. A
//! [`FolderLock`] is held exclusively for the moment in which an entry of a folder is
//! replaced, and shared while the folder is read, so that no reader sees half of it. Order:
//! a key's lock, then a folder's; never two of a kind, because several share a file.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{Layout, failed, sharing};
use crate::bucket::{BucketError, Key, Result};

/// A holder needs milliseconds. One that takes this long was stopped, not slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// A folder is mostly read in less.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// Held until dropped.
#[derive(Debug)]
pub(super) struct KeyLock {
    _file: File,
}

impl KeyLock {
    pub(super) fn acquire(layout: &Layout, key: &Key) -> Result<Self> {
        let path = layout.locks().join(slot(key.as_str().as_bytes()));
        let file = open_to_lock(&path).map_err(failed(&path))?;
        lock(&file, FlockOperation::NonBlockingLockExclusive, &path, key.as_str())?;
        Ok(Self { _file: file })
    }
}

/// Held until dropped.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    pub(super) fn exclusive(layout: &Layout, folder: &Path) -> Result<Self> {
        let path = Self::path(layout, folder);
        let file = open_to_lock(&path).map_err(failed(&path))?;
        lock(&file, FlockOperation::NonBlockingLockExclusive, &path, &folder.display().to_string())?;
        Ok(Self { _file: file })
    }

    /// `None` if nobody has replaced anything in the folder yet. A handle that may not write
    /// does not make the file either.
    pub(super) fn shared(layout: &Layout, folder: &Path) -> Result<Option<Self>> {
        let path = Self::path(layout, folder);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path)(error)),
        };
        lock(&file, FlockOperation::NonBlockingLockShared, &path, &folder.display().to_string())?;
        Ok(Some(Self { _file: file }))
    }

    /// Whether anybody may have replaced anything in the folder.
    pub(super) fn is_known(layout: &Layout, folder: &Path) -> bool {
        Self::path(layout, folder).exists()
    }

    /// By the folder's path below `objects/`: the store may be mounted elsewhere on another host.
    fn path(layout: &Layout, folder: &Path) -> PathBuf {
        let below = folder.strip_prefix(layout.objects()).unwrap_or(folder);
        layout.locks().join(format!("folder-{}", slot(below.as_os_str().as_encoded_bytes())))
    }
}

fn slot(name: &[u8]) -> String {
    format!("{:02x}", blake3::hash(name).as_bytes()[0])
}

fn open_to_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let folder = path.parent().unwrap_or(path);
    sharing::open(options.read(true).write(true).create(true).truncate(false), folder, path)
}

fn lock(file: &File, operation: FlockOperation, path: &Path, what: &str) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    let mut pause = Duration::from_micros(50);
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < give_up => {}
            Err(Errno::WOULDBLOCK | Errno::INTR) => {
                return Err(BucketError::Contended { key: what.to_owned() });
            }
            Err(errno) => return Err(failed(path)(io::Error::from(errno))),
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
