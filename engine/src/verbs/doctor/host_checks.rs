//! `host_checks` looks at this host: the cache directory, free space, FUSE, where databases are read.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use capture::cell::{Cell, Confinement};
use rustix::fs::{Access, access, statfs, statvfs};
use store::ErrorKind;

use super::Check;
use crate::{failure::Failure, text::size};

const TMPFS_MAGIC: rustix::fs::FsWord = 0x0102_1994;
const LITTLE_SPACE_BYTES: u64 = 1 << 30;
/// Less than this is not enough for anything.
const FULL_BYTES: u64 = 4 << 20;
const OTHERS: u32 = 0o007;
const STICKY: u32 = 0o1000;

pub(super) fn cache(root: Option<&Path>) -> Check {
    let name = "cache";
    let Some(root) = root else {
        let advice = "with one, snapshots need not read unchanged files again";
        return Check::warn(name, "none is used", advice);
    };
    let existing = nearest(root);
    let shown = root.display();
    if access(&existing, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let failure = Failure::new(ErrorKind::Io, format!("{shown} cannot be written"));
        return Check::fail(name, failure).advise("choose another with --cache-dir, or use --no-cache");
    }
    if let Some(free) = free(&existing).filter(|free| *free < FULL_BYTES) {
        let failure = Failure::new(ErrorKind::Io, format!("{shown} is full: {} left", size::bytes(free)));
        return Check::fail(name, failure)
            .advise("make room, choose another with --cache-dir, or use --no-cache");
    }
    if statfs(&existing).is_ok_and(|stat| stat.f_type == TMPFS_MAGIC) {
        let found = format!("{shown} is in memory (tmpfs): it is gone after a restart");
        return Check::warn(name, found, "choose a directory on disk with --cache-dir");
    }
    match free(&existing) {
        Some(free) if free < LITTLE_SPACE_BYTES => {
            let found = format!("{shown} has {} left", size::bytes(free));
            Check::warn(name, found, "make room, or choose another with --cache-dir")
        }
        Some(free) => Check::ok(name, format!("{shown}, {} free", size::bytes(free))),
        None => Check::ok(name, shown.to_string()),
    }
}

pub(super) fn space(name: &'static str, root: &Path) -> Check {
    match free(root) {
        Some(free) if free < LITTLE_SPACE_BYTES => {
            Check::warn(name, format!("{} left for the store", size::bytes(free)), "make room")
        }
        Some(free) => Check::ok(name, format!("{} free for the store", size::bytes(free))),
        None => Check::warn(name, "its free space cannot be told", "look with `df`"),
    }
}

/// A directory for a store that others may look into: what was written there before files were
/// closed to them can still be read, and its locks can be held.
pub(super) fn openness(root: &Path) -> Option<Check> {
    let mode = fs::metadata(root).ok()?.mode() & 0o7777;
    let advice = format!("`chmod -R o= {}` closes it", root.display());
    let found = format!("other users of this host may look into {} (mode {mode:04o})", root.display());
    (mode & OTHERS != 0).then(|| Check::warn("privacy", found, advice))
}

/// Where others can move directories, they can put their own in the place of one of ours.
pub(super) fn temporary() -> Option<Check> {
    let folder = env::temp_dir();
    let mode = fs::metadata(&folder).ok()?.mode() & 0o7777;
    let found = format!("other users can move what is in {} (mode {mode:04o})", folder.display());
    let advice = format!("`chmod +t {}`, or set TMPDIR to a directory of your own", folder.display());
    (mode & 0o022 != 0 && mode & STICKY == 0).then(|| Check::warn("temporary", found, advice))
}

/// Mounting needs it; nothing else does.
pub(super) fn fuse() -> Check {
    let name = "fuse";
    let device = Path::new("/dev/fuse");
    if !device.exists() {
        let advice = "load the module with `modprobe fuse`; in a container, pass --device /dev/fuse";
        return Check::warn(name, "there is no /dev/fuse, so nothing can be mounted", advice);
    }
    if let Err(error) = fs::File::options().read(true).write(true).open(device) {
        let advice = "give this user access to /dev/fuse; in a container, pass --device /dev/fuse";
        return Check::warn(name, format!("/dev/fuse cannot be opened: {error}"), advice);
    }
    if !rustix::process::geteuid().is_root() && !on_path("fusermount3") {
        let found = "/dev/fuse opens, but fusermount3 is missing, which users other than root need";
        return Check::warn(name, found, "install the package fuse3");
    }
    Check::ok(name, "/dev/fuse opens")
}

/// Where foreign databases are read: captures, loads and imports need it, unless they do not look.
pub(super) fn databases() -> Check {
    let name = "databases";
    let missing = match Cell::own().confinement() {
        Ok(Confinement { seccomp: true, landlock: true }) => {
            let found =
                "examined in a process of their own, without network and other files (seccomp, Landlock)";
            return Check::ok(name, found);
        }
        Ok(Confinement { seccomp: false, landlock: true }) => "seccomp",
        Ok(Confinement { seccomp: true, landlock: false }) => "Landlock",
        Ok(_) => "seccomp and Landlock",
        Err(error) => {
            let failure = Failure::new(ErrorKind::Io, format!("no database can be examined: {error}"));
            return Check::fail(name, failure).advise("mount /proc; --check none captures without looking");
        }
    };
    let found = format!("examined in a process of their own, with limits but without {missing}");
    let advice = "allow it in the container's profile, or use a kernel that has it (5.13 or newer has both)";
    Check::warn(name, found, advice)
}

fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|directory| access(directory.join(program), Access::EXEC_OK).is_ok())
}

/// The directory itself, or the closest one above that exists.
fn nearest(directory: &Path) -> PathBuf {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}

fn free(directory: &Path) -> Option<u64> {
    let stat = statvfs(directory).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}
