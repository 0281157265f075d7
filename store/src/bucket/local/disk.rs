//! `Disk` makes the file system calls of a local bucket. They block.

use std::{
    fs::{self, File},
    io::{self, Read, Write as _},
    ops::Range,
    os::unix::fs::{DirBuilderExt, FileExt},
    path::Path,
};

use bytes::Bytes;
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};

use super::{
    Access, Layout, MUTABLE_MAX_BYTES,
    clock::Clock,
    direct,
    durability::Durability,
    failed,
    folder::Listing,
    lock::{FolderLock, KeyLock},
    sharing, suitability, temp,
    temp::Temp,
};
use crate::bucket::{
    Body, BucketError, Buffers, Deleted, Depth, Key, Object, Page, Prefix, Result, Stamp, Version, Write,
};

/// As many as are read at once by those that read most, and written beside them.
const IDLE_BUFFERS: usize = 10;

#[derive(Debug)]
pub(super) struct Disk {
    layout: Layout,
    clock: Clock,
    pub(super) durability: Durability,
    buffers: Buffers,
    /// Behaves as a file system that shows a rename in two steps to a reader of the folder.
    #[cfg(test)]
    pub(super) moves_entries: std::sync::atomic::AtomicBool,
}

impl Disk {
    pub(super) fn open(root: &Path, access: Access) -> Result<Self> {
        let layout = Layout { root: root.to_owned() };
        let store = format!("file://{}", root.display());
        let durability = Durability::new(store.clone());
        if access == Access::Create {
            create_root(root).map_err(failed(root))?;
        }
        if !root.is_dir() {
            return Err(BucketError::Unsuitable { store, reason: "there is no such directory".into() });
        }
        if access == Access::ReadOnly {
            return Ok(Self::with(layout, Clock::Host, durability));
        }
        for folder in [layout.objects(), layout.tmp(), layout.locks()] {
            match sharing::create_folder(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed(&folder)(error));
                }
                _ => {}
            }
        }
        let tmp = layout.tmp();
        temp::clean(&tmp).map_err(failed(&tmp))?;
        if let Err(reason) = suitability::examine(&tmp).map_err(failed(&tmp))? {
            return Err(BucketError::Unsuitable { store, reason: reason.into() });
        }
        let clock = Clock::FileSystem(Temp::create(&tmp).map_err(failed(&tmp))?);
        Ok(Self::with(layout, clock, durability))
    }

    fn with(layout: Layout, clock: Clock, durability: Durability) -> Self {
        Self {
            layout,
            clock,
            durability,
            buffers: Buffers::new(IDLE_BUFFERS),
            #[cfg(test)]
            moves_entries: Default::default(),
        }
    }

    pub(super) fn describe(&self) -> String {
        format!("file://{}", self.layout.root.display())
    }

    pub(super) fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let answer = self.read(key, max_bytes);
        self.durability.check(key.as_str())?;
        answer
    }

    fn read(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let path = self.layout.object(key);
        let (file, len) = self.object(key)?.ok_or_else(|| BucketError::NotFound { key: key.to_string() })?;
        let modified = file.metadata().and_then(|metadata| metadata.modified()).map_err(failed(&path))?;
        let too_large = |bytes, version: Version| {
            let (key, version) = (key.to_string(), version.to_string());
            Err(BucketError::TooLarge { key, bytes, max_bytes, version })
        };
        // One that can be replaced is read all the same, for its version.
        let most = max_bytes.max(MUTABLE_MAX_BYTES);
        if len > most {
            return too_large(len, Version::new(UNHASHED));
        }
        let bytes = read_all(&file, len, most).map_err(failed(&path))?;
        if bytes.len() as u64 > max_bytes {
            return too_large(bytes.len() as u64, version(&bytes));
        }
        let now = self.clock.now().map_err(failed(&path))?;
        Ok(Object { version: version(&bytes), bytes: bytes.into(), stamp: Stamp { modified, now } })
    }

    pub(super) fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let answer = self.read_range(key, range);
        self.durability.check(key.as_str())?;
        answer
    }

    fn read_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        let path = self.layout.object(key);
        let (file, len) = self.object(key)?.ok_or_else(|| BucketError::NotFound { key: key.to_string() })?;
        if range.end > len {
            let Range { start, end } = range;
            return Err(BucketError::Truncated { key: key.to_string(), actual: len, start, end });
        }
        let len = (range.end - range.start) as usize;
        if len >= direct::LARGE_BYTES {
            return direct::read(&file, range, &self.buffers).map_err(failed(&path));
        }
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, range.start).map_err(failed(&path))?;
        Ok(bytes.into())
    }

    pub(super) fn file(&self, key: &Key) -> Result<File> {
        self.durability.check(key.as_str())?;
        let (file, _) = self.object(key)?.ok_or_else(|| BucketError::NotFound { key: key.to_string() })?;
        Ok(file)
    }

    pub(super) fn list(&self, prefix: &Prefix, depth: Depth) -> Result<Page> {
        let answer = Listing::new(&self.layout).list(prefix, depth);
        self.durability.check(prefix.as_str())?;
        answer
    }

    pub(super) fn put(&self, key: &Key, body: &Body, write: &Write) -> Result<Version> {
        self.may_write(key)?;
        let path = self.layout.object(key);
        match write {
            // Saves writing the bytes; the link below decides.
            Write::Create if path.symlink_metadata().is_ok() => Err(self.taken(key, &path)),
            Write::Create => self.create(key, &path, body),
            Write::Replace(_) if body.len() > MUTABLE_MAX_BYTES => {
                Err(self.rejected(key, "an object this large can be created, but cannot replace another"))
            }
            Write::Replace(expected) => self.replace(key, &path, body, expected),
        }
    }

    fn create(&self, key: &Key, path: &Path, body: &Body) -> Result<Version> {
        let folder = parent(path);
        let (temp, version) =
            self.durability.settle(key.as_str(), &self.layout.root, folder, || self.written(key, body))?;
        match temp.link(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(self.taken(key, path)),
            Err(error) => return Err(failed(path)(error)),
        }
        self.durability.sync_folder(key.as_str(), folder)?;
        Ok(version)
    }

    fn replace(&self, key: &Key, path: &Path, body: &Body, expected: &Version) -> Result<Version> {
        let (temp, version) = self.written(key, body)?;
        let _lock = KeyLock::acquire(&self.layout, key)?;
        self.must_hold(key, path, expected)?;
        self.displace(temp, path)?;
        self.durability.sync_folder(key.as_str(), parent(path))?;
        Ok(version)
    }

    /// Gives the object's name to another file, while nobody reads the folder: some file
    /// systems do it by taking the entry out and putting a new one in at another place, which
    /// a reader that is between the two places would miss.
    ///
    /// The caller holds the key's lock, and nobody takes a key's lock after a folder's.
    fn displace(&self, temp: Temp, path: &Path) -> Result<()> {
        let _lock = FolderLock::exclusive(&self.layout, parent(path))?;
        #[cfg(test)]
        if self.moves_entries.load(std::sync::atomic::Ordering::SeqCst) {
            fs::remove_file(path).map_err(failed(path))?;
            std::thread::yield_now();
        }
        temp.rename(path).map_err(failed(path))
    }

    pub(super) fn delete(&self, key: &Key) -> Result<()> {
        self.may_write(key)?;
        let _lock = KeyLock::acquire(&self.layout, key)?;
        if self.object(key)?.is_none() {
            return Ok(());
        }
        self.remove(key)
    }

    pub(super) fn delete_if(&self, key: &Key, expected: &Version) -> Result<Deleted> {
        self.may_write(key)?;
        let path = self.layout.object(key);
        let _lock = KeyLock::acquire(&self.layout, key)?;
        if expected.as_str() == UNHASHED {
            return Ok(Deleted::Unsupported);
        }
        self.must_hold(key, &path, expected)?;
        self.remove(key)?;
        Ok(Deleted::Yes)
    }

    /// The caller holds the key's lock.
    fn remove(&self, key: &Key) -> Result<()> {
        let path = self.layout.object(key);
        fs::remove_file(&path).map_err(failed(&path))?;
        self.durability.sync_folder(key.as_str(), parent(&path))
    }

    /// The caller holds the key's lock, so the answer stays true until it acts.
    fn must_hold(&self, key: &Key, path: &Path, expected: &Version) -> Result<()> {
        let mismatch = || BucketError::VersionMismatch { key: key.to_string() };
        let (file, len) = self.object(key)?.ok_or_else(mismatch)?;
        if expected.as_str() == UNHASHED {
            return Err(self.rejected(key, "an object this large can be deleted, but not replaced"));
        }
        if len > MUTABLE_MAX_BYTES {
            return Err(mismatch());
        }
        let bytes = read_all(&file, len, MUTABLE_MAX_BYTES).map_err(failed(path))?;
        if version(&bytes) == *expected { Ok(()) } else { Err(mismatch()) }
    }

    /// The body, synced, under a temporary name.
    fn written(&self, key: &Key, body: &Body) -> Result<(Temp, Version)> {
        let tmp = self.layout.tmp();
        let temp = Temp::create(&tmp).map_err(failed(&tmp))?;
        let version = match body {
            Body::Bytes(bytes) => {
                direct::write(temp.file(), bytes, &self.buffers).map_err(failed(temp.path()))?;
                version(bytes)
            }
            Body::File { path, len } => copy(path, *len, temp.file()).map_err(failed(path))?,
        };
        self.durability.sync(key.as_str(), temp.file())?;
        Ok((temp, version))
    }

    /// The object's file and its length. Only a regular file is an object: not a directory,
    /// nor a link that somebody laid out to a file elsewhere.
    fn object(&self, key: &Key) -> Result<Option<(File, u64)>> {
        let path = self.layout.object(key);
        // Without blocking, so that opening a pipe does not wait for its writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(failed(&path)(errno.into())),
        };
        let metadata = file.metadata().map_err(failed(&path))?;
        Ok(metadata.is_file().then_some((file, metadata.len())))
    }

    fn may_write(&self, key: &Key) -> Result<()> {
        if matches!(self.clock, Clock::Host) {
            return Err(BucketError::Denied {
                key: key.to_string(),
                reason: "the directory was opened for reading only".into(),
            });
        }
        self.durability.check(key.as_str())
    }

    fn taken(&self, key: &Key, path: &Path) -> BucketError {
        if path.is_dir() {
            return self.rejected(key, "there is a folder of this name, so it cannot be an object");
        }
        BucketError::AlreadyExists { key: key.to_string() }
    }

    fn rejected(&self, key: &Key, reason: &str) -> BucketError {
        BucketError::Rejected { key: key.to_string(), store: self.describe(), reason: reason.into() }
    }
}

/// The version of every object too large to be hashed.
const UNHASHED: &str = "unhashed";

fn version(bytes: &[u8]) -> Version {
    if bytes.len() as u64 > MUTABLE_MAX_BYTES { Version::new(UNHASHED) } else { Version::of(bytes) }
}

/// Inside the kernel where the object is too large to be hashed anyway.
fn copy(from: &Path, len: u64, mut to: &File) -> io::Result<Version> {
    let mut file = File::open(from)?;
    let (copied, version) = if len > MUTABLE_MAX_BYTES {
        (io::copy(&mut file, &mut to)?, Version::new(UNHASHED))
    } else {
        let bytes = read_all(&file, len, MUTABLE_MAX_BYTES)?;
        to.write_all(&bytes)?;
        (bytes.len() as u64, version(&bytes))
    };
    if copied == len {
        return Ok(version);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("holds {copied} bytes, not the {len} it was to have"),
    ))
}

/// All of a file of `len` bytes; if it has grown since, no more than one byte above `most`.
fn read_all(file: &File, len: u64, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// An object's path always has one.
fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

/// Durable as far up as directories were missing. Profiles hold secrets, so a new root is
/// closed to others; an owner that wants to share one makes it beforehand.
fn create_root(root: &Path) -> io::Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    let above = parent(root);
    if above != root {
        create_root(above)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(root) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => File::open(above)?.sync_all(),
    }
}
