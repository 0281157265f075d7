//! `walk` lists the entries of a directory, in the order of a tree: names, attributes and links, no content.
//!
//! Threads look ahead of the caller, within a bound. So memory does not follow from the number of entries,
//! but for the names of the directories on the way and those of files that have several.

mod look_ahead;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, thread};

use rustix::fs::{FileType, Stat};

use self::look_ahead::{LookAhead, Looked};
use super::{root_dir::RootDir, xattrs};
use crate::{
    Result,
    error::IoContext,
    format::tree::{Entry, Kind, MODE_BITS, Meta, Time, TreePath},
};

pub use super::xattrs::Xattrs;

/// Tells whether a file is the one that was seen before.
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
    /// The state of a file, from the system's answer.
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
    /// The file's state when it was found.
    pub state: FileState,
    /// Whether it takes less space than its size: it may have holes.
    pub sparse: bool,
}

impl FoundFile {
    /// The file of which the system says this.
    pub fn new(stat: &Stat) -> Self {
        let state = FileState::of(stat);
        Self { state, sparse: (stat.st_blocks as u64).saturating_mul(512) < state.size }
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

/// An entry that was found. A regular file has no extents yet, and its extended attributes were not asked for.
#[derive(Debug)]
pub struct WalkedEntry {
    /// The entry. A file with several names is a file where it comes first, and a link elsewhere.
    pub entry: Entry,
    /// The file, if it is a regular one.
    pub file: Option<FoundFile>,
    /// Whether links to it may follow.
    pub has_other_names: bool,
}

/// How many entries the threads of a walk are ahead of the caller, at most.
const AHEAD: usize = 4096;

/// Decides by path.
pub(crate) type Exclude<'a> = &'a (dyn Fn(&TreePath) -> bool + Sync);

/// Walks everything below `root`, never following a link, and hands on each entry in order. So many threads
/// look ahead. Returns the counts of skipped entries.
pub fn walk(
    root: &RootDir,
    exclude: Exclude<'_>,
    threads: usize,
    each: &mut dyn FnMut(WalkedEntry) -> Result<()>,
) -> Result<Skipped> {
    walk_within(root, exclude, threads, AHEAD, each)
}

fn walk_within(
    root: &RootDir,
    exclude: Exclude<'_>,
    threads: usize,
    bound: usize,
    each: &mut dyn FnMut(WalkedEntry) -> Result<()>,
) -> Result<Skipped> {
    let stat = rustix::fs::fstat(root.fd()).at("cannot read the attributes of", root.path())?;
    let fd = root.dir(b"").at("cannot open", root.path())?;
    let xattrs = xattrs::of_name(&fd, b".").at("cannot read the attributes of", root.path())?;
    let top = Entry { path: TreePath::root(), meta: meta(&stat, xattrs), kind: Kind::Directory };
    let (ahead, folder) = LookAhead::new(root, exclude, bound);
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| ahead.work());
        }
        // Also when this thread panics: nobody may wait for it for ever.
        let _ending = ahead.ending();
        each(WalkedEntry { entry: top, file: None, has_other_names: false })?;
        hand_on(&ahead, folder, each)
    })?;
    Ok(ahead.skipped())
}

/// Hands on all that is in a folder, however deep.
fn hand_on(
    ahead: &LookAhead<'_>,
    folder: usize,
    each: &mut dyn FnMut(WalkedEntry) -> Result<()>,
) -> Result<()> {
    let mut links: HashMap<(u64, u64), TreePath> = HashMap::new();
    // What is left of the folders on the way down, with the next part of each; so the tree may be as deep as it likes.
    let mut open = vec![(folder, 0, Vec::new().into_iter())];
    while let Some((folder, part, entries)) = open.last_mut() {
        let Some(Looked { mut entry, file, folder }) = entries.next() else {
            match ahead.take(*folder, *part)? {
                Some(next) => (*part, *entries) = (*part + 1, next.into_iter()),
                None => drop(open.pop()),
            }
            continue;
        };
        let (mut found, mut has_other_names) = (None, false);
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
                    (found, has_other_names) = (Some(file), several);
                }
            }
        }
        each(WalkedEntry { entry, file: found, has_other_names })?;
        if let Some(folder) = folder {
            open.push((folder, 0, Vec::new().into_iter()));
        }
    }
    Ok(())
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
