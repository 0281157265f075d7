//! `Directory` gives the files of a directory to the chunk pipeline, one after the other.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    ops::Range,
    sync::Arc,
};

use parking_lot::Mutex;

use super::plan::CapturePlan;
use crate::{
    Error, Result,
    content::{
        chunk_fetcher::startup::First,
        ingest::{Cutter, Files},
        workers::blocking,
    },
    error::ReadFault,
    format::tree::{Extent, TreePath},
    progress::{Progress, Tick},
    tree::{
        read::{self, ContentSink, OnChange, ReadState},
        read_log::ReadFile,
        root_dir::RootDir,
        stat_trust::{self, StatTrust},
        walk::FoundFile,
    },
};

/// Files that are to be read, in order.
pub(super) type FoundFiles<'a> = Box<dyn Iterator<Item = Result<(TreePath, FoundFile)>> + Send + 'a>;

/// Prepares for reading these files, if there are any.
pub(super) async fn before_reading(
    plan: &Arc<CapturePlan>,
    again: &[(TreePath, FoundFile)],
) -> Result<Option<StatTrust>> {
    let few = stat_trust::FLUSH_ONE_BY_ONE + 1;
    let mut files: Vec<TreePath> = again.iter().take(few).map(|(path, _)| path.clone()).collect();
    if again.is_empty() {
        let first = plan.files().take(few).map(|file| file.map(|(path, _)| path));
        files = first.collect::<Result<_>>()?;
    }
    if files.is_empty() {
        return Ok(None);
    }
    let plan = Arc::clone(plan);
    blocking(move || StatTrust::before_reading(&plan.root, &files).map(Some)).await
}

/// The files of a directory as the chunk pipeline wants them.
pub(super) struct Directory<'a> {
    root: &'a RootDir,
    first: &'a First,
    progress: &'a dyn Progress,
    on_change: OnChange,
    len: usize,
    queue: Mutex<Queue<'a>>,
    /// The files that are being read, by number.
    open: Mutex<HashMap<usize, Open>>,
    taken: Mutex<InOrder<'a>>,
}

/// The files that nobody has begun to read.
struct Queue<'a> {
    files: FoundFiles<'a>,
    next: usize,
    /// Those that others come for.
    passed: HashMap<usize, (TreePath, FoundFile)>,
}

struct Open {
    path: TreePath,
    size: u64,
    /// Its state while it was read, once it was.
    seen: Option<ReadState>,
}

/// Tells the results of reading in the order of the files.
struct InOrder<'a> {
    each: Box<dyn FnMut(usize, TreePath, ReadFile) + Send + 'a>,
    next: usize,
    early: BTreeMap<usize, (TreePath, ReadFile)>,
}

impl<'a> Directory<'a> {
    /// The next `len` files of `files`; `each` is told their contents, in order.
    pub fn new(
        (root, on_change): (&'a RootDir, OnChange),
        first: &'a First,
        progress: &'a dyn Progress,
        (len, files): (usize, FoundFiles<'a>),
        each: Box<dyn FnMut(usize, TreePath, ReadFile) + Send + 'a>,
    ) -> Self {
        let queue = Mutex::new(Queue { files, next: 0, passed: HashMap::new() });
        let taken = Mutex::new(InOrder { each, next: 0, early: BTreeMap::new() });
        Self { root, first, progress, on_change, len, queue, open: Mutex::default(), taken }
    }

    /// Takes the extents of a file.
    pub fn done(&self, at: usize, extents: Vec<Extent>) -> Result<()> {
        let Some(Open { path, seen: Some(seen), .. }) = self.open.lock().remove(&at) else {
            return Err(internal("a file that was not read is done"));
        };
        let mut taken = self.taken.lock();
        let InOrder { each, next, early } = &mut *taken;
        early.insert(at, (path, ReadFile { seen, extents }));
        while let Some((path, file)) = early.remove(next) {
            each(*next, path, file);
            *next += 1;
        }
        Ok(())
    }

    /// The file with this number, which nobody else asks for.
    fn file(&self, at: usize) -> Result<(TreePath, FoundFile)> {
        let mut queue = self.queue.lock();
        while queue.next <= at {
            let file =
                queue.files.next().ok_or_else(|| internal("there are fewer files than were found"))??;
            let number = queue.next;
            queue.next += 1;
            queue.passed.insert(number, file);
        }
        queue.passed.remove(&at).ok_or_else(|| internal("a file is read twice"))
    }
}

impl Files for Directory<'_> {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        let (path, found) = self.file(at)?;
        let open = Open { path: path.clone(), size: found.state.size, seen: None };
        self.open.lock().insert(at, open);
        let seen = read::read(self.root, &path, &found, self.on_change, &mut CutterSink(cutter))?;
        if let Some(open) = self.open.lock().get_mut(&at) {
            open.seen = Some(seen);
        }
        self.progress.tick(Tick { files: 1, ..Tick::default() });
        Ok(())
    }

    fn is_first(&self, at: usize, part: Range<u64>) -> bool {
        let open = self.open.lock();
        open.get(&at).is_some_and(|open| self.first.has(&open.path, open.size, part))
    }
}

fn internal(what: &str) -> Error {
    Error::Internal { what: what.to_owned() }
}

struct CutterSink<'a, 'b>(&'a mut Cutter<'b>);

impl ContentSink for CutterSink<'_, '_> {
    fn data(&mut self, file: &mut File, most: u64) -> Result<u64, ReadFault> {
        self.0.read_from(file, most)
    }

    fn hole(&mut self, len: u64) -> Result<()> {
        self.0.hole(len)
    }

    fn restart(&mut self) {
        self.0.restart();
    }
}
