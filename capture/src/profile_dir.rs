//! `ProfileDir` reads a directory and never changes it.
//!
//! It opens files read-only beneath the directory and follows no symbolic link; it locks nothing, and reads only
//! regular files.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::{
        fd::BorrowedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::Path,
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, statat},
    io::Errno,
};
use store::tree::root_dir::RootDir;

#[derive(Debug)]
pub struct ProfileDir {
    beneath: RootDir,
}

/// An entry of a directory, as far as checks need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: OsString,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    Directory,
    File {
        bytes: u64,
    },
    /// Links, sockets and the like.
    Other,
}

impl ProfileDir {
    /// `root` itself may be reached through links: it is the caller's choice.
    pub fn open(root: &Path) -> io::Result<Self> {
        Ok(Self { beneath: RootDir::open(root).map_err(io::Error::other)? })
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.beneath.fd()
    }

    /// The regular file at `path`; `None` if there is none.
    pub fn file(&self, path: &Path) -> io::Result<Option<File>> {
        // Opening a FIFO would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = match self.beneath.open_at(path.as_os_str().as_bytes(), flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(file.metadata()?.is_file().then_some(file))
    }

    /// The entries of the directory at `path`, by name; `None` if there is no such directory.
    pub fn entries(&self, path: &Path) -> io::Result<Option<Vec<DirEntry>>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let fd = match self.beneath.open_at(path.as_os_str().as_bytes(), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(error) if is_absence(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => EntryKind::Directory,
                FileType::RegularFile => EntryKind::File { bytes: stat.st_size.max(0) as u64 },
                _ => EntryKind::Other,
            };
            found.push(DirEntry { name: OsString::from_vec(name.to_bytes().to_vec()), kind });
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Some(found))
    }
}

impl DirEntry {
    pub fn file_bytes(&self) -> Option<u64> {
        match self.kind {
            EntryKind::File { bytes } => Some(bytes),
            _ => None,
        }
    }
}

/// `path` with `suffix` after its last name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(OsStr::new(suffix));
    name.into()
}

/// Nothing is there, or something that leads elsewhere or is no directory.
fn is_absence(error: &io::Error) -> bool {
    error.raw_os_error().map(Errno::from_raw_os_error).is_some_and(|errno| {
        [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::XDEV, Errno::NXIO, Errno::ISDIR].contains(&errno)
    })
}
