//! `examine` checks the databases of a profile, in a cell or in this process, for `ProfileExaminer`.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::Serialize;
use store::format::{Unknown, health::TornLog};

use crate::{
    cell::Cell,
    check_job::{CheckJob, CheckResult},
    cookies::{Census, Cookies},
    db_state::{DbState, Deadline},
    inventory::{self, Inventory},
    leveldb,
    profile_dir::ProfileDir,
    sqlite::{self, Depth, Means},
};

/// The databases to check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    All,
    /// Those that a change of these files concerns; their paths are relative to the root.
    Changed(&'a BTreeSet<PathBuf>),
}

/// Where databases are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// In this process, one after the other: for databases that somebody vouches for.
    InProcess,
    /// In a process that has nothing to lose, several at a time.
    Cell(Cell),
}

impl Isolation {
    /// Where the program itself reads databases: all of them are foreign.
    pub fn own_cell() -> Self {
        Self::Cell(Cell::own())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub depth: Depth,
    pub isolation: Isolation,
    /// At least one is used.
    pub threads: usize,
    /// Databases that are not checked by then are `Unchecked`.
    pub deadline: Deadline,
    /// An existing directory for copies of SQLite databases, one for each that is checked at a time.
    pub scratch: PathBuf,
}

impl Options {
    /// How one database is checked.
    pub fn means(&self) -> Means<'_> {
        Means { depth: self.depth, deadline: self.deadline, scratch: &self.scratch }
    }
}

/// The findings, each list by path.
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
            DbState::Damaged(problems) => Some((path, problems.as_slice())),
            _ => None,
        })
    }

    /// The databases about which nothing can be said, and why.
    pub fn unchecked(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.states().filter_map(|(path, state)| match state {
            DbState::Unchecked(reason) => Some((path, reason.as_str())),
            _ => None,
        })
    }

    /// The logs of whole databases that end in the middle of a record, each with the directory of its database.
    pub fn torn(&self) -> impl Iterator<Item = (&Path, &leveldb::TornLog)> {
        let whole = self.leveldb.iter().filter(|checked| checked.state == DbState::Ok);
        whole.flat_map(|checked| checked.notes.torn.iter().map(|log| (checked.path.as_path(), log)))
    }

    /// The same, as a record names them: by paths that are text.
    pub fn torn_logs(&self) -> Vec<TornLog> {
        let named = |(database, log): (&Path, &leveldb::TornLog)| {
            let path = database.join(&log.name).to_str()?.to_owned();
            Some(TornLog { path, whole_bytes: log.whole_bytes, unknown: Unknown::new() })
        };
        self.torn().filter_map(named).collect()
    }

    fn states(&self) -> impl Iterator<Item = (&Path, &DbState)> {
        let sqlite = self.sqlite.iter().map(|checked| (checked.path.as_path(), &checked.state));
        sqlite.chain(self.leveldb.iter().map(|checked| (checked.path.as_path(), &checked.state)))
    }
}

/// Looks at the logs of the LevelDBs below `root`, or of those to which these files belong, and at nothing else.
pub fn examine_logs(
    root: &Path,
    of: Option<&BTreeSet<PathBuf>>,
    options: &Options,
) -> io::Result<Examination> {
    let dir = ProfileDir::open(root)?;
    let databases = inventory::leveldbs(&dir, of)?;
    run(&dir, root, databases.into_iter().map(CheckJob::LevelDbLogs).collect(), options)
}

/// Checks the databases below `root`, none of which is changed or locked. They should be at
/// rest: one that changes meanwhile may be found damaged and is not.
pub fn examine(root: &Path, scope: Scope<'_>, options: &Options) -> io::Result<Examination> {
    let dir = ProfileDir::open(root)?;
    let inventory = match scope {
        Scope::All => Inventory::of_all(&dir)?,
        Scope::Changed(changed) => Inventory::of_changed(&dir, changed)?,
    };
    run(&dir, root, CheckJob::all(&inventory), options)
}

fn run(dir: &ProfileDir, root: &Path, jobs: Vec<CheckJob>, options: &Options) -> io::Result<Examination> {
    let start = Instant::now();
    let found = match &options.isolation {
        Isolation::InProcess => jobs.iter().map(|job| job.check(dir, options.means())).collect(),
        Isolation::Cell(cell) => cell.examine(root, &jobs, options.threads, options.means())?,
    };
    Ok(Examination { elapsed: start.elapsed(), ..Examination::of(found) })
}

impl Examination {
    fn of(found: Vec<CheckResult>) -> Self {
        let mut examination = Self::default();
        let mut databases = Vec::new();
        for found in found {
            match found {
                CheckResult::Sqlite(checked, count) => {
                    databases.extend(count.map(|count| Cookies { path: checked.path.clone(), count }));
                    examination.sqlite.push(checked);
                }
                CheckResult::LevelDb(checked) => examination.leveldb.push(checked),
                // Nobody examines a profile to compare it, to look for something, or to change it.
                CheckResult::Sites(..)
                | CheckResult::Storage(..)
                | CheckResult::Cookies(..)
                | CheckResult::Origins(..)
                | CheckResult::SessionCookies(..) => {}
            }
        }
        examination.sqlite.sort_by(|a, b| a.path.cmp(&b.path));
        examination.leveldb.sort_by(|a, b| a.path.cmp(&b.path));
        databases.sort_by(|a, b| a.path.cmp(&b.path));
        let sqlite_bytes = examination.sqlite.iter().map(|checked| checked.bytes);
        let bytes = sqlite_bytes.chain(examination.leveldb.iter().map(|checked| checked.bytes));
        examination.bytes = bytes.fold(0, u64::saturating_add);
        examination.cookies = (!databases.is_empty()).then_some(Census { databases });
        examination
    }
}

#[cfg(test)]
#[path = "examination_tests.rs"]
mod tests;
