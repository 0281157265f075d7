//! Walks a directory: names, attributes and links, no content.

use std::{
    collections::HashMap,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
    thread,
};

use parking_lot::{Condvar, Mutex};

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, lgetxattr, llistxattr, readlinkat, statat},
    io::Errno,
};

use super::root_dir::RootDir;
use crate::{
    Error, Result,
    error::IoContext,
    format::FormatError,
    format::tree::{Entry, Kind, MAX_XATTR_BYTES, MODE_BITS, Meta, Time, TreePath},
};

/// What tells whether a file is the one that was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileState {
    /// The file system.
    pub device: u64,
    /// The file's number on it.
    pub inode: u64,
    /// How many bytes the file has.
    pub size: u64,
    /// When the content was changed last.
    pub mtime: Time,
    /// When content or attributes were changed last.
    pub ctime: Time,
}

impl FileState {
    /// What the system says of a file.
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
    /// What the file was when it was found.
    pub state: FileState,
    /// Whether it takes less space than its size: it may have holes.
    pub sparse: bool,
}

impl FoundFile {
    /// The file of the entry with this number.
    pub fn new(entry: usize, stat: &Stat) -> Self {
        let state = FileState::of(stat);
        Self { entry, state, sparse: (stat.st_blocks as u64).saturating_mul(512) < state.size }
    }
}

/// Entries that cannot be stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Sockets.
    pub sockets: u64,
    /// FIFOs.
    pub fifos: u64,
    /// Device nodes.
    pub devices: u64,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.sockets + self.fifos + self.devices
    }

    fn counter(&mut self, kind: FileType) -> &mut u64 {
        match kind {
            FileType::Socket => &mut self.sockets,
            FileType::Fifo => &mut self.fifos,
            _ => &mut self.devices,
        }
    }

    fn add(&mut self, other: Self) {
        self.sockets += other.sockets;
        self.fifos += other.fifos;
        self.devices += other.devices;
    }
}

/// A directory as it was found; regular files have no extents yet.
#[derive(Debug, Default)]
pub struct Walk {
    /// In the order of a tree.
    pub entries: Vec<Entry>,
    /// The regular files, each once.
    pub files: Vec<FoundFile>,
    /// What was left out.
    pub skipped: Skipped,
    /// Apparent sizes of all regular files, each inode once.
    pub bytes: u64,
}

/// Extended attributes by name.
pub type Xattrs = Vec<(Vec<u8>, Vec<u8>)>;

/// Decides by path.
pub(crate) type Exclude<'a> = &'a (dyn Fn(&TreePath) -> bool + Sync);
/// The extended attributes of a file in this state, where they are known without asking.
pub(crate) type KnownXattrs<'a> = &'a (dyn Fn(&TreePath, &FileState) -> Option<Xattrs> + Sync);

/// How many entries of a directory one thread looks at before another may help.
const BATCH: usize = 128;

/// Walks everything below `root` on `threads` threads, never following a link.
pub fn walk(root: &RootDir, exclude: Exclude<'_>, known: KnownXattrs<'_>, threads: usize) -> Result<Walk> {
    let stat = rustix::fs::fstat(root.fd()).at("cannot read the attributes of", root.path())?;
    let fd = root.dir(b"").at("cannot open", root.path())?;
    let meta = meta(&stat, xattrs(&fd, b".").at("cannot read the attributes of", root.path())?);
    let walker = Walker { root, exclude, known, state: Mutex::default(), changed: Condvar::new() };
    walker.state.lock().add_folder(TreePath::root());
    thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(|| walker.work());
        }
        walker.work();
    });
    let WalkState { folders, failed, .. } = walker.state.into_inner();
    match failed {
        Some(error) => Err(error),
        None => Ok(in_order(Entry { path: TreePath::root(), meta, kind: Kind::Directory }, folders)),
    }
}

/// An entry that was looked at.
struct FoundEntry {
    entry: Entry,
    /// If it is a regular file: what it is, and whether it has other names.
    file: Option<(FoundFile, bool)>,
    /// If it is a directory: its place among the folders.
    folder: Option<usize>,
}

/// Threads take folders, or parts of large ones, from a stack until there are none.
struct Walker<'a> {
    root: &'a RootDir,
    exclude: Exclude<'a>,
    known: KnownXattrs<'a>,
    state: Mutex<WalkState>,
    changed: Condvar,
}

#[derive(Default)]
struct WalkState {
    jobs: Vec<WalkJob>,
    working: usize,
    /// What was found in each folder, in the order of names, part after part.
    folders: Vec<Folder>,
    failed: Option<Error>,
}

#[derive(Default)]
struct Folder {
    parts: Vec<Vec<FoundEntry>>,
    skipped: Skipped,
}

enum WalkJob {
    List { folder: usize, path: TreePath },
    Look(Part),
}

/// Some entries of a folder, to be looked at through its handle.
struct Part {
    folder: usize,
    part: usize,
    dir: Arc<OwnedFd>,
    paths: Vec<TreePath>,
}

impl WalkState {
    fn add_folder(&mut self, path: TreePath) -> usize {
        let folder = self.folders.len();
        self.folders.push(Folder::default());
        self.jobs.push(WalkJob::List { folder, path });
        folder
    }
}

impl Walker<'_> {
    fn work(&self) {
        while let Some(job) = self.next_job() {
            let done = match job {
                WalkJob::List { folder, path } => self.list(folder, &path),
                WalkJob::Look(part) => self.look(part),
            };
            let mut state = self.state.lock();
            state.working -= 1;
            if let Err(error) = done {
                state.failed.get_or_insert(error);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn next_job(&self) -> Option<WalkJob> {
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.working += 1;
                return Some(job);
            }
            if state.working == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    fn list(&self, folder: usize, path: &TreePath) -> Result<()> {
        let shown = || self.root.display(path);
        let dir = self
            .root
            .open_at(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
            .at("cannot open the directory", shown())?;
        let mut memory = Vec::with_capacity(32 << 10);
        let mut listing = RawDir::new(&dir, memory.spare_capacity_mut());
        let mut paths = Vec::new();
        while let Some(entry) = listing.next() {
            let entry = entry.at("cannot list", shown())?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                paths.push(path.join(name).map_err(|error| unusable(path, error))?);
            }
        }
        // Beside each other, so the bytes of the paths have the order of a tree.
        paths.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
        paths.retain(|path| !(self.exclude)(path));
        let dir = Arc::new(dir);
        let mut parts: Vec<Part> = paths
            .chunks(BATCH)
            .enumerate()
            .map(|(part, paths)| Part { folder, part, dir: Arc::clone(&dir), paths: paths.to_vec() })
            .collect();
        let mine = parts.pop();
        let mut state = self.state.lock();
        state.folders[folder].parts.resize_with(parts.len() + 1, Vec::new);
        let shared = !parts.is_empty();
        state.jobs.extend(parts.into_iter().map(WalkJob::Look));
        drop(state);
        if shared {
            self.changed.notify_all();
        }
        mine.map_or(Ok(()), |part| self.look(part))
    }

    fn look(&self, part: Part) -> Result<()> {
        let Part { folder, part, dir, paths } = part;
        let mut skipped = Skipped::default();
        let mut found = Vec::with_capacity(paths.len());
        for path in paths {
            found.extend(self.visit(&dir, path, &mut skipped)?);
        }
        let mut state = self.state.lock();
        for folder in found.iter_mut().filter(|found| found.entry.kind == Kind::Directory) {
            folder.folder = Some(state.add_folder(folder.entry.path.clone()));
        }
        let folder = &mut state.folders[folder];
        folder.parts[part] = found;
        folder.skipped.add(skipped);
        Ok(())
    }

    /// Looks at the entry at `path`, which is in `dir`.
    fn visit(&self, dir: &OwnedFd, path: TreePath, skipped: &mut Skipped) -> Result<Option<FoundEntry>> {
        let shown = || self.root.display(&path);
        let stat = match statat(dir, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            // It went away between being listed and being looked at: it is not there.
            Err(Errno::NOENT) => return Ok(None),
            stat => stat.at("cannot read the attributes of", shown())?,
        };
        let ask = || xattrs(dir, path.name()).at("cannot read the extended attributes of", shown());
        let mut file = None;
        let (kind, xattrs) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => (Kind::Directory, ask()?),
            FileType::RegularFile => {
                let seen = FoundFile::new(0, &stat);
                file = Some((seen, stat.st_nlink > 1));
                let xattrs = (self.known)(&path, &seen.state).map_or_else(ask, Ok)?;
                (Kind::File { size: seen.state.size, extents: Vec::new() }, xattrs)
            }
            FileType::Symlink => {
                let target = readlinkat(dir, path.name(), Vec::new()).at("cannot read the link", shown())?;
                (Kind::Symlink { target: target.into_bytes() }, Vec::new())
            }
            other => {
                *skipped.counter(other) += 1;
                return Ok(None);
            }
        };
        let entry = Entry { meta: meta(&stat, xattrs), kind, path };
        Ok(Some(FoundEntry { entry, file, folder: None }))
    }
}

/// Puts what was found into the order of a tree. A file with several names is a file where
/// it comes first, and a link elsewhere.
fn in_order(root: Entry, mut folders: Vec<Folder>) -> Walk {
    let mut walk = Walk::default();
    for folder in &folders {
        walk.skipped.add(folder.skipped);
    }
    let mut links: HashMap<(u64, u64), TreePath> = HashMap::new();
    walk.entries.push(root);
    // What is left of the folders on the way down; so the tree may be as deep as it likes.
    let mut open = vec![contents(&mut folders, 0)];
    while let Some(found) = open.last_mut().map(Iterator::next) {
        let Some(FoundEntry { mut entry, file, folder }) = found else {
            open.pop();
            continue;
        };
        if let Some((file, several)) = file {
            let id = (file.state.device, file.state.inode);
            match links.get(&id).filter(|_| several) {
                Some(first) => {
                    entry.kind = Kind::HardLink { target: first.clone() };
                    entry.meta = Meta::default();
                }
                None => {
                    if several {
                        links.insert(id, entry.path.clone());
                    }
                    walk.bytes += file.state.size;
                    walk.files.push(FoundFile { entry: walk.entries.len(), ..file });
                }
            }
        }
        walk.entries.push(entry);
        if let Some(folder) = folder {
            open.push(contents(&mut folders, folder));
        }
    }
    walk
}

fn contents(folders: &mut [Folder], at: usize) -> impl Iterator<Item = FoundEntry> + use<> {
    std::mem::take(&mut folders[at].parts).into_iter().flatten()
}

fn unusable(path: &TreePath, error: FormatError) -> Error {
    Error::InvalidInput { what: format!("{path} cannot be stored: {error}") }
}

fn meta(stat: &Stat, xattrs: Xattrs) -> Meta {
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
fn xattrs(dir: &OwnedFd, name: &[u8]) -> rustix::io::Result<Xattrs> {
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
