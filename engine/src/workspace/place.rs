//! `place` puts what a revert has prepared where it belongs.
//!
//! 1. What the checkpoint does not have is removed, the innermost first.
//! 2. Each file is moved to its place: it is the old one or the new one, never a part of either.
//! 3. Directories get their modes and times, the innermost first.
//!
//! Every path is resolved beneath the workspace, and no symbolic link is followed on the way. A directory whose mode forbids
//! its owner to change it is opened for that, and closed again.

use std::{
    collections::BTreeSet,
    io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, chmod, fstat, mkdirat,
        renameat, statat, unlinkat, utimensat,
    },
    io::Errno,
};
use store::{
    ErrorKind,
    format::tree::{Entry, Kind, TreePath},
    tree::root_dir::RootDir,
};

use super::{
    compare::{self, Difference, Scope, is_below},
    outcome::ChangeKind,
};
use crate::{failure::Failure, text::path};

/// The failure of a revert that cannot go on at a path.
pub(crate) fn broken(path: &str, error: &io::Error) -> Failure {
    Failure::new(ErrorKind::Io, format!("{path} cannot be reverted: {error}"))
        .hint("what was there before is in the checkpoint `before-restore`; run the same command again")
}

fn is_directory(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Directory)
}

/// Directories in whose place something else comes: these must go with all that lies in them.
fn replaced(differences: &[Difference]) -> impl Iterator<Item = &TreePath> {
    differences
        .iter()
        .filter(|found| found.after.as_ref().is_some_and(is_directory))
        .filter(|found| found.before.as_ref().is_some_and(|before| !is_directory(before)))
        .map(|found| &found.path)
}

/// Something in a directory in whose place something else comes, that no checkpoint has and so no revert takes away: the
/// directory, and what lies in it.
pub(crate) fn in_the_way(
    root: &RootDir,
    differences: &[Difference],
) -> Result<Option<(TreePath, TreePath)>, Failure> {
    for top in replaced(differences) {
        let goes: BTreeSet<&TreePath> = differences.iter().map(|found| &found.path).collect();
        let scope = Scope(Some(top.clone()));
        let there = compare::paths(root, &scope)?;
        // The files come after their directory, and say more.
        let stays = |path: &&TreePath| scope.holds(path) && !goes.contains(path);
        if let Some(inner) = there.into_iter().rfind(|path| stays(&path)) {
            return Ok(Some((top.clone(), inner)));
        }
    }
    Ok(None)
}

/// Removes, makes and moves, in an order in which every path has its directory. What is moved lies in the folder `prepared`.
pub(crate) fn place(root: &RootDir, prepared: &str, differences: &[Difference]) -> Result<(), Failure> {
    let failed = |found: &Difference, error: io::Error| broken(&path::shown(found.path.as_bytes()), &error);
    let replaced: Vec<&TreePath> = replaced(differences).collect();
    for found in differences.iter().rev() {
        let Some(after) = &found.after else { continue };
        let becomes_directory = found.before.as_ref().map(is_directory);
        if becomes_directory != Some(is_directory(after)) {
            let must_go = replaced.iter().any(|top| found.path == **top || is_below(&found.path, top));
            remove(root, &found.path, is_directory(after), must_go).map_err(|error| failed(found, error))?;
        }
    }
    let is_moved = |found: &&Difference| found.before.as_ref().is_some_and(|before| !is_directory(before));
    let moved = differences.iter().filter(is_moved).map(|found| &found.path);
    open_up(root, prepared, moved).map_err(|error| broken(prepared, &error))?;
    for found in differences {
        let Some(before) = &found.before else { continue };
        let made = match before.kind {
            Kind::Directory if found.change == ChangeKind::Metadata => Ok(()),
            Kind::Directory => make_directory(root, &found.path),
            _ => move_file(root, prepared, &found.path),
        };
        made.map_err(|error| failed(found, error))?;
    }
    for found in differences.iter().rev() {
        if let Some(before) = found.before.as_ref().filter(|before| is_directory(before)) {
            finish_directory(root, before).map_err(|error| failed(found, error))?;
        }
    }
    Ok(())
}

/// Changes something in the directory of a path.
fn change<T>(
    root: &RootDir,
    path: &TreePath,
    change: impl Fn(&OwnedFd) -> rustix::io::Result<T>,
) -> io::Result<T> {
    let dir = root.dir(path.parent().unwrap_or_default())?;
    match change(&dir) {
        Err(Errno::ACCESS) => {}
        changed => return Ok(changed?),
    }
    let mode = Mode::from_raw_mode(fstat(&dir)?.st_mode);
    chmod(by_handle(&dir), mode | Mode::RWXU)?;
    let changed = change(&dir);
    chmod(by_handle(&dir), mode)?;
    Ok(changed?)
}

/// A path that leads to what a handle is of, and to nothing else.
fn by_handle(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

fn remove(root: &RootDir, path: &TreePath, is_directory: bool, must_go: bool) -> io::Result<()> {
    let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    let removed = change(root, path, |dir| match unlinkat(dir, path.name(), flags) {
        Err(Errno::NOENT) => Ok(true),
        Err(Errno::NOTEMPTY) => Ok(false),
        removed => removed.map(|()| true),
    });
    match removed {
        Ok(true) => Ok(()),
        Ok(false) if must_go => {
            remove_special(root, path)?;
            change(root, path, |dir| unlinkat(dir, path.name(), flags))
        }
        // What is in it is in no checkpoint, and none takes it away.
        Ok(false) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the FIFOs, sockets and devices of a directory, which have no content.
fn remove_special(root: &RootDir, folder: &TreePath) -> io::Result<()> {
    let opened = root.open_at(folder.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
    for entry in Dir::read_from(&opened)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." && is_special(&opened, name)? {
            let path = folder.join(name).map_err(|error| io::Error::other(error.to_string()))?;
            change(root, &path, |dir| unlinkat(dir, path.name(), AtFlags::empty()))?;
        }
    }
    Ok(())
}

fn is_special(dir: impl AsFd, name: &[u8]) -> rustix::io::Result<bool> {
    let found = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(found.st_mode);
    Ok(!matches!(kind, FileType::Directory | FileType::RegularFile | FileType::Symlink))
}

fn make_directory(root: &RootDir, path: &TreePath) -> io::Result<()> {
    change(root, path, |dir| match mkdirat(dir, path.name(), Mode::RWXU) {
        Err(Errno::EXIST) if is_special(dir, path.name())? => {
            unlinkat(dir, path.name(), AtFlags::empty())?;
            mkdirat(dir, path.name(), Mode::RWXU)
        }
        Err(Errno::EXIST) => Ok(()),
        made => made,
    })
}

/// Makes the directories changeable from which files are moved; they are ours alone.
fn open_up<'a>(root: &RootDir, prepared: &str, moved: impl Iterator<Item = &'a TreePath>) -> io::Result<()> {
    let mut folders: BTreeSet<Vec<u8>> = BTreeSet::new();
    for path in moved {
        let parent = path.parent().unwrap_or_default();
        let ends = parent.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.chain([parent.len()]) {
            folders.insert(within(prepared, &parent[..end]));
        }
    }
    // In the order of paths, so that each is reached through one that was opened.
    for folder in folders {
        let dir = root.dir(&folder)?;
        let mode = Mode::from_raw_mode(fstat(&dir)?.st_mode);
        if !mode.contains(Mode::RWXU) {
            chmod(by_handle(&dir), mode | Mode::RWXU)?;
        }
    }
    Ok(())
}

fn within(prepared: &str, path: &[u8]) -> Vec<u8> {
    let mut whole = prepared.as_bytes().to_vec();
    if !path.is_empty() {
        whole.push(b'/');
        whole.extend_from_slice(path);
    }
    whole
}

fn move_file(root: &RootDir, prepared: &str, path: &TreePath) -> io::Result<()> {
    let from = root.dir(&within(prepared, path.parent().unwrap_or_default()))?;
    change(root, path, |dir| renameat(&from, path.name(), dir, path.name()))
}

fn finish_directory(root: &RootDir, entry: &Entry) -> io::Result<()> {
    let dir = root.dir(entry.path.as_bytes())?;
    let time = entry.meta.mtime;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: time.seconds, tv_nsec: time.nanos.into() },
    };
    chmod(by_handle(&dir), Mode::from(entry.meta.mode))?;
    utimensat(CWD, by_handle(&dir), &times, AtFlags::empty())?;
    Ok(())
}
