//! Evicts segments to make room for a new one, by the limits of this host for all stores and tenants.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use rustix::fs::FlockOperation;

use super::{Limits, segment};
use crate::content::cache::make_private;

/// The folder of a tenant's segments.
pub(super) const FOLDER: &str = "chunks";
const LOCK: &str = "chunks.lock";

/// Held while segments are counted, made and evicted; dropped with the file.
pub(super) fn lock(host_root: &Path) -> io::Result<File> {
    make_private(host_root)?;
    let file = File::options().create(true).truncate(false).write(true).open(host_root.join(LOCK))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// Whether the file system has less left than must stay free.
pub(super) fn is_short(host_root: &Path, limits: &Limits) -> io::Result<bool> {
    make_private(host_root)?;
    let (bytes, inodes) = free(host_root)?;
    Ok(bytes < limits.min_free_bytes || inodes < limits.min_free_inodes)
}

/// As [`evict_for`], for a caller without the lock.
pub(super) fn make(host_root: &Path, limits: &Limits, segments: u64) -> io::Result<()> {
    let _lock = lock(host_root)?;
    evict_for(host_root, limits, segments)
}

/// Evicts until `segments` more fit; fails if they cannot. The caller holds the lock.
pub(super) fn evict_for(host_root: &Path, limits: &Limits, segments: u64) -> io::Result<()> {
    let size = u64::from(limits.segment_bytes);
    let mut found = all(host_root);
    found.sort();
    // Every segment counts as its whole size: that much is reserved for it.
    let counted = |len: u64| len.max(size);
    let mut files = found.len() as u64;
    let mut bytes: u64 = found.iter().map(|(_, len, _)| counted(*len)).sum();
    let (mut free_bytes, mut free_inodes) = free(host_root)?;
    let mut oldest = found.into_iter();
    loop {
        let fits = bytes + segments * size <= limits.max_bytes
            && files + segments <= limits.max_files
            && free_bytes >= limits.min_free_bytes.saturating_add(segments * size)
            && free_inodes >= limits.min_free_inodes.saturating_add(segments);
        if fits {
            return Ok(());
        }
        let Some((_, len, path)) = oldest.next() else {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the limits leave no room for a segment"));
        };
        if evict(&path) {
            bytes -= counted(len);
            files -= 1;
            free_bytes += counted(len);
            free_inodes += 1;
        }
    }
}

/// Removes a segment unless somebody appends to it.
fn evict(path: &Path) -> bool {
    let file = File::options().read(true).open(path);
    file.and_then(|file| segment::lock(&file).and_then(|()| fs::remove_file(path))).is_ok()
}

/// Every segment of every tenant, with when it was last used and its length.
fn all(host_root: &Path) -> Vec<(SystemTime, u64, PathBuf)> {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let stores = below(host_root.to_owned()).into_iter();
    let segments = stores.flat_map(&below).flat_map(|tenant| below(tenant.join(FOLDER)));
    let seen = segments.filter_map(|path| {
        let meta = path.symlink_metadata().ok().filter(fs::Metadata::is_file)?;
        Some((meta.modified().ok()?, meta.len(), path))
    });
    seen.collect()
}

fn free(host_root: &Path) -> io::Result<(u64, u64)> {
    let space = rustix::fs::statvfs(host_root)?;
    // A file system that does not count its inodes has no limit on them.
    let inodes = if space.f_files == 0 { u64::MAX } else { space.f_favail };
    Ok((space.f_bavail.saturating_mul(space.f_frsize), inodes))
}
