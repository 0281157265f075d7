//! Walks a directory: names, attributes and links, no content.

use std::{
    collections::HashMap,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, lgetxattr, llistxattr, readlinkat, statat},
    io::Errno,
};

use super::beneath::Beneath;
use crate::{
    Error, Result,
    error::IoContext,
    format::FormatError,
    format::tree::{Entry, Kind, MAX_XATTR_BYTES, MODE_BITS, Meta, Time, TreePath},
};

/// What tells whether a file is the one that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    pub mtime: Time,
    pub ctime: Time,
}

impl FileState {
    pub fn of(stat: &Stat) -> Self {
        let time = |seconds: i64, nanos: u64| Time { seconds, nanos: nanos as u32 };
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size as u64,
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// A regular file that was found, its content unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// Its place among the entries.
    pub entry: usize,
    pub state: FileState,
    /// Whether it takes less space than its size: it may have holes.
    pub sparse: bool,
}

impl FoundFile {
    pub fn new(entry: usize, stat: &Stat) -> Self {
        let state = FileState::of(stat);
        Self { entry, state, sparse: (stat.st_blocks as u64).saturating_mul(512) < state.size }
    }
}

/// Entries that cannot be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    pub sockets: u64,
    pub fifos: u64,
    pub devices: u64,
}

impl Skipped {
    pub fn total(&self) -> u64 {
        self.sockets + self.fifos + self.devices
    }
}

/// A directory as it was found; regular files have no extents yet.
#[derive(Debug, Default)]
pub struct Walk {
    /// In the order of a tree.
    pub entries: Vec<Entry>,
    pub files: Vec<FoundFile>,
    pub skipped: Skipped,
    /// Apparent sizes of all regular files, each inode once.
    pub bytes: u64,
}

/// Walks everything below `root`, never following a link. `exclude` decides by path.
pub fn walk(root: &Beneath, exclude: &dyn Fn(&TreePath) -> bool) -> Result<Walk> {
    let mut walker = Walker { root, exclude, walk: Walk::default(), links: HashMap::new() };
    let stat = rustix::fs::fstat(root.fd()).at("cannot read the attributes of", root.path())?;
    let fd = root.dir(b"").at("cannot open", root.path())?;
    let meta = meta(&stat, xattrs(&fd, b".").at("cannot read the attributes of", root.path())?);
    walker.walk.entries.push(Entry { path: TreePath::root(), meta, kind: Kind::Directory });
    // Names still to be visited, next one last; so the tree may be as deep as it likes.
    let mut pending = walker.children(&TreePath::root())?;
    while let Some(path) = pending.pop() {
        if walker.visit(&path)? {
            pending.extend(walker.children(&path)?);
        }
    }
    Ok(walker.walk)
}

struct Walker<'a> {
    root: &'a Beneath,
    exclude: &'a dyn Fn(&TreePath) -> bool,
    walk: Walk,
    /// The first name of every file that has several.
    links: HashMap<(u64, u64), TreePath>,
}

impl Walker<'_> {
    /// The children of a directory, last one first.
    fn children(&self, path: &TreePath) -> Result<Vec<TreePath>> {
        let shown = || self.root.display(path);
        let fd = self
            .root
            .open_at(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .at("cannot open the directory", shown())?;
        let mut names = Vec::new();
        for entry in Dir::new(fd).at("cannot list", shown())? {
            let entry = entry.at("cannot list", shown())?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(path.join(name).map_err(|error| unusable(path, error))?);
            }
        }
        names.sort_unstable_by(|a, b| b.cmp(a));
        names.retain(|path| !(self.exclude)(path));
        Ok(names)
    }

    /// Adds the entry at `path`; says whether it is a directory.
    fn visit(&mut self, path: &TreePath) -> Result<bool> {
        let shown = || self.root.display(path);
        let dir =
            self.root.dir(path.parent().unwrap_or_default()).at("cannot open the directory of", shown())?;
        let stat = match statat(&dir, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            // It went away between being listed and being looked at: it is not there.
            Err(Errno::NOENT) => return Ok(false),
            stat => stat.at("cannot read the attributes of", shown())?,
        };
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => self.file(path, &stat),
            FileType::Symlink => {
                let target = readlinkat(&dir, path.name(), Vec::new()).at("cannot read the link", shown())?;
                Kind::Symlink { target: target.into_bytes() }
            }
            FileType::Socket => return self.skip(|skipped| &mut skipped.sockets),
            FileType::Fifo => return self.skip(|skipped| &mut skipped.fifos),
            _ => return self.skip(|skipped| &mut skipped.devices),
        };
        let xattrs = match kind {
            Kind::Directory | Kind::File { .. } => {
                xattrs(&dir, path.name()).at("cannot read the extended attributes of", shown())?
            }
            _ => Vec::new(),
        };
        let is_directory = kind == Kind::Directory;
        let meta = if matches!(kind, Kind::HardLink { .. }) { Meta::default() } else { meta(&stat, xattrs) };
        self.walk.entries.push(Entry { path: path.clone(), meta, kind });
        Ok(is_directory)
    }

    fn file(&mut self, path: &TreePath, stat: &Stat) -> Kind {
        let state = FileState::of(stat);
        if stat.st_nlink > 1 {
            let first = self.links.entry((state.device, state.inode)).or_insert_with(|| path.clone());
            if first != path {
                return Kind::HardLink { target: first.clone() };
            }
        }
        self.walk.files.push(FoundFile::new(self.walk.entries.len(), stat));
        self.walk.bytes += state.size;
        Kind::File { size: state.size, extents: Vec::new() }
    }

    fn skip(&mut self, counter: impl Fn(&mut Skipped) -> &mut u64) -> Result<bool> {
        *counter(&mut self.walk.skipped) += 1;
        Ok(false)
    }
}

fn unusable(path: &TreePath, error: FormatError) -> Error {
    Error::InvalidInput { what: format!("{path} cannot be stored: {error}") }
}

fn meta(stat: &Stat, xattrs: Vec<(Vec<u8>, Vec<u8>)>) -> Meta {
    Meta {
        mode: stat.st_mode & MODE_BITS,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: FileState::of(stat).mtime,
        xattrs,
        extensions: Vec::new(),
    }
}

/// The `user.` attributes of a file or directory, sorted.
fn xattrs(dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    // Through the open directory, so that the path is short whatever the depth.
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    let mut list = [0u8; 1024];
    let names = match llistxattr(&path[..], &mut list[..]) {
        Ok(len) => list[..len].to_vec(),
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            let mut list = vec![0; MAX_XATTR_BYTES];
            let len = llistxattr(&path[..], &mut list[..])?;
            list.truncate(len);
            list
        }
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for name in names.split(|b| *b == 0).filter(|name| name.starts_with(b"user.")) {
        let mut value = vec![0; MAX_XATTR_BYTES];
        match lgetxattr(&path[..], name, &mut value[..]) {
            Ok(len) => {
                value.truncate(len);
                found.push((name.to_vec(), value));
            }
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error),
        }
    }
    found.sort_unstable();
    Ok(found)
}
