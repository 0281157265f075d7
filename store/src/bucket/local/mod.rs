//! `LocalBucket` keeps a bucket in a directory of a local file system.
//!
//! ```text
//! <root>/objects/<key>   one file per object, its path is its key
//! <root>/tmp/            files being written, each flocked by its writer
//! <root>/locks/          lock files, chosen by the hash of a key or folder, never removed
//! ```
//!
//! Why a write is atomic: bytes are written and synced under a temporary name first. A
//! create then links that file to its key, which fails if the key exists; no lock is
//! needed. A replace or delete holds the key's lock while it compares and renames or
//! unlinks, so between its look and its act no other replace or delete can come, and no
//! create either because the key exists. A reader sees one whole file: it reads the
//! inode it opened, even if the name means another by then. Directories are never removed, so
//! one that was synced into its parent stays there.
//!
//! Why a listing misses nothing: an entry that stays as it is while a folder is read is
//! always found. A create adds an entry and moves none. A replace may move its entry (btrfs
//! does), so it and the reading of the folder exclude each other.
//!
//! An object's version is the digest of its bytes, never a time. Objects larger than
//! [`MUTABLE_MAX_BYTES`] are not hashed: they can be created and deleted, but neither
//! replaced nor conditionally deleted.
//!
//! One thing an S3 bucket can do this one cannot: hold an object and a folder of the same
//! name.

mod clock;
mod direct;
mod disk;
mod durability;
mod folder;
mod lock;
mod sharing;
mod suitability;
mod temp;

use std::{
    fs::File,
    io,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;

use self::disk::Disk;
use super::{
    Body, Bucket, BucketError, Deleted, Depth, Key, Object, Page, Prefix, Result, ServerFacts, Version, Write,
};

/// The largest object that has a version worth the name. Pointers, locks and records are
/// far smaller; packs are larger, and are never replaced.
pub const MUTABLE_MAX_BYTES: u64 = 8 << 20;

/// The rights with which a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing is written, not even a temporary file. Ages are told by the host's clock.
    ReadOnly,
    /// The directory must exist.
    ReadWrite,
    /// The directory is made if it is missing.
    Create,
}

/// Objects as files below a directory.
#[derive(Clone, Debug)]
pub struct LocalBucket {
    disk: Arc<Disk>,
}

impl LocalBucket {
    /// Opens `root`, which must be absolute. Blocks on file system calls.
    ///
    /// For writing it also removes what crashed writers left and refuses file systems on
    /// which compare-and-swap would be unsafe.
    pub fn open(root: &Path, access: Access) -> Result<Self> {
        Ok(Self { disk: Arc::new(Disk::open(root, access)?) })
    }

    async fn run<T: Send + 'static>(
        &self,
        key: &str,
        work: impl FnOnce(&Disk) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let disk = Arc::clone(&self.disk);
        match tokio::task::spawn_blocking(move || work(&disk)).await {
            Ok(answer) => answer,
            // The runtime is shutting down, or the task panicked half-way.
            Err(error) => Err(BucketError::Unavailable {
                key: key.to_owned(),
                store: self.describe(),
                reason: error.to_string(),
            }),
        }
    }
}

#[async_trait]
impl Bucket for LocalBucket {
    fn describe(&self) -> String {
        self.disk.describe()
    }

    /// A directory is one place wherever it is mounted: qualities that a move to another file system
    /// could break are tried at every opening for writing.
    fn server(&self) -> ServerFacts {
        ServerFacts { place: Some("directory".into()), ..ServerFacts::default() }
    }

    fn file(&self, key: &Key) -> Option<Result<File>> {
        Some(self.disk.file(key))
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let at = key.clone();
        self.run(key.as_str(), move |disk| disk.get(&at, max_bytes)).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let at = key.clone();
        self.run(key.as_str(), move |disk| disk.get_range(&at, range)).await
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        let at = key.clone();
        self.run(key.as_str(), move |disk| disk.put(&at, &body, &write)).await
    }

    /// The whole listing is one page: it costs no round trips, and a cursor into a
    /// directory would have to be found again by reading it from the start.
    async fn list(&self, prefix: &Prefix, depth: Depth, _cursor: Option<String>) -> Result<Page> {
        let below = prefix.clone();
        self.run(prefix.as_str(), move |disk| disk.list(&below, depth)).await
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        let at = key.clone();
        self.run(key.as_str(), move |disk| disk.delete(&at)).await
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        let (at, version) = (key.clone(), version.clone());
        self.run(key.as_str(), move |disk| disk.delete_if(&at, &version)).await
    }
}

/// Where the parts of a local bucket are.
#[derive(Clone, Debug)]
struct Layout {
    root: PathBuf,
}

impl Layout {
    fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    /// A key has neither empty, dot nor dot-dot segments, so this stays below `objects`.
    fn object(&self, key: &Key) -> PathBuf {
        self.objects().join(key.as_str())
    }
}

/// An operating system error as a bucket's, naming the path.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> BucketError {
    let path = path.display().to_string();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            BucketError::Denied { key: path, reason: source.to_string() }
        }
        _ => BucketError::Io { path, source },
    }
}

#[cfg(test)]
mod tests;
