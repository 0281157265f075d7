//! `Captured` is the tree of a directory, entry by entry, with the content of the files read so far.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    io::{self, BufWriter, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::plan::{CapturePlan, FromStart, PlannedChange};
use crate::{
    Error, Result,
    content::{TenantStore, cache::CacheKind, meta::NewTree},
    format::{
        root::Root,
        tree::{Entry, Kind, TreePath},
    },
    id::{ChunkId, SnapshotId},
    ops::write::tree_cutter::TreeCutter,
    tree::{
        read,
        read_log::{ReadFile, ReadLog, ReadLogReader},
        stat_cache::{StatCacheReader, StatCacheWriter},
        stat_trust::StatTrust,
        walk::{FileState, WalkedEntry},
        walk_log::{Choice, LogReader, Logged},
    },
};

/// The contents of the files that were read.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Of the files that the plan says must be read: those of each run.
    pub runs: [ReadLog; 2],
    /// Files that were read again, or after all, in which round of reading.
    pub again: BTreeMap<TreePath, (ReadFile, usize)>,
}

impl Reads {
    /// Nothing so far. What is too much for memory is put aside below `folder`.
    pub fn below(folder: Option<&Path>) -> Self {
        let log = || ReadLog::below(folder.map(Path::to_owned));
        Self { runs: [log(), log()], again: BTreeMap::new() }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Captured {
    pub plan: Arc<CapturePlan>,
    pub reads: Arc<Reads>,
    /// Whether the memory of the last capture proved wrong.
    is_mistaken: Arc<AtomicBool>,
}

/// The changes of a tree since its last capture, in the order of paths.
pub(super) enum Edit {
    Gone(TreePath),
    Put(Taken),
}

/// An entry of the tree.
pub(super) struct Taken {
    pub entry: Entry,
    /// Of a regular file: the state that its content belongs to, and in which round it was read, unless it
    /// was not.
    pub file: Option<(FileState, Option<usize>)>,
    /// Whether it is a file that was not read though it may have changed.
    is_unsure: bool,
}

impl Captured {
    /// Nothing was read so far.
    pub fn new(plan: Arc<CapturePlan>) -> Self {
        Self { plan, reads: Arc::default(), is_mistaken: Arc::default() }
    }

    /// Drops the memory of the last capture, which proved wrong.
    pub fn forget_changes(&self) {
        self.is_mistaken.store(true, Ordering::Relaxed);
    }

    /// All entries, in order.
    pub fn entries(&self) -> Entries<'_> {
        Entries { known: Some(self.plan.known()), ..self.states() }
    }

    /// The same, but files that were not read have neither extents nor extended attributes.
    fn states(&self) -> Entries<'_> {
        let runs = [&self.reads.runs[0], &self.reads.runs[1]].map(ReadLog::files);
        Entries {
            log: self.plan.log.entries(),
            known: None,
            runs,
            again: &self.reads.again,
            gone: HashSet::new(),
        }
    }

    /// The tree. Segments that the base has are referred to as they are there.
    pub fn tree(&self, store: &TenantStore, base: Option<&Root>) -> Result<NewTree> {
        let mut cutter = TreeCutter::new(store, base);
        for taken in self.entries() {
            let entry = taken?.entry;
            cutter.push(&entry).map_err(|error| self.plan.unusable(&entry, &error))?;
        }
        Ok(cutter.finish())
    }

    /// The changes from the last capture to this tree, if they are known and few.
    pub fn edits(&self) -> Result<Option<Vec<Edit>>> {
        let is_right = !self.is_mistaken.load(Ordering::Relaxed);
        let Some((_, changes)) = self.plan.changes.as_ref().filter(|_| is_right) else { return Ok(None) };
        let mut runs = [&self.reads.runs[0], &self.reads.runs[1]].map(ReadLog::files);
        let (mut edits, mut read_again) = (Vec::new(), 0);
        for change in changes {
            edits.push(match change {
                PlannedChange::Gone(path) => Edit::Gone(path.clone()),
                PlannedChange::Put(entry) => Edit::Put(Taken::other(entry.clone())),
                PlannedChange::Read(entry, choice) => {
                    let read = (runs[usize::from(*choice == Choice::ReadLast)].next_file()?, 0);
                    let again = self.reads.again.get(&entry.path).cloned();
                    read_again += usize::from(again.is_some());
                    let (file, round) = again.unwrap_or(read);
                    let taken = Taken::read(entry.clone(), file, round);
                    if taken.is_gone() {
                        return Ok(None);
                    }
                    Edit::Put(taken)
                }
            });
        }
        // Others that were read again have not changed, but what they consist of is not at hand.
        Ok((read_again == self.reads.again.len()).then_some(edits))
    }

    /// The files that have any of these chunks, and whether each had been read.
    pub fn with_chunks(&self, chunks: &HashSet<ChunkId>) -> Result<Vec<(TreePath, bool)>> {
        let mut found = Vec::new();
        for taken in self.entries() {
            let Taken { entry, file, .. } = taken?;
            if entry.chunks().any(|(id, _)| chunks.contains(&id)) {
                found.push((entry.path, file.is_some_and(|(_, round)| round.is_some())));
            }
        }
        Ok(found)
    }

    /// Fails if anything in the directory has changed since it was walked: files that were
    /// read one after the other belong together only if none of them changed meanwhile.
    pub fn check_unchanged(&self) -> Result<()> {
        let changed =
            |path: &TreePath| Err(Error::SourceChanged { path: self.plan.root.display(path), attempts: 1 });
        let mut before = self.states();
        self.plan.walk_again(&mut |now| match before.next().transpose()? {
            Some(before) if is_same(&before, &now) => Ok(()),
            Some(before) => changed(&before.entry.path.min(now.entry.path.clone())),
            None => changed(&now.entry.path),
        })?;
        before.next().transpose()?.map_or(Ok(()), |gone| changed(&gone.entry.path))
    }

    /// Remembers the states of files that may be trusted next time: of those that were kept, and of those that
    /// were read if the round in which they were says so.
    pub fn remember(&self, store: &TenantStore, tree: &SnapshotId, rounds: &[StatTrust]) {
        let (Some(cache), Some(name)) = (&store.cache, &self.plan.cache_name) else { return };
        cache.write_with(CacheKind::Stat, name, |file| {
            let mut writer = StatCacheWriter::new(BufWriter::new(file), tree)?;
            match self.edits().map_err(io::Error::other)? {
                Some(edits) => {
                    let mut known = self.plan.known();
                    for edit in &edits {
                        match edit {
                            Edit::Gone(path) => known.copy(Some(path), &mut writer)?,
                            Edit::Put(taken) => {
                                known.copy(Some(&taken.entry.path), &mut writer)?;
                                taken.remember(&mut writer, rounds)?;
                            }
                        }
                    }
                    known.copy(None, &mut writer)?;
                }
                None => {
                    for taken in self.entries() {
                        taken.map_err(io::Error::other)?.remember(&mut writer, rounds)?;
                    }
                }
            }
            writer.finish()?.flush()
        });
    }
}

impl Taken {
    /// A file that was found as `entry`, and read in this round. Its state while it was read counts, not the
    /// one that the walk saw before.
    fn read(mut entry: Entry, file: ReadFile, round: usize) -> Self {
        let ReadFile { seen, extents } = file;
        entry.meta.mtime = seen.state.mtime;
        entry.meta.xattrs = seen.xattrs;
        entry.set_extents(extents);
        Self { entry, file: Some((seen.state, Some(round))), is_unsure: false }
    }

    /// No regular file.
    fn other(entry: Entry) -> Self {
        Self { entry, file: None, is_unsure: false }
    }

    /// Whether it is a file that went away before it was read.
    fn is_gone(&self) -> bool {
        self.file.as_ref().is_some_and(|(state, _)| read::is_gone(state))
    }

    /// The state of a file is remembered only if that tells whether it has changed.
    fn remember<W: Write>(&self, writer: &mut StatCacheWriter<W>, rounds: &[StatTrust]) -> io::Result<()> {
        let Some((state, round)) = &self.file else { return writer.push_other(&self.entry) };
        let allows = |round: usize| rounds.get(round).is_some_and(|trust| trust.allows(state));
        let (path, meta) = (self.entry.path.as_bytes(), &self.entry.meta);
        match &self.entry.kind {
            Kind::File { extents, .. } if !self.is_unsure && round.is_none_or(allows) => {
                writer.push_file(path, state, meta, extents)
            }
            Kind::File { extents, .. } => writer.push_unsure_file(path, state, meta, extents),
            _ => writer.push_other(&self.entry),
        }
    }
}

/// Whether `now` is the same as the entry that was taken before.
fn is_same(before: &Taken, now: &WalkedEntry) -> bool {
    let (was, is) = (&before.entry, &now.entry);
    match (&before.file, &now.file) {
        (Some((state, _)), Some(file)) => {
            let owner = |entry: &Entry| (entry.meta.mode, entry.meta.uid, entry.meta.gid);
            was.path == is.path && owner(was) == owner(is) && *state == file.state
        }
        (None, None) => was == is,
        _ => false,
    }
}

/// The entries of a tree, in order.
pub(super) struct Entries<'a> {
    log: LogReader<'a>,
    known: Option<StatCacheReader<FromStart<'a>>>,
    runs: [ReadLogReader<'a>; 2],
    again: &'a BTreeMap<TreePath, (ReadFile, usize)>,
    /// Files that went away before they were read.
    gone: HashSet<TreePath>,
}

impl Iterator for Entries<'_> {
    type Item = Result<Taken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let logged = self.log.next()?;
            let taken = match logged.and_then(|logged| self.take(logged)) {
                Ok(taken) => taken,
                Err(error) => return Some(Err(error)),
            };
            if taken.is_gone() {
                self.gone.insert(taken.entry.path);
                continue;
            }
            // Its content went with the name under which it would have been read.
            if let Kind::HardLink { target } = &taken.entry.kind
                && self.gone.contains(target)
            {
                let path = PathBuf::from(OsStr::from_bytes(taken.entry.path.as_bytes()));
                return Some(Err(Error::SourceChanged { path, attempts: 1 }));
            }
            return Some(Ok(taken));
        }
    }
}

impl Entries<'_> {
    fn take(&mut self, Logged { mut entry, file }: Logged) -> Result<Taken> {
        let Some((found, choice)) = file else { return Ok(Taken::other(entry)) };
        let read = match choice {
            Choice::Keep => None,
            Choice::ReadFirst => Some((self.runs[0].next_file()?, 0)),
            Choice::ReadLast => Some((self.runs[1].next_file()?, 0)),
        };
        if let Some((file, round)) = self.again.get(&entry.path).cloned().or(read) {
            return Ok(Taken::read(entry, file, round));
        }
        let mut is_unsure = false;
        if let Some(known) = &mut self.known {
            let known = known.find(&entry.path, &mut |_| {});
            is_unsure = known.as_ref().is_some_and(|known| known.is_unsure());
            let known = known.and_then(|known| known.as_captured(&found.state, &entry.meta));
            let lost =
                || Error::Internal { what: "a cache of file states changed while it was used".to_owned() };
            let known = known.ok_or_else(lost)?;
            entry.meta.xattrs = std::mem::take(&mut known.xattrs);
            entry.set_extents(std::mem::take(&mut known.extents));
        }
        Ok(Taken { entry, file: Some((found.state, None)), is_unsure })
    }
}
