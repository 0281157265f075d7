//! Checks the databases of a profile, several at a time.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    cookies::{self, Census, Cookies},
    inventory::Inventory,
    leveldb,
    source::Source,
    sqlite::{self, Depth, Means},
    state::{Deadline, State},
};

/// Which databases are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    All,
    /// Those that a change of these files concerns; their paths are relative to the root.
    Changed(&'a BTreeSet<PathBuf>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub depth: Depth,
    /// At least one is used.
    pub threads: usize,
    /// What is not checked by then is `Unchecked`.
    pub deadline: Deadline,
    /// An existing directory for copies of SQLite databases, one for each thread at a time.
    pub scratch: PathBuf,
}

/// What was found, each list by path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Examination {
    pub sqlite: Vec<sqlite::Checked>,
    pub leveldb: Vec<leveldb::Checked>,
    /// If a cookie database was among them and could be read.
    pub cookies: Option<Census>,
    /// Of the databases.
    pub bytes: u64,
    pub elapsed: Duration,
}

impl Examination {
    /// The databases that are damaged, and how.
    pub fn damaged(&self) -> impl Iterator<Item = (&Path, &[String])> {
        self.states().filter_map(|(path, state)| match state {
            State::Damaged(problems) => Some((path, problems.as_slice())),
            _ => None,
        })
    }

    /// The databases about which nothing can be said, and why.
    pub fn unchecked(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.states().filter_map(|(path, state)| match state {
            State::Unchecked(reason) => Some((path, reason.as_str())),
            _ => None,
        })
    }

    fn states(&self) -> impl Iterator<Item = (&Path, &State)> {
        let sqlite = self.sqlite.iter().map(|checked| (checked.path.as_path(), &checked.state));
        sqlite.chain(self.leveldb.iter().map(|checked| (checked.path.as_path(), &checked.state)))
    }
}

/// Checks the databases below `root`, none of which is changed or locked. They should be at
/// rest: one that changes meanwhile may be found damaged and is not.
pub fn examine(root: &Path, scope: Scope<'_>, options: &Options) -> io::Result<Examination> {
    let start = Instant::now();
    let source = Source::open(root)?;
    let inventory = match scope {
        Scope::All => Inventory::of_all(&source)?,
        Scope::Changed(changed) => Inventory::of_changed(&source, changed)?,
    };
    let mut examination = check(&source, &inventory, options);
    examination.elapsed = start.elapsed();
    Ok(examination)
}

fn check(source: &Source, inventory: &Inventory, options: &Options) -> Examination {
    enum Job<'a> {
        Sqlite(&'a Path),
        LevelDb(&'a Path),
    }
    let sqlite = inventory.sqlite.iter().map(|path| Job::Sqlite(path));
    let jobs: Vec<_> = sqlite.chain(inventory.leveldb.iter().map(|path| Job::LevelDb(path))).collect();
    let means = Means { depth: options.depth, deadline: options.deadline, scratch: &options.scratch };
    let next = AtomicUsize::new(0);
    let found = Mutex::new((Examination::default(), Vec::<Cookies>::new()));
    let work = || {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match job {
                Job::Sqlite(path) => {
                    let count = |connection: &_| cookies::count(connection, path);
                    let (checked, cookies) = sqlite::check(source, path, means, count);
                    let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                    found.0.sqlite.push(checked);
                    found.1.extend(cookies);
                }
                Job::LevelDb(path) => {
                    let checked = leveldb::check(source, path, options.deadline);
                    found.lock().unwrap_or_else(PoisonError::into_inner).0.leveldb.push(checked);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.min(jobs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let (mut examination, mut databases) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    examination.sqlite.sort_by(|a, b| a.path.cmp(&b.path));
    examination.leveldb.sort_by(|a, b| a.path.cmp(&b.path));
    databases.sort_by(|a, b| a.path.cmp(&b.path));
    let sqlite_bytes = examination.sqlite.iter().map(|checked| checked.bytes);
    examination.bytes = sqlite_bytes.chain(examination.leveldb.iter().map(|checked| checked.bytes)).sum();
    examination.cookies = (!databases.is_empty()).then_some(Census { databases });
    examination
}

#[cfg(test)]
#[path = "examination_tests.rs"]
mod tests;
