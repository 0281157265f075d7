//! `LookAhead` reads a directory's entries on several threads, a bounded number ahead of the walk.
//!
//! Threads always look at the next part in the order of the tree. A caller that waits for a part that no
//! thread has begun looks at it itself, so that the bound keeps nobody waiting for ever.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    os::fd::OwnedFd,
    sync::Arc,
};

use parking_lot::{Condvar, Mutex};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, RawDir, readlinkat, statat},
    io::Errno,
};

use super::{Exclude, FoundFile, Skipped, meta};
use crate::{
    Error, Result,
    error::IoContext,
    format::{
        FormatError,
        tree::{Entry, Kind, TreePath},
    },
    tree::{root_dir::RootDir, xattrs},
};

/// How many entries of a directory one thread looks at before another may help.
const BATCH: usize = 128;
/// How often a directory may be found gone that is there again.
const ATTEMPTS: u32 = 100;

/// An entry that was looked at.
#[derive(Debug)]
pub(super) struct Looked {
    pub entry: Entry,
    /// If it is a regular file: its state, and whether it has other names.
    pub file: Option<(FoundFile, bool)>,
    /// If it is a directory: the number of its folder.
    pub folder: Option<usize>,
}

pub(super) struct LookAhead<'a> {
    root: &'a RootDir,
    exclude: Exclude<'a>,
    /// How many entries may have been looked at that nobody has taken yet, before no more parts are begun.
    bound: usize,
    state: Mutex<LookAheadState>,
    changed: Condvar,
}

#[derive(Default)]
struct LookAheadState {
    /// The work to be done, by the first path that it is about.
    jobs: BTreeMap<TreePath, LookAheadJob>,
    /// By number; one goes when all of it was taken.
    folders: HashMap<usize, Folder>,
    numbered: usize,
    /// Entries that nobody has taken yet.
    untaken: usize,
    skipped: Skipped,
    failed: Option<Error>,
    is_over: bool,
}

#[derive(Default)]
struct Folder {
    is_listed: bool,
    /// The entries, in the order of names, part after part; `None` until they are found, and once taken.
    parts: Vec<Option<Vec<Looked>>>,
}

enum LookAheadJob {
    List(usize),
    Look(NameBatch),
}

/// Some entries of a folder, to be looked at through its handle.
struct NameBatch {
    folder: usize,
    part: usize,
    path: Arc<TreePath>,
    dir: Arc<OwnedFd>,
    names: Vec<Box<[u8]>>,
}

impl LookAheadState {
    fn add_folder(&mut self, path: TreePath) -> usize {
        let folder = self.numbered;
        self.numbered += 1;
        self.folders.insert(folder, Folder::default());
        self.jobs.insert(path, LookAheadJob::List(folder));
        folder
    }

    /// Whether the next job is about this part.
    fn is_next(&self, wanted: usize, wanted_part: usize) -> bool {
        match self.jobs.first_key_value() {
            Some((_, LookAheadJob::List(folder))) => *folder == wanted,
            Some((_, LookAheadJob::Look(NameBatch { folder, part, .. }))) => {
                (*folder, *part) == (wanted, wanted_part)
            }
            None => false,
        }
    }
}

/// Ends the work of all threads when it is dropped.
pub(super) struct Ending<'a>(&'a LookAhead<'a>);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl<'a> LookAhead<'a> {
    /// With the number of the root's folder.
    pub fn new(root: &'a RootDir, exclude: Exclude<'a>, bound: usize) -> (Self, usize) {
        let mut state = LookAheadState::default();
        let folder = state.add_folder(TreePath::root());
        (Self { root, exclude, bound, state: Mutex::new(state), changed: Condvar::new() }, folder)
    }

    pub fn ending(&'a self) -> Ending<'a> {
        Ending(self)
    }

    /// The entries that were left out so far.
    pub fn skipped(&self) -> Skipped {
        self.state.lock().skipped
    }

    /// The entries of a folder's next part; `None` if that was the last. They must be taken in the order of the tree.
    pub fn take(&self, folder: usize, part: usize) -> Result<Option<Vec<Looked>>> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = state.failed.take() {
                state.is_over = true;
                return Err(error);
            }
            let gone = || Error::Internal { what: "a folder was taken twice".to_owned() };
            let wanted = state.folders.get_mut(&folder).ok_or_else(gone)?;
            if wanted.is_listed && part == wanted.parts.len() {
                state.folders.remove(&folder);
                return Ok(None);
            }
            if let Some(found) = wanted.parts.get_mut(part).and_then(Option::take) {
                state.untaken -= found.len();
                drop(state);
                self.changed.notify_all();
                return Ok(Some(found));
            }
            let may_help = state.untaken < self.bound || state.is_next(folder, part);
            match if may_help { state.jobs.pop_first() } else { None } {
                Some((path, job)) => {
                    drop(state);
                    self.run(path, job);
                    state = self.state.lock();
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Looks ahead until all is over.
    pub fn work(&self) {
        let mut state = self.state.lock();
        while !state.is_over && state.failed.is_none() {
            match if state.untaken < self.bound { state.jobs.pop_first() } else { None } {
                Some((path, job)) => {
                    drop(state);
                    self.run(path, job);
                    state = self.state.lock();
                }
                None => self.changed.wait(&mut state),
            }
        }
    }

    fn run(&self, path: TreePath, job: LookAheadJob) {
        let done = match job {
            LookAheadJob::List(folder) => self.list(folder, path),
            LookAheadJob::Look(part) => self.look(part),
        };
        if let Err(error) = done {
            self.state.lock().failed.get_or_insert(error);
        }
        self.changed.notify_all();
    }

    fn list(&self, folder: usize, path: TreePath) -> Result<()> {
        let shown = || self.root.display(&path);
        let went_away = || {
            if let Some(folder) = self.state.lock().folders.get_mut(&folder) {
                folder.is_listed = true;
            }
            Ok(())
        };
        let open = |flags| self.root.open_at(path.as_bytes(), flags | OFlags::DIRECTORY, Mode::empty());
        let is_there = || open(OFlags::PATH).is_ok();
        let dir = match unless_made_again(|| open(OFlags::RDONLY), is_there) {
            // It went away, or became something else, after it was found.
            Err(error) if !path.is_root() && is_gone(&error) && !is_there() => return went_away(),
            opened => opened.at("cannot open the directory", shown())?,
        };
        let mut memory = Vec::with_capacity(32 << 10);
        let mut listing = RawDir::new(&dir, memory.spare_capacity_mut());
        let mut names: Vec<Box<[u8]>> = Vec::new();
        while let Some(entry) = listing.next() {
            let entry = match entry {
                // The kernel lists nothing of a directory that was removed while it is open.
                Err(Errno::NOENT) if !path.is_root() => return went_away(),
                entry => entry.at("cannot list", shown())?,
            };
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." && !(self.exclude)(&joined(&path, name)?) {
                names.push(name.into());
            }
        }
        // Beside each other, so the bytes of the names have the order of a tree.
        names.sort_unstable();
        let (path, dir, mut names) = (Arc::new(path), Arc::new(dir), names.into_iter());
        let mut parts = Vec::new();
        while names.len() > 0 {
            let names = names.by_ref().take(BATCH).collect();
            parts.push(NameBatch {
                folder,
                part: parts.len(),
                path: Arc::clone(&path),
                dir: Arc::clone(&dir),
                names,
            });
        }
        let mut state = self.state.lock();
        if let Some(folder) = state.folders.get_mut(&folder) {
            folder.parts.resize_with(parts.len(), || None);
            folder.is_listed = true;
        }
        let mut parts = parts.into_iter();
        let mine = parts.next();
        let is_shared = parts.len() > 0;
        for part in parts {
            let first = joined(&part.path, &part.names[0])?;
            state.jobs.insert(first, LookAheadJob::Look(part));
        }
        drop(state);
        if is_shared {
            self.changed.notify_all();
        }
        mine.map_or(Ok(()), |part| self.look(part))
    }

    fn look(&self, part: NameBatch) -> Result<()> {
        let NameBatch { folder, part, path, dir, names } = part;
        let mut skipped = Skipped::default();
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            found.extend(self.visit(&dir, joined(&path, &name)?, &mut skipped)?);
        }
        let mut state = self.state.lock();
        for folder in found.iter_mut().filter(|found| found.entry.kind == Kind::Directory) {
            folder.folder = Some(state.add_folder(folder.entry.path.clone()));
        }
        state.skipped.add(skipped);
        state.untaken += found.len();
        if let Some(place) = state.folders.get_mut(&folder).and_then(|folder| folder.parts.get_mut(part)) {
            *place = Some(found);
        }
        Ok(())
    }

    /// Looks at the entry at `path`, which is in `dir`.
    fn visit(&self, dir: &OwnedFd, path: TreePath, skipped: &mut Skipped) -> Result<Option<Looked>> {
        let shown = || self.root.display(&path);
        let stat = match statat(dir, path.name(), AtFlags::SYMLINK_NOFOLLOW) {
            // It went away between being listed and being looked at: it is not there.
            Err(Errno::NOENT) => return Ok(None),
            stat => stat.at("cannot read the attributes of", shown())?,
        };
        let (mut file, mut xattrs) = (None, Vec::new());
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let is_there = || is_directory(dir, path.name());
                let read = || xattrs::of_name(dir, path.name()).map_err(io::Error::from);
                xattrs = match unless_made_again(read, is_there) {
                    // They are read through /proc: where there is none, the directory is there all the same.
                    Err(error) if is_gone(&error) && !is_there() => return Ok(None),
                    found => found.at("cannot read the extended attributes of", shown())?,
                };
                Kind::Directory
            }
            FileType::RegularFile => {
                let found = FoundFile::new(&stat);
                file = Some((found, stat.st_nlink > 1));
                Kind::File { size: found.state.size, extents: Vec::new() }
            }
            FileType::Symlink => {
                let target = match readlinkat(dir, path.name(), Vec::new()) {
                    Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
                    found => found.at("cannot read the link", shown())?,
                };
                Kind::Symlink { target: target.into_bytes() }
            }
            other => {
                *skipped.counter(other) += 1;
                return Ok(None);
            }
        };
        let entry = Entry { meta: meta(&stat, xattrs), kind, path };
        Ok(Some(Looked { entry, file, folder: None }))
    }
}

/// Whether there is nothing any more, or something else.
fn is_gone(error: &std::io::Error) -> bool {
    let gone = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP];
    error.raw_os_error().is_some_and(|code| gone.contains(&Errno::from_raw_os_error(code)))
}

fn joined(path: &TreePath, name: &[u8]) -> Result<TreePath> {
    path.join(name).map_err(|error: FormatError| Error::InvalidInput {
        what: format!("{path} cannot be stored: {error}"),
    })
}

/// Tries again what found a directory gone that is there again: somebody removes it and makes it anew.
fn unless_made_again<T>(
    mut work: impl FnMut() -> io::Result<T>,
    is_there: impl Fn() -> bool,
) -> io::Result<T> {
    let mut attempt = 1;
    loop {
        match work() {
            Err(error) if attempt < ATTEMPTS && is_gone(&error) && is_there() => attempt += 1,
            done => return done,
        }
    }
}

/// Whether a name in `dir` is a directory.
fn is_directory(dir: &OwnedFd, name: &[u8]) -> bool {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}
