//! `StatTrust` tells when a file's state may stand for its content.
//!
//! Size, times and inode can stay the same while the content changes: a page that is
//! dirty through a shared mapping takes further writes without touching them, and a clock
//! tick is coarse. So the stat cache has the state only of a file
//!
//! 1. that was flushed before its state was taken: only then does the next write through
//!    a mapping change its times;
//! 2. whose state was the same before and after reading (`read` sees to it);
//! 3. that no process had open or mapped for writing, neither before nor after reading;
//! 4. whose ctime lies at least two seconds in the past of the file system's own clock at
//!    the moment between flushing and reading: every later write, by any process, gets
//!    a later ctime;
//! 5. on the directory's own, local file system, which tells of writes through mappings
//!    (tmpfs does not).
//!
//! `/proc` names a mapped file by its number and by the device of its file system. On btrfs, `stat` gives another device, that of the
//! subvolume. There a file counts as mapped if any file with its number is, wherever that lies. On overlayfs the number may
//! be another as well, so nothing is known there.
//!
//! A process of another user, which an unprivileged pstore may not look at, is taken not
//! to write here.

use std::{
    collections::{BTreeSet, HashSet},
    ffi::OsStr,
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::Path,
    time::Duration,
};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, fstat, fstatfs, fsync, makedev, statx, syncfs,
};

use super::{root_dir::RootDir, walk::FileState};
use crate::{
    Result,
    error::IoContext,
    format::tree::{Time, TreePath},
};

const SETTLED: Duration = Duration::from_secs(2);
/// More files than this are flushed with their whole file system at once.
pub(crate) const FLUSH_ONE_BY_ONE: usize = 8;

/// Inodes some process could be writing to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers {
    inodes: HashSet<(u64, u64)>,
    /// The numbers of those that are mapped.
    mapped: HashSet<u64>,
    /// `/proc` is not there to be looked at.
    incomplete: bool,
}

impl Writers {
    /// Looks at every process that this one may look at.
    pub fn now() -> Self {
        let mut writers = Self::default();
        let Ok(processes) = fs::read_dir("/proc") else {
            return Self { incomplete: true, ..writers };
        };
        for process in processes.flatten() {
            if process.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
                writers.look_at(&process.path());
            }
        }
        writers
    }

    pub fn has(&self, state: &FileState) -> bool {
        self.incomplete || self.inodes.contains(&(state.device, state.inode))
    }

    /// Whether a file with this number is mapped, on whichever device.
    fn has_mapped(&self, number: u64) -> bool {
        self.mapped.contains(&number)
    }

    fn look_at(&mut self, process: &Path) {
        // A process that has ended meanwhile, or a kernel thread, has nothing open.
        if let Ok(handles) = fs::read_dir(process.join("fd")) {
            for handle in handles.flatten() {
                // Most handles are not of files, and asking how one was opened takes longest.
                if let Some(inode) = file(&handle.path())
                    && let Ok(info) = fs::read_to_string(process.join("fdinfo").join(handle.file_name()))
                    && opened_for_writing(&info)
                {
                    self.inodes.insert(inode);
                }
            }
        }
        if let Ok(maps) = fs::read_to_string(process.join("maps")) {
            for (device, number) in maps.lines().filter_map(written_mapping) {
                self.inodes.insert((device, number));
                self.mapped.insert(number);
            }
        }
    }
}

/// Device and inode of a file, as the kernel knows them already: the file may be on a mount that
/// has stopped answering, and a call that asks there would wait for it.
fn file(handle: &Path) -> Option<(u64, u64)> {
    let found = statx(CWD, handle, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO).ok()?;
    let is_file = FileType::from_raw_mode(found.stx_mode.into()).is_file();
    is_file.then(|| (makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino))
}

fn opened_for_writing(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 0o3 != 0)
}

/// The file of a shared mapping that may be written, from a line of `/proc/PID/maps`.
fn written_mapping(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let permissions = fields.nth(1)?.as_bytes();
    if permissions.get(1) != Some(&b'w') || permissions.get(3) != Some(&b's') {
        return None;
    }
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    let device = makedev(u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    Some((device, fields.next()?.parse().ok()?)).filter(|(_, inode)| *inode != 0)
}

/// Flushes the files that will be read: one file after the other if they are few, else all of them
/// with their file system.
pub fn flush(root: &RootDir, files: &[TreePath]) -> Result<()> {
    if files.len() > FLUSH_ONE_BY_ONE {
        return syncfs(root.fd()).at("cannot flush the file system of", root.path());
    }
    for path in files {
        let shown = || root.display(path);
        // A file that cannot be opened any more is reported when it is read.
        if let Ok(fd) = root.open_at(path.as_bytes(), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) {
            fsync(fd).at("cannot flush", shown())?;
        }
    }
    for folder in folders(files) {
        if let Ok(fd) = root.open_at(folder, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()) {
            let path = root.path().join(OsStr::from_bytes(folder));
            fsync(fd).at("cannot flush", path)?;
        }
    }
    Ok(())
}

/// The directories that hold these files, up to the top: their names are flushed as well.
fn folders(files: &[TreePath]) -> BTreeSet<&[u8]> {
    let mut folders = BTreeSet::new();
    for path in files {
        let path = path.as_bytes();
        folders.insert(&path[..0]);
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        folders.extend(ends.map(|(end, _)| &path[..end]));
    }
    folders
}

/// Decides about the files of one capture. By default it trusts none.
#[derive(Debug, Default)]
pub(crate) struct StatTrust {
    device: u64,
    now: Option<Time>,
    /// How `/proc` names mapped files there, if it is a file system that is trusted.
    naming: Option<Naming>,
    writers: Writers,
}

/// How `/proc` names mapped files of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// By the device and the number that `stat` gives.
    AsStat,
    /// By the number that `stat` gives, and another device.
    OtherDevice,
}

impl StatTrust {
    /// Flushes these files and looks for writers, then at the clock: all of it before
    /// anything is read.
    ///
    /// Writers are looked for while the disk is busy. One that opens a file after it was
    /// looked for has written either before the flush ended, so that it is read, or later,
    /// which changes the ctime.
    pub fn before_reading(root: &RootDir, files: &[TreePath]) -> Result<Self> {
        let writers = std::thread::scope(|scope| {
            let looking = scope.spawn(Writers::now);
            flush(root, files)?;
            Ok::<_, crate::Error>(
                looking.join().unwrap_or(Writers { incomplete: true, ..Writers::default() }),
            )
        })?;
        Ok(Self::new(root, writers))
    }

    /// Looks at the writers once more.
    pub fn after_reading(mut self) -> Self {
        self.writers = self.writers.and(Writers::now());
        self
    }

    fn new(root: &RootDir, writers: Writers) -> Self {
        let device = fstat(root.fd()).ok().map(|stat| stat.st_dev);
        let naming = naming(root);
        let now = device.filter(|_| naming.is_some()).and_then(|_| file_system_now(root));
        Self { device: device.unwrap_or_default(), now, naming, writers }
    }

    /// Whether the state taken before reading, after flushing, may stand for the content.
    pub fn allows(&self, state: &FileState) -> bool {
        let Some(now) = self.now else { return false };
        let settled = Time { seconds: now.seconds - SETTLED.as_secs() as i64, ..now };
        let is_mapped = self.naming == Some(Naming::OtherDevice) && self.writers.has_mapped(state.inode);
        state.device == self.device && state.ctime <= settled && !is_mapped && !self.writers.has(state)
    }
}

impl Writers {
    pub fn and(mut self, other: Self) -> Self {
        self.inodes.extend(other.inodes);
        self.mapped.extend(other.mapped);
        self.incomplete |= other.incomplete;
        self
    }
}

/// The file system's own clock: the time of a file made there just now. An unnamed file,
/// so that the directory itself does not change.
fn file_system_now(root: &RootDir) -> Option<Time> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd: OwnedFd = rustix::fs::openat(root.fd(), ".", flags, Mode::from(0o600)).ok()?;
    Some(FileState::of(&fstat(fd).ok()?).mtime)
}

/// How `/proc` names mapped files of the directory's file system; `None` unless that is on this host, so that nobody else
/// writes to it unseen, and tells of writes through mappings.
fn naming(root: &RootDir) -> Option<Naming> {
    const EXT: i64 = 0xef53;
    const XFS: i64 = 0x5846_5342;
    const F2FS: i64 = 0xf2f5_2010;
    const BTRFS: i64 = 0x9123_683e;
    match fstatfs(root.fd()).ok()?.f_type & 0xffff_ffff {
        EXT | XFS | F2FS => Some(Naming::AsStat),
        BTRFS => Some(Naming::OtherDevice),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_directory_is_flushed_recursively() {
        let files = ["Default/Network/Cookies", "Default/History", "Local State"];
        let files: Vec<TreePath> = files.iter().map(|path| TreePath::new(*path).unwrap()).collect();
        let folders: Vec<&[u8]> = folders(&files).into_iter().collect();
        assert_eq!(folders, [&b""[..], b"Default", b"Default/Network"]);
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("Default/Network")).unwrap();
        fs::write(root.path().join("Local State"), "{}").unwrap();
        // What is gone by now is somebody else's to report.
        flush(&RootDir::open(root.path()).unwrap(), &files).unwrap();
    }

    fn state(root: &RootDir, name: &str) -> FileState {
        FileState::of(&rustix::fs::statat(root.fd(), name, rustix::fs::AtFlags::empty()).unwrap())
    }

    fn trust(root: &RootDir, writers: Writers, after: i64) -> StatTrust {
        let mut trust = StatTrust::new(root, writers);
        trust.now.as_mut().unwrap().seconds += after;
        trust
    }

    #[test]
    fn a_file_must_have_settled_and_not_lie_in_the_future() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "x").unwrap();
        let root = RootDir::open(dir.path()).unwrap();
        let seen = state(&root, "f");
        assert!(!trust(&root, Writers::default(), 0).allows(&seen));
        assert!(!trust(&root, Writers::default(), 1).allows(&seen));
        assert!(trust(&root, Writers::default(), 4).allows(&seen));
        assert!(!trust(&root, Writers::default(), -100).allows(&seen));
    }

    #[test]
    fn what_is_written_after_the_flush_is_not_trusted_however_long_reading_takes() {
        let dir = tempfile::tempdir().unwrap();
        let root = RootDir::open(dir.path()).unwrap();
        let trust = StatTrust::before_reading(&root, &[]).unwrap();
        fs::write(dir.path().join("f"), "x").unwrap();
        std::thread::sleep(SETTLED + Duration::from_millis(100));
        assert!(!trust.after_reading().allows(&state(&root, "f")));
    }

    #[test]
    fn a_file_open_for_writing_is_not_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "x").unwrap();
        let root = RootDir::open(dir.path()).unwrap();
        let seen = state(&root, "f");
        let reader = fs::File::open(&path).unwrap();
        assert!(trust(&root, Writers::now(), 10).allows(&seen));
        drop(reader);
        let writer = fs::File::options().append(true).open(&path).unwrap();
        assert!(!trust(&root, Writers::now(), 10).allows(&seen));
        let before = Writers::now();
        drop(writer);
        assert!(!trust(&root, before.and(Writers::now()), 10).allows(&seen));
        assert!(trust(&root, Writers::now(), 10).allows(&seen));
    }

    #[test]
    fn shared_writable_mappings_count_as_writers() {
        let shared = "7f0000000000-7f0000001000 rw-s 00000000 fe:00 4711   /data/History";
        assert_eq!(written_mapping(shared), Some((rustix::fs::makedev(0xfe, 0), 4711)));
        for other in ["r--s", "rw-p", "r-xp"] {
            assert_eq!(written_mapping(&shared.replace("rw-s", other)), None);
        }
        assert_eq!(written_mapping("7f00-7f01 rw-s 00000000 00:00 0"), None);
        assert!(opened_for_writing("pos:\t0\nflags:\t0100002\n"));
        assert!(opened_for_writing("pos:\t0\nflags:\t0100001\n"));
        assert!(!opened_for_writing("pos:\t0\nflags:\t0100000\n"));
    }

    #[test]
    fn other_hosts_file_systems_are_not_trusted() {
        let proc = RootDir::open(Path::new("/proc")).unwrap();
        assert_eq!(naming(&proc), None);
        assert!(StatTrust::new(&proc, Writers::default()).now.is_none());
    }
}
