//! Builds a directory beside its target and moves it into place when it is whole.
//!
//! Files are written first, then links, then the attributes of directories from the
//! inside out. Nothing is reachable under the target's name before everything is durable.

use std::{
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::ErrorKind,
    os::unix::{ffi::OsStrExt, fs::DirBuilderExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::{
    fs::{
        AtFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, Uid,
        XattrFlags, chownat, fchmod, fchown, flock, fsetxattr, fsync, futimens, linkat, mkdirat,
        renameat_with, symlinkat, syncfs, utimensat,
    },
    io::Errno,
};

use super::{remove::remove_all, root_dir::RootDir};
use crate::{
    Error, Result,
    error::IoContext,
    format::tree::{Entry, Kind, Meta, is_plain_xattr},
    id,
};

/// A staging directory younger than this may belong to somebody who is about to lock it.
const YOUNG: Duration = Duration::from_secs(10);

/// The attributes that a file gets beside content, time and the plain part of its mode and attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keeping {
    /// Its owner. Else it belongs to the user who makes it.
    pub owner: bool,
    /// Its [special](Meta::is_special) mode and attributes.
    pub special: bool,
}

/// A directory under construction; removed again unless it is published.
#[derive(Debug)]
pub(crate) struct Staging {
    dir: RootDir,
    target: PathBuf,
    replace: bool,
    keeping: Keeping,
    published: bool,
    /// Extended attributes the target's file system would not take.
    lost_xattrs: AtomicU64,
}

impl Staging {
    /// Starts building `target`. One that exists and is not empty is refused unless `replace`.
    pub fn create(target: &Path, replace: bool, keeping: Keeping) -> Result<Self> {
        let target = std::path::absolute(target).at("cannot resolve", target)?;
        match fs::symlink_metadata(&target) {
            Ok(meta) if !meta.is_dir() => {
                return Err(Error::InvalidInput { what: format!("{} is not a directory", target.display()) });
            }
            Ok(_) if !replace && fs::read_dir(&target).at("cannot list", &target)?.next().is_some() => {
                return Err(Error::TargetExists { path: target });
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("cannot look at", &target, error)),
        }
        let (parent, name) = split(&target)?;
        fs::create_dir_all(parent).at("cannot make", parent)?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".pstore-");
        remove_abandoned(parent, &hidden);
        hidden.push(format!("{:016x}", u64::from_le_bytes(id::random())));
        let path = parent.join(hidden);
        fs::DirBuilder::new().mode(0o700).create(&path).at("cannot make", &path)?;
        let dir = RootDir::open(&path).inspect_err(|_| drop(fs::remove_dir(&path)))?;
        // Held as long as this process lives, so that others can tell it from what is left of
        // a dead one.
        flock(dir.fd(), FlockOperation::NonBlockingLockExclusive).at("cannot lock", &path)?;
        Ok(Self { dir, target, replace, keeping, published: false, lost_xattrs: AtomicU64::new(0) })
    }

    pub fn lost_xattrs(&self) -> u64 {
        self.lost_xattrs.load(Ordering::Relaxed)
    }

    /// Makes all directories, private for now.
    pub fn make_directories(&self, entries: &[Entry]) -> Result<()> {
        for entry in entries.iter().filter(|entry| entry.kind == Kind::Directory && !entry.path.is_root()) {
            let made =
                self.parent(entry).and_then(|dir| Ok(mkdirat(dir, entry.path.name(), Mode::from(0o700))?));
            made.at("cannot make the directory", self.dir.display(&entry.path))?;
        }
        Ok(())
    }

    /// Opens a regular file to write at any place, making it if it is not there yet.
    pub fn open_file(&self, entry: &Entry) -> Result<File> {
        let flags = OFlags::CREATE | OFlags::WRONLY;
        let fd = self.dir.open_at(entry.path.as_bytes(), flags, Mode::from(0o600));
        Ok(File::from(fd.at("cannot make the file", self.dir.display(&entry.path))?))
    }

    /// Gives a file whose content is complete its size and attributes.
    pub fn finish_file(&self, entry: &Entry, file: &File, size: u64) -> Result<()> {
        let shown = || self.dir.display(&entry.path);
        if file.metadata().at("cannot look at", shown())?.len() != size {
            file.set_len(size).at("cannot extend", shown())?;
        }
        self.set_attributes(file, &entry.meta).at("cannot set the attributes of", shown())
    }

    /// Makes symbolic and hard links; every file is there already.
    pub fn make_links(&self, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let made = match &entry.kind {
                Kind::Symlink { target } => self.symlink(entry, target),
                Kind::HardLink { target } => {
                    self.hard_link(entry, target.parent().unwrap_or_default(), target.name())
                }
                _ => Ok(()),
            };
            made.at("cannot make the link", self.dir.display(&entry.path))?;
        }
        Ok(())
    }

    /// Gives directories their attributes, innermost first, now that nothing in them changes.
    pub fn finish_directories(&self, entries: &[Entry]) -> Result<()> {
        for entry in entries.iter().rev().filter(|entry| entry.kind == Kind::Directory) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let fd = self.dir.open_at(entry.path.as_bytes(), flags, Mode::empty());
            if let Err(error) = &fd
                && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            {
                // The inspection of the directory has taken it out.
                continue;
            }
            fd.and_then(|fd| Ok(self.set_attributes(&File::from(fd), &entry.meta)?))
                .at("cannot set the attributes of", self.dir.display(&entry.path))?;
        }
        Ok(())
    }

    /// Where it is written.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Makes the files written so far durable.
    pub fn flush(&self) -> Result<()> {
        syncfs(self.dir.fd()).at("cannot flush", self.dir.path())
    }

    /// Makes everything durable and moves it to the target's name, if `commits` says so at the
    /// last moment.
    pub fn publish(mut self, commits: impl FnOnce() -> bool) -> Result<()> {
        self.flush()?;
        let staged = self.dir.path().to_owned();
        let (parent, _) = split(&self.target)?;
        if !commits() {
            let interrupted = std::io::Error::from(std::io::ErrorKind::Interrupted);
            return Err(Error::io("nothing was moved to", &self.target, interrupted));
        }
        let old = if self.replace && self.target.exists() {
            let cwd = rustix::fs::CWD;
            renameat_with(cwd, &staged, cwd, &self.target, RenameFlags::EXCHANGE)
                .at("cannot replace", &self.target)?;
            Some(&staged)
        } else {
            fs::rename(&staged, &self.target).at("cannot move the restored directory to", &self.target)?;
            None
        };
        self.published = true;
        File::open(parent).and_then(|dir| Ok(fsync(dir)?)).at("cannot flush", parent)?;
        if let Some(old) = old {
            remove_all(old).at("restored, but cannot remove what was there before, now at", old)?;
        }
        Ok(())
    }

    fn parent(&self, entry: &Entry) -> std::io::Result<std::os::fd::OwnedFd> {
        self.dir.dir(entry.path.parent().unwrap_or_default())
    }

    fn symlink(&self, entry: &Entry, target: &[u8]) -> std::io::Result<()> {
        let dir = self.parent(entry)?;
        let name = entry.path.name();
        symlinkat(target, &dir, name)?;
        if self.keeping.owner {
            let (uid, gid) = owner(&entry.meta);
            chownat(&dir, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(&dir, name, &timestamps(&entry.meta), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn hard_link(&self, entry: &Entry, target_dir: &[u8], target: &[u8]) -> std::io::Result<()> {
        Ok(linkat(
            self.dir.dir(target_dir)?,
            target,
            self.parent(entry)?,
            entry.path.name(),
            AtFlags::empty(),
        )?)
    }

    fn set_attributes(&self, file: &File, meta: &Meta) -> rustix::io::Result<()> {
        if self.keeping.owner {
            let (uid, gid) = owner(meta);
            fchown(file, uid, gid)?;
        }
        for (name, value) in &meta.xattrs {
            if !self.keeping.special && !is_plain_xattr(name) {
                continue;
            }
            match fsetxattr(file, OsStr::from_bytes(name), value, XattrFlags::empty()) {
                Err(Errno::NOTSUP) => drop(self.lost_xattrs.fetch_add(1, Ordering::Relaxed)),
                result => result?,
            }
        }
        // After the owner: changing it clears the set-id bits.
        let mode = if self.keeping.special { meta.mode } else { meta.plain_mode() };
        fchmod(file, Mode::from(mode))?;
        futimens(file, &timestamps(meta))
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if !self.published
            && let Err(error) = remove_all(self.dir.path())
        {
            tracing::warn!(path = %self.dir.path().display(), %error, "an unfinished directory is left behind");
        }
    }
}

/// Removes the staging directories that killed restores to the same target left behind.
fn remove_abandoned(parent: &Path, prefix: &OsStr) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|meta| meta.modified()).ok();
        // One that was made just now may not have been locked yet.
        let settled = made.and_then(|made| made.elapsed().ok()).is_some_and(|age| age > YOUNG);
        if !settled || !entry.file_name().as_bytes().starts_with(prefix.as_bytes()) {
            continue;
        }
        if let Ok(dir) = RootDir::open(&entry.path())
            && flock(dir.fd(), FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            tracing::info!(path = %entry.path().display(), "removing what a killed restore left behind");
            let _ = remove_all(&entry.path());
        }
    }
}

fn owner(meta: &Meta) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))
}

fn timestamps(meta: &Meta) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: Timespec { tv_sec: meta.mtime.seconds, tv_nsec: meta.mtime.nanos.into() },
    }
}

fn split(target: &Path) -> Result<(&Path, &OsStr)> {
    match (target.parent(), target.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(Error::InvalidInput { what: format!("{} cannot be restored to", target.display()) }),
    }
}
