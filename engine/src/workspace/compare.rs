//! `compare` tells how a directory differs from a snapshot, without storing anything.
//!
//! A file that has not been touched since the checkpoint began, by the time that the system keeps for itself, is the same.
//! Of the others the content is compared, chunk by chunk, by digests: nothing is fetched but the tree.

use std::{
    cell::Cell,
    collections::HashMap,
    fs::File,
    io::{self, Read},
    iter::Peekable,
    path::Path,
    vec,
};

use rustix::fs::{Mode, OFlags};
use store::{
    ErrorKind,
    content::TenantStore,
    format::{
        record::Record,
        tree::{Entry, Extent, Kind, TreePath},
    },
    id::ChunkKey,
    ops::read::browse::{self, WholeTree},
    tree::{
        root_dir::RootDir,
        walk::{FileState, WalkedEntry, walk},
    },
};
use tokio::sync::mpsc;

use super::outcome::{ChangeKind, PathKind};
use crate::failure::Failure;

/// By how much the clock of a file system may lag behind that of the host.
const SLACK_MS: u64 = 1000;
const THREADS: usize = 2;
/// Batches of a snapshot's entries that wait to be compared.
const BATCHES_AHEAD: usize = 2;

/// A path as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub entry: Entry,
    pub state: Option<FileState>,
}

/// A path that differs.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub path: TreePath,
    pub change: ChangeKind,
    /// As the checkpoint has it; a hard link as the file that it links to.
    pub before: Option<Entry>,
    pub after: Option<Entry>,
    /// Nothing but the time of a directory, which changes with what is in it.
    pub is_time_of_directory: bool,
}

/// The part of a tree that is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Scope(pub Option<TreePath>);

impl Scope {
    /// Whether a path is the one that is looked at, or below it.
    pub fn holds(&self, path: &TreePath) -> bool {
        match &self.0 {
            None => true,
            Some(top) => path == top || is_below(path, top),
        }
    }

    /// Whether a path is a directory on the way to the one that is looked at.
    pub fn is_led_to_by(&self, path: &TreePath) -> bool {
        !path.is_root() && self.0.as_ref().is_some_and(|top| is_below(top, path))
    }

    /// Whether something of it may be there or below.
    fn may_be_in(&self, path: &TreePath) -> bool {
        path.is_root() || self.holds(path) || self.is_led_to_by(path)
    }
}

pub(crate) fn is_below(path: &TreePath, top: &TreePath) -> bool {
    if top.is_root() {
        return !path.is_root();
    }
    path.as_bytes().strip_prefix(top.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// What a path is.
pub(crate) fn kind(entry: &Entry) -> PathKind {
    match entry.kind {
        Kind::File { .. } | Kind::HardLink { .. } => PathKind::File,
        Kind::Directory => PathKind::Directory,
        Kind::Symlink { .. } => PathKind::Symlink,
        _ => PathKind::Special,
    }
}

/// The size of a file.
pub(crate) fn size(entry: &Entry) -> Option<u64> {
    matches!(entry.kind, Kind::File { .. }).then(|| entry.size())
}

/// The path that a person means, from the top of the workspace.
pub(crate) fn tree_path(directory: &Path, path: &Path) -> Result<TreePath, Failure> {
    use std::os::unix::ffi::OsStrExt;
    let within = match path.is_absolute() {
        true => path.strip_prefix(directory).map_err(|_| {
            let message = format!("{} is not in the workspace {}", path.display(), directory.display());
            Failure::usage(message).hint("name a path from the top of the workspace, as src/main.py")
        })?,
        false => path,
    };
    let parts: Vec<&[u8]> = within
        .components()
        .filter(|part| !matches!(part, std::path::Component::CurDir))
        .map(|part| part.as_os_str().as_bytes())
        .collect();
    TreePath::new(parts.join(&b'/')).map_err(|error| {
        Failure::usage(format!("{} is no path in a workspace: {error}", path.display()))
            .hint("name a path from the top of the workspace, as src/main.py")
    })
}

/// The snapshot's entries in a scope and on the way to it, in order; hard links are the files behind them. Those of a whole
/// snapshot come as they are read. To be asked where waiting is allowed.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Those that were read, and are not asked for yet.
    read: vec::IntoIter<Entry>,
    /// The rest.
    coming: Option<mpsc::Receiver<store::Result<Vec<Entry>>>>,
}

impl Stored {
    /// Begins to read them.
    pub async fn of(tenant: &TenantStore, record: &Record, scope: &Scope) -> Result<Self, Failure> {
        if let Some(top) = &scope.0 {
            let read = browse::part(tenant, record, top).await?.into_iter();
            return Ok(Self { read, coming: None });
        }
        let mut whole = WholeTree::open(tenant, record).await?;
        let (sender, coming) = mpsc::channel(BATCHES_AHEAD);
        tokio::spawn(async move {
            while let Some(entries) = whole.next().await.transpose() {
                let is_last = entries.is_err();
                // Nobody asks any more.
                if sender.send(entries).await.is_err() || is_last {
                    break;
                }
            }
            whole.close().await;
        });
        Ok(Self { read: Vec::new().into_iter(), coming: Some(coming) })
    }

    /// The entry at a path, among those of a scope that were all read.
    pub fn has(&self, path: &TreePath) -> bool {
        self.read.as_slice().iter().any(|entry| entry.path == *path)
    }
}

impl Iterator for Stored {
    type Item = store::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.read.next() {
                return Some(Ok(entry));
            }
            match self.coming.as_mut()?.blocking_recv()? {
                Ok(entries) => self.read = entries.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Whether a path is one of these, or below one of them.
pub(crate) fn is_left_out(path: &TreePath, left_out: &[String]) -> bool {
    left_out.iter().any(|top| {
        path.as_bytes()
            .strip_prefix(top.as_bytes())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    })
}

/// What was found out by a comparison.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// What differs, in order.
    pub differences: Vec<Difference>,
    /// Whether the checkpoint has anything of the scope.
    pub was_there: bool,
    /// Whether the directory has.
    pub is_there: bool,
}

/// Compares a directory, as it is now, with what a checkpoint has, in a scope and on the way to it: both come in the order of
/// a tree, and no more is held than what differs. What is left out by now is left out on both sides. Of what differs,
/// `wanted` is kept.
pub(crate) fn compare(
    root: &RootDir,
    key: &ChunkKey,
    (scope, exclusions): (&Scope, &[String]),
    (stored, began_ms): (Stored, u64),
    wanted: &dyn Fn(&Difference) -> bool,
) -> Result<Compared, Failure> {
    let was_there = Cell::new(false);
    let before = stored.filter(|entry| {
        let Ok(entry) = entry else { return true };
        was_there.set(was_there.get() || scope.holds(&entry.path));
        !is_left_out(&entry.path, exclusions)
    });
    let mut comparison = Comparison {
        root,
        key,
        scope,
        began_ms,
        wanted,
        before: before.peekable(),
        linked: HashMap::new(),
        found: Compared::default(),
    };
    let is_excluded = |path: &TreePath| {
        !scope.may_be_in(path) || exclusions.iter().any(|name| name.as_bytes() == path.as_bytes())
    };
    // A failure ends the walk; it is told as it is.
    let mut failed = None;
    let walked = walk(root, &is_excluded, THREADS, &mut |walked| {
        comparison.take(walked).map_err(|failure| {
            failed = Some(failure);
            store::Error::Interrupted
        })
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    walked?;
    comparison.pass(None)?;
    let found = comparison.found;
    Ok(Compared { was_there: was_there.get(), ..found })
}

/// The paths of a directory in a scope, in order.
pub(crate) fn paths(root: &RootDir, scope: &Scope) -> Result<Vec<TreePath>, Failure> {
    let mut paths = Vec::new();
    walk(root, &|path: &TreePath| !scope.may_be_in(path), THREADS, &mut |walked| {
        if scope.holds(&walked.entry.path) {
            paths.push(walked.entry.path);
        }
        Ok(())
    })?;
    Ok(paths)
}

/// A comparison that goes on.
struct Comparison<'a, I: Iterator<Item = store::Result<Entry>>> {
    root: &'a RootDir,
    key: &'a ChunkKey,
    scope: &'a Scope,
    began_ms: u64,
    wanted: &'a dyn Fn(&Difference) -> bool,
    before: Peekable<I>,
    /// The files that have several names.
    linked: HashMap<TreePath, Live>,
    found: Compared,
}

impl<I: Iterator<Item = store::Result<Entry>>> Comparison<'_, I> {
    /// The next path of the directory.
    fn take(&mut self, walked: WalkedEntry) -> Result<(), Failure> {
        let WalkedEntry { entry, file, has_other_names } = walked;
        let path = entry.path.clone();
        let live = match &entry.kind {
            // Of a link that is in the scope the file is, too: outside of it nothing is walked.
            Kind::HardLink { target } => match self.linked.get(target) {
                Some(file) => {
                    Live { entry: Entry { path: path.clone(), ..file.entry.clone() }, ..file.clone() }
                }
                None => return Ok(()),
            },
            _ => Live { entry, state: file.map(|file| file.state) },
        };
        if has_other_names {
            self.linked.insert(path.clone(), live.clone());
        }
        if !self.scope.holds(&path) && !self.scope.is_led_to_by(&path) {
            return Ok(());
        }
        self.found.is_there |= self.scope.holds(&path);
        self.pass(Some(&path))?;
        let old = match self.before.next_if(|entry| matches!(entry, Ok(entry) if entry.path == path)) {
            Some(old) => old?,
            None => {
                self.keep(difference(path, ChangeKind::Created, None, Some(live.entry)));
                return Ok(());
            }
        };
        let time_of_directory =
            matches!(old.kind, Kind::Directory) && old.meta.mtime != live.entry.meta.mtime;
        match changed(self.root, self.key, &path, &old, &live, self.began_ms)? {
            Some(change) => self.keep(difference(path, change, Some(old), Some(live.entry))),
            None if time_of_directory => self.keep(Difference {
                is_time_of_directory: true,
                ..difference(path, ChangeKind::Metadata, Some(old), Some(live.entry))
            }),
            None => {}
        }
        Ok(())
    }

    /// What the checkpoint has before a path, or all the rest of it, is not there any more.
    fn pass(&mut self, path: Option<&TreePath>) -> Result<(), Failure> {
        let is_before = |entry: &store::Result<Entry>| match entry {
            Ok(entry) => path.is_none_or(|path| entry.path < *path),
            Err(_) => true,
        };
        while let Some(old) = self.before.next_if(is_before) {
            let old = old?;
            self.keep(difference(old.path.clone(), ChangeKind::Deleted, Some(old), None));
        }
        Ok(())
    }

    fn keep(&mut self, difference: Difference) {
        if (self.wanted)(&difference) {
            self.found.differences.push(difference);
        }
    }
}

/// A directory on the way that the checkpoint has and that is none now: what lies in it has no place without it.
pub(crate) fn is_lost_way(difference: &Difference) -> bool {
    let is_directory =
        |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| matches!(entry.kind, Kind::Directory));
    is_directory(&difference.before) && !is_directory(&difference.after)
}

fn difference(path: TreePath, change: ChangeKind, before: Option<Entry>, after: Option<Entry>) -> Difference {
    Difference { path, change, before, after, is_time_of_directory: false }
}

/// In what way a path differs that is there before and after.
pub(crate) fn changed(
    root: &RootDir,
    key: &ChunkKey,
    path: &TreePath,
    old: &Entry,
    new: &Live,
    began_ms: u64,
) -> Result<Option<ChangeKind>, Failure> {
    let has_other_mode = old.meta.mode != new.entry.meta.mode;
    match (&old.kind, &new.entry.kind) {
        (Kind::Directory, Kind::Directory) => {}
        (Kind::Symlink { target: old }, Kind::Symlink { target: new }) => {
            return Ok((old != new).then_some(ChangeKind::Modified));
        }
        (Kind::File { size: old_size, extents }, Kind::File { size: new_size, .. }) => {
            if old_size != new_size {
                return Ok(Some(ChangeKind::Modified));
            }
            let has_other_time = old.meta.mtime != new.entry.meta.mtime;
            let is_untouched = !has_other_time && new.state.is_some_and(|state| is_before(&state, began_ms));
            if !is_untouched && !is_content(root, key, path, extents)? {
                return Ok(Some(ChangeKind::Modified));
            }
            if has_other_time {
                return Ok(Some(ChangeKind::Metadata));
            }
        }
        _ => return Ok(Some(ChangeKind::Modified)),
    }
    Ok(has_other_mode.then_some(ChangeKind::Metadata))
}

fn is_before(state: &FileState, began_ms: u64) -> bool {
    let ctime_ms = state.ctime.seconds.saturating_mul(1000) + i64::from(state.ctime.nanos / 1_000_000);
    u64::try_from(ctime_ms).unwrap_or(0) + SLACK_MS < began_ms
}

/// Whether a file of the right size has just this content. One that cannot be opened any more has not.
fn is_content(root: &RootDir, key: &ChunkKey, path: &TreePath, extents: &[Extent]) -> Result<bool, Failure> {
    let file = match open_file(root, path) {
        Ok(Some(file)) => file,
        Ok(None) => return Ok(false),
        Err(error) => {
            let message = format!("{} cannot be read: {error}", root.display(path).display());
            return Err(Failure::new(ErrorKind::Io, message));
        }
    };
    let mut file = io::BufReader::with_capacity(256 << 10, file);
    let mut buffer = Vec::new();
    for extent in extents {
        if let Extent::Hole(len) = extent {
            if !is_zero(&mut file, *len) {
                return Ok(false);
            }
            continue;
        }
        buffer.clear();
        let read = (&mut file).take(extent.len()).read_to_end(&mut buffer);
        let is_whole = read.is_ok_and(|read| read as u64 == extent.len());
        let is_same = is_whole
            && match extent {
                Extent::Hole(_) => false,
                Extent::Inline(bytes) => buffer.as_slice() == &bytes[..],
                Extent::Chunk { id, .. } => key.id_of(&buffer) == *id,
            };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(file.read(&mut [0; 1]).is_ok_and(|more| more == 0))
}

/// Whether the next bytes are zeros, read piece by piece: a hole may be as large as it likes.
fn is_zero(file: &mut impl Read, len: u64) -> bool {
    let (mut left, mut piece) = (len, vec![0; 64 << 10]);
    while left > 0 {
        let part = left.min(piece.len() as u64) as usize;
        if file.read_exact(&mut piece[..part]).is_err() || piece[..part].iter().any(|byte| *byte != 0) {
            return false;
        }
        left -= part as u64;
    }
    true
}

/// Opens a regular file beneath the root, following no link and waiting for nobody; `None` if it is none.
pub(crate) fn open_file(root: &RootDir, path: &TreePath) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK;
    match root.open_at(path.as_bytes(), flags, Mode::empty()) {
        Ok(fd) => {
            let file = File::from(fd);
            Ok(Some(file).filter(|file| file.metadata().is_ok_and(|found| found.is_file())))
        }
        Err(error) => match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
            Some(
                rustix::io::Errno::NOENT
                | rustix::io::Errno::NOTDIR
                | rustix::io::Errno::LOOP
                | rustix::io::Errno::NXIO,
            ) => Ok(None),
            _ => Err(error),
        },
    }
}
