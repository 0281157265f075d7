//! `CapturePlan` walks the directory, and decides which files must be read and which keep their chunks.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt,
    path::PathBuf,
    sync::Arc,
};

use super::{Capture, SecondLook, is_whole, size::Sizes};
use crate::{
    Error, Result,
    content::{cache::CacheKind, workers::blocking},
    error::IoContext,
    format::{
        FormatError,
        record::{Counts, Record},
        tree::{Entry, Kind, TreePath},
        tree_limits::Tally,
    },
    id::SnapshotId,
    ops::write::Totals,
    progress::Tick,
    tree::{
        codec::put_other,
        root_dir::RootDir,
        stat_cache::{Known, KnownEntry, StatCacheReader},
        walk::{FoundFile, Skipped, WalkedEntry, walk},
        walk_log::{Choice, Logged, WalkLog},
    },
};

/// Files of this size come after all that are smaller, and so lie in packs of their own. They live less
/// long: Chromium's cache evicts by size times age. When they are gone, whole packs are needed
/// no more, or little of each, and less is left for a collection to copy.
const LARGE_BYTES: u64 = 128 << 10;

/// Up to so many files that must be read are kept at hand. To find more, the walk's log is gone through.
const FEW_FILES: usize = 1024;
/// The names of so many entries near the top are kept at hand, for guesses.
const TOP_NAMES: usize = 4096;

/// Up to so many changes since the last time are kept at hand. If there are more, the tree is cut anew.
const FEW_CHANGES: usize = 4096;

/// The folder of this host's cache for files that have no name.
const ASIDE: &str = "aside";

/// A difference from the last capture. Changes have the order of paths.
#[derive(Debug)]
pub(super) enum PlannedChange {
    /// The entry is gone, with all below it.
    Gone(TreePath),
    /// An entry that is no regular file.
    Put(Entry),
    /// A file that must be read.
    Read(Entry, Choice),
}

/// The walk's findings, and the choice for each file.
#[derive(Debug)]
pub(super) struct CapturePlan {
    pub root: RootDir,
    pub log: WalkLog,
    /// The entries that were left out.
    pub skipped: Skipped,
    pub totals: Totals,
    /// Files that keep the chunks they had, and how many bytes they have.
    pub kept: (u64, u64),
    /// How many files are read in the first run, and in the second.
    pub to_read: [usize; 2],
    /// The files that must be read, as they were found, unless there are many.
    few: Option<Vec<(TreePath, FoundFile, Choice)>>,
    /// The entries in the upper two levels, for guesses; not all, if there are many.
    pub top: Vec<Entry>,
    /// The tree that was captured the last time, and the changes since, unless they are many.
    pub changes: Option<(SnapshotId, Vec<PlannedChange>)>,
    exclusions: Vec<String>,
    pub threads: usize,
    /// The stat cache of the last capture.
    cache: Option<File>,
    pub cache_name: Option<String>,
    /// Where that is put which is too much for memory.
    pub aside: Option<PathBuf>,
}

impl CapturePlan {
    pub async fn make(capture: &Capture<'_>) -> Result<Arc<Self>> {
        let request = capture.request;
        let (directory, exclusions) = (request.directory.clone(), request.about.exclusions.clone());
        let second_look = request.second_look.clone();
        let (store, rescan, threads) = (capture.store.clone(), request.rescan, request.threads);
        let max_bytes = request.max_bytes;
        let plan = blocking(move || {
            let root = RootDir::open(&directory)?;
            let cache_name = cache_name(&root);
            let cached = |name: &String| store.cache.as_ref()?.open(CacheKind::Stat, name);
            let cache = cache_name.as_ref().filter(|_| !rescan).and_then(cached);
            let aside = store.cache.as_ref().map(|cache| cache.folder(ASIDE));
            let mut plan = Self {
                root,
                log: WalkLog::below(aside.clone()),
                skipped: Skipped::default(),
                totals: Totals::default(),
                kept: (0, 0),
                to_read: [0; 2],
                few: Some(Vec::new()),
                top: Vec::new(),
                changes: None,
                exclusions,
                threads,
                cache,
                cache_name,
                aside,
            };
            plan.survey(second_look.as_ref())?;
            match max_bytes {
                Some(limit) if plan.totals.bytes > limit => Err(plan.too_large(limit)?),
                _ => Ok(plan),
            }
        })
        .await?;
        let ((kept, bytes), [first, last]) = (plan.kept, plan.to_read);
        capture.progress.begin("snapshot", kept + (first + last) as u64, plan.totals.bytes);
        capture.progress.tick(Tick { files: kept, bytes, ..Tick::default() });
        Ok(Arc::new(plan))
    }

    /// Walks the directory beside the stat cache.
    fn survey(&mut self, second_look: Option<&SecondLook>) -> Result<()> {
        let Self { root, log, totals, kept, to_read, few, top, cache, exclusions, threads, .. } = &mut *self;
        let (mut known, mut tally) = (known(cache.as_ref()), Tally::default());
        let mut changes = Changes(known.tree().map(|_| Vec::new()));
        // Only what was remembered by the capture before is as it was then.
        let second_look = second_look.filter(|look| known.tree() == Some(look.after));
        let is_excluded = |path: &TreePath| is_excluded(exclusions, path);
        let skipped = walk(root, &is_excluded, *threads, &mut |found| {
            // Before anything is stored: what could not be read back is not worth it.
            let added = tally.add(&found.entry, u64::MAX);
            added.map_err(|error| unusable(root, &found.entry, &error))?;
            count(&mut totals.counts, &found.entry);
            if top.len() < TOP_NAMES && is_near_the_top(&found.entry) {
                top.push(found.entry.clone());
            }
            let known = known.find(&found.entry.path, &mut |passed| changes.gone(passed));
            if let Some(file) = found.file {
                totals.bytes += file.state.size;
                let other = known.as_ref().is_some_and(|known| matches!(known.what, KnownEntry::Other(_)));
                let is_enough = second_look.is_some_and(|look| !look.paths.contains(&found.entry.path));
                let known = known.and_then(|known| match is_enough {
                    true => known.as_captured(&file.state, &found.entry.meta),
                    false => known.file(&file.state, &found.entry.meta),
                });
                let choice = match known {
                    Some(_) => Choice::Keep,
                    None if file.state.size < LARGE_BYTES => Choice::ReadFirst,
                    None => Choice::ReadLast,
                };
                match choice {
                    Choice::Keep => *kept = (kept.0 + 1, kept.1 + file.state.size),
                    Choice::ReadFirst => to_read[0] += 1,
                    Choice::ReadLast => to_read[1] += 1,
                }
                log.push(&found, choice);
                if choice != Choice::Keep {
                    *few = few.take().filter(|few| few.len() < FEW_FILES);
                    few.iter_mut().for_each(|few| few.push((found.entry.path.clone(), file, choice)));
                    changes.read(&found.entry, choice, other);
                }
            } else {
                log.push(&found, Choice::Keep);
                changes.compare(&found.entry, known.as_deref());
            }
            Ok(())
        })?;
        known.rest(&mut |passed| changes.gone(passed));
        totals.counts.skipped = skipped.total();
        // Of a cache that is damaged, nobody knows what was in the rest of it.
        let changes = known.tree().filter(|_| known.is_whole()).zip(changes.0);
        (self.skipped, self.changes) = (skipped, changes);
        Ok(())
    }

    fn too_large(&self, limit: u64) -> Result<Error> {
        let mut sizes = Sizes::default();
        for logged in self.log.entries() {
            sizes.add(&logged?.entry);
        }
        Ok(sizes.too_large(self.root.path(), self.totals.bytes, limit))
    }

    /// Whether the directory is known to equal a snapshot.
    pub fn is_as(&self, record: &Record) -> bool {
        let known = self.changes.as_ref().filter(|(_, changes)| changes.is_empty());
        known.is_some_and(|(tree, _)| is_whole(record, *tree)) && self.has_found(&record.counts)
    }

    /// Whether so many entries of each kind were found.
    pub fn has_found(&self, counts: &Counts) -> bool {
        let kinds = |counts: &Counts| [counts.files, counts.directories, counts.symlinks, counts.hard_links];
        kinds(counts) == kinds(&self.totals.counts)
    }

    /// Walks the directory once more.
    pub fn walk_again(&self, each: &mut dyn FnMut(WalkedEntry) -> Result<()>) -> Result<Skipped> {
        walk(&self.root, &|path| is_excluded(&self.exclusions, path), self.threads, each)
    }

    /// The stat cache of the last capture, from the first file to the last.
    pub fn known(&self) -> StatCacheReader<FromStart<'_>> {
        known(self.cache.as_ref())
    }

    /// The files that must be read, in the order in which they are: the large ones come after all others.
    pub fn files(&self) -> Box<dyn Iterator<Item = Result<(TreePath, FoundFile)>> + Send + '_> {
        match &self.few {
            Some(few) => Box::new(of_run(few, Choice::ReadFirst).chain(of_run(few, Choice::ReadLast))),
            None => {
                let run = |wanted: Choice, count: usize| {
                    let chosen = move |logged: Result<Logged>| match logged {
                        Ok(Logged { entry, file: Some((file, choice)) }) if choice == wanted => {
                            Some(Ok((entry.path, file)))
                        }
                        Ok(_) => None,
                        Err(error) => Some(Err(error)),
                    };
                    // None are looked for behind the last.
                    self.log.entries().filter_map(chosen).take(count)
                };
                Box::new(
                    run(Choice::ReadFirst, self.to_read[0]).chain(run(Choice::ReadLast, self.to_read[1])),
                )
            }
        }
    }

    /// The file at `path` as it is now.
    pub fn find(&self, path: &TreePath) -> Result<FoundFile> {
        let fd = self.root.open_at(path.as_bytes(), rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
        let stat = fd.and_then(|fd| Ok(rustix::fs::fstat(fd)?));
        Ok(FoundFile::new(&stat.at("cannot look at", self.root.display(path))?))
    }

    /// Says that an entry cannot be stored.
    pub fn unusable(&self, entry: &Entry, error: &FormatError) -> Error {
        unusable(&self.root, entry, error)
    }
}

/// The changes so far, unless they are many.
struct Changes(Option<Vec<PlannedChange>>);

impl Changes {
    fn push(&mut self, change: PlannedChange) {
        self.0 = self.0.take().filter(|changes| changes.len() < FEW_CHANGES);
        if let Some(changes) = &mut self.0 {
            changes.push(change);
        }
    }

    /// Something that was there is not there now.
    fn gone(&mut self, known: &Known) {
        match TreePath::new(known.path.clone()) {
            Ok(path) => self.push(PlannedChange::Gone(path)),
            // Nobody has stored that.
            Err(_) => self.0 = None,
        }
    }

    /// A file must be read. Whether there was something `other` that is no file.
    fn read(&mut self, entry: &Entry, choice: Choice, other: bool) {
        if other {
            self.push(PlannedChange::Gone(entry.path.clone()));
        }
        self.push(PlannedChange::Read(entry.clone(), choice));
    }

    /// This is no regular file.
    fn compare(&mut self, entry: &Entry, known: Option<&Known>) {
        let mut encoded = Vec::new();
        put_other(&mut encoded, entry);
        match known.map(|known| &known.what) {
            Some(KnownEntry::Other(before)) if *before == encoded => return,
            // What is below a directory stays.
            Some(KnownEntry::Other(before)) if before.first() == encoded.first() => {}
            Some(_) => self.push(PlannedChange::Gone(entry.path.clone())),
            None => {}
        }
        self.push(PlannedChange::Put(entry.clone()));
    }
}

/// Those of a few files that are read in this run.
fn of_run(
    few: &[(TreePath, FoundFile, Choice)],
    wanted: Choice,
) -> impl Iterator<Item = Result<(TreePath, FoundFile)>> + Send + '_ {
    let chosen = few.iter().filter(move |(_, _, choice)| *choice == wanted);
    chosen.map(|(path, file, _)| Ok((path.clone(), *file)))
}

fn is_near_the_top(entry: &Entry) -> bool {
    entry.path.as_bytes().iter().filter(|byte| **byte == b'/').count() < 2
}

/// Reads a file from its start, beside others who do.
#[derive(Debug)]
pub(super) struct FromStart<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read_at(buffer, self.offset)?;
        self.offset += got as u64;
        Ok(got)
    }
}

fn known(cache: Option<&File>) -> StatCacheReader<FromStart<'_>> {
    StatCacheReader::new(cache.map(|file| FromStart { file, offset: 0 }))
}

fn count(counts: &mut Counts, entry: &Entry) {
    match entry.kind {
        Kind::File { .. } => counts.files += 1,
        Kind::Directory => counts.directories += 1,
        Kind::Symlink { .. } => counts.symlinks += 1,
        Kind::HardLink { .. } => counts.hard_links += 1,
        _ => {}
    }
}

fn unusable(root: &RootDir, entry: &Entry, error: &FormatError) -> Error {
    let path = root.display(&entry.path);
    Error::InvalidInput { what: format!("{} cannot be stored: {error}", path.display()) }
}

fn is_excluded(exclusions: &[String], path: &TreePath) -> bool {
    exclusions.iter().any(|name| name.as_bytes() == path.as_bytes())
}

/// The cache entry of this directory on this file system; none if it cannot be told.
fn cache_name(root: &RootDir) -> Option<String> {
    use std::os::unix::ffi::OsStrExt;
    let path = root.path().canonicalize().ok()?;
    let stat = rustix::fs::fstat(root.fd()).ok()?;
    let file_system = rustix::fs::fstatvfs(root.fd()).ok()?.f_fsid;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&stat.st_dev.to_le_bytes());
    hasher.update(&file_system.to_le_bytes());
    hasher.update(path.as_os_str().as_bytes());
    Some(hasher.finalize().to_hex()[..32].to_owned())
}
