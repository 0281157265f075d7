//! `Cache` keeps this host's knowledge of a tenant: indexes, metadata, file states.
//!
//! Safe for any number of processes: files are written aside and renamed, each carries
//! its own checksum, and one that is missing, stale or damaged costs time and nothing
//! else. Losing the whole directory is always fine.

use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use crate::{id, id::StoreId, name::Tenant};

const CHECK_LEN: usize = 32;

/// The kinds of cached files, by their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// Indexes, by the write that made them.
    Index,
    /// Decoded metadata of snapshots, by record and generation.
    Meta,
    /// File states, by directory.
    Stat,
    /// Documents of packs that are gone, by their name.
    Swept,
    /// Records that have ended, by lineage.
    Ended,
    /// Contents of the packs of writes that have not ended, by pack.
    Unfinished,
    /// Roots and segments of large trees, by their ids.
    Segment,
    /// Summaries of all snapshots of the tenant.
    Survey,
}

impl CacheKind {
    const fn folder(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Meta => "meta",
            Self::Stat => "stat",
            Self::Swept => "swept",
            Self::Ended => "ended",
            Self::Unfinished => "unfinished",
            Self::Segment => "segment",
            Self::Survey => "survey",
        }
    }

    /// How many bytes a kind may take before its oldest files go.
    pub(super) const fn max_bytes(self) -> u64 {
        match self {
            Self::Index => 64 << 20,
            Self::Meta | Self::Stat | Self::Segment => 256 << 20,
            Self::Swept | Self::Ended => 16 << 20,
            Self::Survey => 256 << 20,
            // Of some 20 GB; they are all kept in memory by the write that goes on.
            Self::Unfinished => 32 << 20,
        }
    }
}

/// A cached file, as it was seen.
#[derive(Debug)]
pub(super) struct Listed {
    pub name: String,
    pub len: u64,
    modified: SystemTime,
}

impl Listed {
    /// Since it was written; none if that is still to come.
    pub(super) fn age(&self) -> Option<Duration> {
        self.modified.elapsed().ok()
    }
}

/// One tenant's cache on this host.
#[derive(Debug)]
pub struct Cache {
    root: PathBuf,
    /// For each kind, whether it has been looked through.
    pruned: [AtomicBool; 8],
}

impl Cache {
    /// Keeps everything below `root/<store>/<tenant>/`; the folders are made when needed.
    pub fn new(root: &Path, store: StoreId, tenant: &Tenant) -> Self {
        Self { root: root.join(store.to_string()).join(tenant.as_str()), pruned: Default::default() }
    }

    /// This tenant's folder for things that are kept by rules of their own.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The same, made unless it is there.
    pub(crate) fn private_folder(&self, name: &str) -> std::io::Result<PathBuf> {
        let folder = self.folder(name);
        make_private(&folder).map(|()| folder)
    }

    /// Where the folders of all stores and tenants are.
    pub(super) fn host_root(&self) -> &Path {
        self.root.parent().and_then(Path::parent).unwrap_or(&self.root)
    }

    /// The cached bytes, if they are there and whole.
    pub fn read(&self, kind: CacheKind, name: &str) -> Option<Vec<u8>> {
        let path = self.path(kind, name);
        let mut bytes = fs::read(&path).ok()?;
        let split = bytes.len().checked_sub(CHECK_LEN)?;
        if blake3::hash(&bytes[..split]).as_bytes()[..] != bytes[split..] {
            tracing::warn!(path = %path.display(), "a damaged cache file is dropped");
            let _ = fs::remove_file(&path);
            return None;
        }
        bytes.truncate(split);
        Some(bytes)
    }

    /// Remembers `bytes`. A failure is logged: the cache is a convenience.
    pub fn write(&self, kind: CacheKind, name: &str, bytes: &[u8]) {
        self.write_with(kind, name, |file| {
            file.write_all(bytes)?;
            file.write_all(blake3::hash(bytes).as_bytes())
        });
    }

    /// A cached file, to be read bit by bit. The reader finds out by itself whether it is whole.
    pub fn open(&self, kind: CacheKind, name: &str) -> Option<fs::File> {
        fs::File::open(self.path(kind, name)).ok()
    }

    /// Keeps the bytes of `write` as a file. A failure is logged: the cache is a convenience.
    pub fn write_with(
        &self,
        kind: CacheKind,
        name: &str,
        write: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
    ) {
        if let Err(error) = self.try_write(kind, name, write) {
            tracing::debug!(root = %self.root.display(), %error, "the cache could not be written");
        }
    }

    /// The files of one kind that this user has cached, newest first.
    pub(super) fn list_own(&self, kind: CacheKind) -> Vec<Listed> {
        let Ok(folder) = fs::read_dir(self.root.join(kind.folder())) else { return Vec::new() };
        let user = rustix::process::geteuid().as_raw();
        let own = |entry: fs::DirEntry| {
            let (name, meta) = (entry.file_name().into_string().ok()?, entry.metadata().ok()?);
            let is_own = meta.is_file() && meta.uid() == user && !name.starts_with('.');
            is_own.then_some(Listed { modified: meta.modified().ok()?, len: meta.len(), name })
        };
        let mut listed: Vec<Listed> = folder.filter_map(|entry| own(entry.ok()?)).collect();
        listed.sort_unstable_by(|a, b| (b.modified, &b.name).cmp(&(a.modified, &a.name)));
        listed
    }

    /// Forgets a file. If that fails it is as it was.
    pub(super) fn remove(&self, kind: CacheKind, name: &str) {
        let _ = fs::remove_file(self.path(kind, name));
    }

    fn try_write(
        &self,
        kind: CacheKind,
        name: &str,
        write: impl FnOnce(&mut fs::File) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        let path = self.path(kind, name);
        let folder = self.root.join(kind.folder());
        make_private(&folder)?;
        let aside = folder.join(format!(".{}", u64::from_le_bytes(id::random())));
        let mut private = fs::File::options();
        private.write(true).create_new(true).mode(0o600);
        let written = private.open(&aside).and_then(|mut file| write(&mut file));
        written.and_then(|()| fs::rename(&aside, &path)).inspect_err(|_| drop(fs::remove_file(&aside)))?;
        // Once for each process: looking at a whole folder for every file would be quadratic.
        if self.pruned[kind as usize].swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        prune(&folder, kind.max_bytes())
    }

    fn path(&self, kind: CacheKind, name: &str) -> PathBuf {
        self.root.join(kind.folder()).join(name)
    }
}

pub(super) fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Drops the oldest files of a folder that has grown too large.
fn prune(folder: &Path, max_bytes: u64) -> std::io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(folder)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let meta = entry.metadata().ok()?;
            Some((meta.modified().ok()?, meta.len(), entry.path()))
        })
        .collect();
    let mut total: u64 = files.iter().map(|(_, len, _)| len).sum();
    if total <= max_bytes {
        return Ok(());
    }
    files.sort();
    for (_, len, path) in files {
        if total <= max_bytes {
            break;
        }
        let _ = fs::remove_file(path);
        total -= len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_as_good_as_none() {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(root.path(), StoreId::from_parts(1, [1; 10]), &"acme".parse().unwrap());
        assert_eq!(cache.read(CacheKind::Index, "x"), None);
        cache.write(CacheKind::Index, "x", b"hello");
        assert_eq!(cache.read(CacheKind::Index, "x").as_deref(), Some(&b"hello"[..]));
        let path = cache.path(CacheKind::Index, "x");
        let mut bytes = fs::read(&path).unwrap();
        bytes[2] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(cache.read(CacheKind::Index, "x"), None);
        assert!(!path.exists());
        fs::write(&path, b"short").unwrap();
        assert_eq!(cache.read(CacheKind::Index, "x"), None);
    }

    #[test]
    fn the_oldest_files_go_first() {
        let folder = tempfile::tempdir().unwrap();
        for (age, name) in ["new", "old"].iter().enumerate() {
            let path = folder.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let when = SystemTime::now() - std::time::Duration::from_secs(age as u64 * 100);
            fs::File::options().write(true).open(&path).unwrap().set_modified(when).unwrap();
        }
        prune(folder.path(), 150).unwrap();
        assert!(folder.path().join("new").exists() && !folder.path().join("old").exists());
    }
}
