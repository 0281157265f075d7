//! `Scratch` makes temporary directories that others cannot read, and sweeps those whose maker is dead.
//!
//! They hold parts of profiles in the clear, so nobody else may look into them, under any umask. The maker
//! holds the flock of the directory itself, and the kernel lets go of that when the process ends, however it
//! ends. So a directory that can be locked has been left by a dead process, and [`sweep`] takes it away. A
//! directory gets its name after it is locked: none is ever seen under its name while it could be taken for a
//! dead one's.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, CWD, FileType, FlockOperation, OFlags, StatxFlags, flock, makedev, statx},
    process::geteuid,
};

use crate::{
    Result,
    error::IoContext,
    id::{self, Nonce},
};

/// The beginning of a directory's name until it is locked.
const UNNAMED: &str = ".pstore-new-";
/// How long one without a name is left alone: between its making and its lock lie microseconds.
const NAMED_BY_THEN: Duration = Duration::from_secs(86_400);
/// Somebody who has not noticed yet may still write to it.
const ATTEMPTS: u32 = 5;
/// How often one is made: a process whose clock is a day ahead sweeps one that has no name yet.
const MAKINGS: u32 = 20;

/// The purpose of a directory, which its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Copies of databases, to be checked.
    Check,
    /// The files of a commit that somebody looks at.
    Look,
    /// The databases of an archive, to be inspected.
    Import,
    /// An archive on its way to the store.
    Publish,
    /// The state of a project on its way to the store.
    Save,
    /// A profile while a command uses it. Nobody sweeps it: it may hold what is nowhere else.
    Run,
}

impl Kind {
    const SWEPT: [Self; 5] = [Self::Check, Self::Look, Self::Import, Self::Publish, Self::Save];

    const fn prefix(self) -> &'static str {
        match self {
            Self::Check => "pstore-check-",
            Self::Look => "pstore-look-",
            Self::Import => "pstore-import-",
            Self::Publish => "pstore-publish-",
            Self::Save => "pstore-save-",
            Self::Run => "pstore-run-",
        }
    }

    fn names(self, name: &str) -> bool {
        name.strip_prefix(self.prefix()).is_some_and(|rest| rest.parse::<Nonce>().is_ok())
    }
}

/// A directory that only its owner can look into. It goes with what is in it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Open, and locked where directories can be.
    held: File,
    is_kept: bool,
}

impl Scratch {
    /// Made anew below `parent`; its name cannot be known before.
    pub fn make(parent: &Path, kind: Kind) -> Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(parent).at("cannot make", parent)?;
        let mut making = 1;
        loop {
            match Self::make_one(parent, kind) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && making < MAKINGS => making += 1,
                made => return made.at("cannot make a directory of its own in", parent),
            }
        }
    }

    fn make_one(parent: &Path, kind: Kind) -> io::Result<Self> {
        let nonce = Nonce::from_bytes(id::random());
        let unnamed = parent.join(format!("{UNNAMED}{nonce}"));
        let path = parent.join(format!("{}{nonce}", kind.prefix()));
        DirBuilder::new().mode(0o700).create(&unnamed)?;
        let named = open(&unnamed).and_then(|held| {
            // Where it cannot be locked, those who sweep cannot lock it either, and it stays.
            let _ = flock(&held, FlockOperation::NonBlockingLockExclusive);
            fs::rename(&unnamed, &path).map(|()| held)
        });
        let held = named.inspect_err(|_| drop(fs::remove_dir(&unnamed)))?;
        Ok(Self { path, held, is_kept: false })
    }

    /// Takes one that a dead process has left; `None` if it is not ours, or its maker lives.
    pub fn take(path: &Path) -> Option<Self> {
        let held = is_ours(path).then(|| open(path).ok()).flatten()?;
        let is_left = flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok();
        is_left.then(|| Self { path: path.to_owned(), held, is_kept: true })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Stays where it is when this goes; until then nobody takes it for a dead process's.
    pub fn lasting(mut self) -> Self {
        self.is_kept = true;
        self
    }

    /// Leaves it where it is, closed to others as before.
    pub fn keep(mut self) -> PathBuf {
        self.is_kept = true;
        self.path.clone()
    }

    /// Removes it and all that is in it.
    pub fn remove(mut self) -> io::Result<()> {
        self.is_kept = true;
        self.empty()
    }

    /// Through the open directory: what has its name meanwhile is not touched.
    fn empty(&self) -> io::Result<()> {
        let mut attempt = 1;
        loop {
            match clear(&self.held).and_then(|()| fs::remove_dir(&self.path)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                removed => return removed,
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        if let Err(error) = self.empty() {
            tracing::warn!(path = %self.path.display(), %error, "what was put aside could not be removed");
        }
    }
}

/// A file below `folder` that has no name: it goes with the last process that has it open.
pub(crate) fn unnamed_file(folder: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let flags = OFlags::TMPFILE.bits() as i32;
    OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(folder)
}

/// The directories of one kind below `parent`, of all users and processes.
pub fn list(parent: &Path, kind: Kind) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(|name| kind.names(name)));
    named.map(|entry| entry.path()).collect()
}

/// Removes what dead processes of this user have left below `parent`.
pub fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.contains("pstore-")) else { continue };
        let removed = if Kind::SWEPT.iter().any(|kind| kind.names(name)) {
            Scratch::take(&entry.path()).map(|left| left.empty())
        } else if name.starts_with(UNNAMED) && is_old(&entry) {
            // There is nothing in it, or it stays.
            Scratch::take(&entry.path()).map(|left| fs::remove_dir(&left.path))
        } else {
            None
        };
        if let Some(Err(error)) = removed {
            tracing::debug!(%error, name, "what a dead process has left could not be removed");
        }
    }
}

fn is_old(entry: &fs::DirEntry) -> bool {
    let modified = entry.metadata().and_then(|metadata| metadata.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age > NAMED_BY_THEN))
}

/// Whether this is a directory of this user's, where its name is: what others have put in its
/// place is not even opened. They may have mounted what never answers; the kernel is asked only
/// for what it knows, and knows where a mount begins. Nobody can mount on what is not theirs.
fn is_ours(path: &Path) -> bool {
    let Some(parent) = path.parent().and_then(|parent| fs::metadata(parent).ok()) else { return false };
    let how = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
    statx(CWD, path, how, StatxFlags::TYPE | StatxFlags::UID).is_ok_and(|found| {
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()) == FileType::Directory;
        let device = makedev(found.stx_dev_major, found.stx_dev_minor);
        is_directory && device == parent.dev() && found.stx_uid == geteuid().as_raw()
    })
}

/// The directory itself and no link to one.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// Removes what is in an open directory, wherever that is now.
fn clear(directory: &File) -> io::Result<()> {
    let path = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd()));
    for entry in fs::read_dir(&path)? {
        let entry = entry?;
        let removed = match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    /// As a process leaves one that is killed.
    fn left(parent: &Path, kind: Kind) -> PathBuf {
        let path = Scratch::make(parent, kind).unwrap().keep();
        fs::create_dir(path.join("below")).unwrap();
        fs::write(path.join("below/Cookies"), "secret").unwrap();
        path
    }

    #[test]
    fn one_is_its_owners_alone_and_goes_with_what_is_in_it() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(&parent.path().join("new"), Kind::Check).unwrap();
        for folder in [scratch.path(), scratch.path().parent().unwrap()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        fs::write(scratch.path().join("file"), "x").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(parent.path().join("new")).unwrap().count(), 0);
    }

    /// A process whose clock is ahead takes one without a name for an old one.
    #[test]
    fn one_that_is_swept_before_it_has_its_name_is_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for entry in fs::read_dir(parent.path()).unwrap().flatten() {
                        if entry.file_name().to_str().unwrap().starts_with(UNNAMED) {
                            let _ = fs::remove_dir(entry.path());
                        }
                    }
                }
            });
            let made: Vec<Result<Scratch>> =
                (0..2000).map(|_| Scratch::make(parent.path(), Kind::Check)).collect();
            is_over.store(true, Ordering::Relaxed);
            assert!(made.iter().all(Result::is_ok), "{:?}", made.iter().find(|made| made.is_err()));
        });
    }

    #[test]
    fn what_the_dead_have_left_is_swept_and_what_the_living_use_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let dead = Kind::SWEPT.map(|kind| left(parent.path(), kind));
        let living = Kind::SWEPT.map(|kind| Scratch::make(parent.path(), kind).unwrap());
        sweep(parent.path());
        assert!(dead.iter().all(|path| !path.exists()), "{dead:?}");
        assert!(living.iter().all(|scratch| scratch.path().exists()), "{living:?}");
    }

    #[test]
    fn a_profile_that_a_command_has_used_is_not_swept() {
        let parent = tempfile::tempdir().unwrap();
        let path = left(parent.path(), Kind::Run);
        sweep(parent.path());
        assert!(path.join("below/Cookies").exists());
        assert_eq!(list(parent.path(), Kind::Run), [path]);
    }

    #[test]
    fn names_that_are_not_ours_and_links_are_left_alone() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("file"), "x").unwrap();
        let nonce = Nonce::from_bytes([7; 16]);
        let link = parent.path().join(format!("pstore-check-{nonce}"));
        symlink(elsewhere.path(), &link).unwrap();
        let notes = parent.path().join("pstore-check-notes");
        fs::create_dir(&notes).unwrap();
        let file = parent.path().join(format!("pstore-look-{nonce}"));
        fs::write(&file, "x").unwrap();
        let unnamed = parent.path().join(format!("{UNNAMED}{nonce}"));
        fs::create_dir(&unnamed).unwrap();
        sweep(parent.path());
        assert!(elsewhere.path().join("file").exists() && link.is_symlink());
        assert!(notes.exists() && file.exists() && unnamed.exists());

        let yesterday = SystemTime::now() - 2 * NAMED_BY_THEN;
        File::open(&unnamed).unwrap().set_modified(yesterday).unwrap();
        sweep(parent.path());
        assert!(!unnamed.exists());
    }

    /// Somebody may move it where directories can be moved by anybody.
    #[test]
    fn what_has_its_name_meanwhile_is_not_emptied() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(parent.path(), Kind::Check).unwrap();
        let path = scratch.path().to_owned();
        fs::rename(&path, parent.path().join("moved")).unwrap();
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), "of another").unwrap();
        drop(scratch);
        assert!(path.join("file").exists());
    }
}
