//! `check` follows CURRENT to the MANIFEST and the MANIFEST to all files that are live.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io::{self, Read},
    path::Path,
};

use super::{
    Checked, Notes, TornLog,
    log::{self, End},
    names::FileName,
    table::{self, TableError},
    version::{EditError, Version},
};
use crate::{
    db_state::{DbState, Deadline, MAX_PROBLEMS},
    profile_dir::{DirEntry, ProfileDir},
};

/// `MANIFEST-` and a number take 30 bytes at most.
const MAX_CURRENT_BYTES: u64 = 64;

/// A MANIFEST is begun anew when a database is opened; a few kilobytes is usual.
const MAX_MANIFEST_BYTES: u64 = 64 << 20;

/// A batch of changes begins with a sequence number and a count.
const BATCH_HEADER_BYTES: u64 = 12;

/// Checks the LevelDB in the directory at `path`.
pub fn check(dir: &ProfileDir, path: &Path, deadline: Deadline) -> Checked {
    checked(dir, path, deadline, true)
}

/// As [`check`], without the tables: reads little, however large the database is.
pub fn check_logs(dir: &ProfileDir, path: &Path, deadline: Deadline) -> Checked {
    checked(dir, path, deadline, false)
}

fn checked(dir: &ProfileDir, path: &Path, deadline: Deadline, with_tables: bool) -> Checked {
    let mut check = Check::new(dir, path, deadline);
    let state = match check.run(with_tables) {
        Ok(Some(state)) => state,
        Ok(None) => check.verdict(),
        Err(error) => {
            check.doubt = Some(DbState::unchecked(format!("it cannot be read: {error}")));
            check.verdict()
        }
    };
    Checked { path: path.to_owned(), state, notes: check.notes, bytes: check.bytes }
}

/// The files of the database at `path`, and which of them are live; a state if there is nothing to
/// read: a whole one of a database that was never finished.
pub(super) fn made_of(
    dir: &ProfileDir,
    path: &Path,
    deadline: Deadline,
) -> io::Result<Result<(Files, Version), DbState>> {
    Check::new(dir, path, deadline).made_of()
}

struct Check<'a> {
    dir: &'a ProfileDir,
    path: &'a Path,
    deadline: Deadline,
    notes: Notes,
    bytes: u64,
    problems: Vec<String>,
    /// Why a whole verdict is not possible.
    doubt: Option<DbState>,
}

/// The files of the directory that matter, with their sizes and names.
#[derive(Default)]
pub(super) struct Files {
    current: bool,
    pub(super) logs: BTreeMap<u64, OsString>,
    pub(super) tables: BTreeMap<u64, (u64, OsString)>,
}

impl Files {
    fn of(entries: Vec<DirEntry>) -> Self {
        let mut files = Self::default();
        for found in entries {
            let Some(bytes) = found.file_bytes() else { continue };
            match FileName::parse(&found.name) {
                Some(FileName::Current) => files.current = true,
                Some(FileName::Log(number)) => drop(files.logs.insert(number, found.name)),
                // LevelDB looks for the newer name first, which sorts first.
                Some(FileName::Table(number)) => {
                    files.tables.entry(number).or_insert((bytes, found.name));
                }
                _ => {}
            }
        }
        files
    }
}

impl<'a> Check<'a> {
    fn new(dir: &'a ProfileDir, path: &'a Path, deadline: Deadline) -> Self {
        Self { dir, path, deadline, notes: Notes::default(), bytes: 0, problems: Vec::new(), doubt: None }
    }

    /// A state if there is nothing more to look at.
    fn run(&mut self, with_tables: bool) -> io::Result<Option<DbState>> {
        let (files, version) = match self.made_of()? {
            Ok(made_of) => made_of,
            Err(state) => return Ok(Some(state)),
        };
        self.logs(&files, &version)?;
        if with_tables {
            self.tables(&files, &version)?;
        }
        Ok(None)
    }

    fn made_of(&mut self) -> io::Result<Result<(Files, Version), DbState>> {
        let Some(entries) = self.dir.entries(self.path)? else {
            return Ok(Err(DbState::unchecked("the directory is gone")));
        };
        let files = Files::of(entries);
        if !files.current {
            // Its maker died before it was finished: LevelDB makes it again. With
            // data, it would do the same, and lose them.
            let unfinished = files.logs.is_empty() && files.tables.is_empty();
            return Ok(Err(if unfinished { DbState::Ok } else { DbState::damaged("CURRENT is missing") }));
        }
        Ok(self.version()?.map(|version| (files, version)))
    }

    fn verdict(&mut self) -> DbState {
        match DbState::of_problems(std::mem::take(&mut self.problems)) {
            DbState::Ok => self.doubt.take().unwrap_or(DbState::Ok),
            damaged => damaged,
        }
    }

    fn version(&mut self) -> io::Result<Result<Version, DbState>> {
        let current = self.dir.file(&self.path.join("CURRENT"))?;
        let Some(current) = current else { return Ok(Err(DbState::damaged("CURRENT is missing"))) };
        let mut text = Vec::new();
        current.take(MAX_CURRENT_BYTES + 1).read_to_end(&mut text)?;
        let name = std::str::from_utf8(&text).ok().and_then(|text| text.strip_suffix('\n'));
        let name = name.filter(|name| matches!(FileName::parse(name.as_ref()), Some(FileName::Manifest(_))));
        let Some(name) = name else { return Ok(Err(DbState::damaged("CURRENT names no MANIFEST"))) };
        match self.dir.file(&self.path.join(name))? {
            Some(file) => self.manifest(name, file),
            None => Ok(Err(DbState::damaged(format!("{name}, which CURRENT names, is missing")))),
        }
    }

    fn manifest(&mut self, name: &str, file: std::fs::File) -> io::Result<Result<Version, DbState>> {
        let bytes = file.metadata()?.len();
        if bytes > MAX_MANIFEST_BYTES {
            return Ok(Err(DbState::unchecked(format!("{name} is too large"))));
        }
        self.bytes += bytes;
        let mut version = Version::default();
        let mut failed = None;
        // Of what is appended meanwhile nothing is read.
        let end = log::read(file.take(bytes), bytes as usize, self.deadline, |record| {
            if failed.is_none() {
                failed = version.apply(record.prefix).err();
            }
        })?;
        self.notes.comparator.clone_from(&version.comparator);
        Ok(Err(match (failed, end, version.missing_field()) {
            (Some(EditError::Malformed), ..) => {
                DbState::damaged(format!("{name} contains what is no edit of a version"))
            }
            (Some(EditError::UnknownTag(tag)), ..) => {
                DbState::unchecked(format!("{name} contains edits of an unknown kind, {tag}"))
            }
            (None, End::OutOfTime, _) => DbState::out_of_time(),
            (None, End::Damaged { offset, what }, _) => {
                DbState::damaged(format!("{name}: {what} at {offset}"))
            }
            (None, _, Some(field)) => DbState::damaged(format!("{name} does not say {field}")),
            (None, end, None) => {
                if let End::Torn { bytes: torn } = end {
                    let name = name.to_owned();
                    self.notes.torn.push(TornLog { name, whole_bytes: bytes - torn, bytes });
                }
                return Ok(Ok(version));
            }
        }))
    }

    fn logs(&mut self, files: &Files, version: &Version) -> io::Result<()> {
        for number in [version.log_number.unwrap_or(0), version.previous_log_number] {
            // A database that was just made has none.
            if number != 0 && !files.logs.contains_key(&number) {
                self.problem(format!("{number:06}.log, which the MANIFEST names, is missing"));
            }
        }
        let newest = files.logs.keys().next_back();
        for (number, name) in files.logs.iter().filter(|(number, _)| version.needs_log(**number)) {
            let Some(file) = self.dir.file(&self.path.join(name))? else { continue };
            let bytes = file.metadata()?.len();
            self.bytes += bytes;
            self.notes.logs += 1;
            let name = name.to_string_lossy();
            let mut short = false;
            let end = log::read(file.take(bytes), 0, self.deadline, |record| {
                short |= record.bytes < BATCH_HEADER_BYTES;
            })?;
            match end {
                End::OutOfTime => self.doubt = Some(DbState::out_of_time()),
                End::Damaged { offset, what } => self.problem(format!("{name}: {what} at {offset}")),
                End::Torn { bytes: torn } if Some(number) == newest => {
                    let (name, whole_bytes) = (name.to_string(), bytes - torn);
                    self.notes.torn.push(TornLog { name, whole_bytes, bytes });
                }
                End::Torn { bytes } => self.problem(format!("{name}: the last {bytes} bytes are torn")),
                End::Whole => {}
            }
            if short {
                self.problem(format!("{name}: a record is too short to be a batch"));
            }
        }
        Ok(())
    }

    fn tables(&mut self, files: &Files, version: &Version) -> io::Result<()> {
        for (number, expected) in version.tables() {
            if self.deadline.passed() || self.problems.len() >= MAX_PROBLEMS {
                self.doubt = Some(DbState::out_of_time());
                break;
            }
            let Some((_, name)) = files.tables.get(&number) else {
                self.problem(format!("{number:06}.ldb, which the MANIFEST names, is missing"));
                continue;
            };
            let Some(file) = self.dir.file(&self.path.join(name))? else { continue };
            let bytes = file.metadata()?.len();
            let name = name.display();
            if bytes != expected {
                self.problem(format!("{name} is {bytes} bytes instead of {expected}"));
                continue;
            }
            self.bytes += bytes;
            self.notes.tables += 1;
            match table::check(&file, bytes, self.deadline)? {
                Ok(()) => {}
                Err(TableError::Damaged(what)) => self.problem(format!("{name}: {what}")),
                Err(TableError::Unknown(what)) => {
                    self.doubt = Some(DbState::unchecked(format!("{name}: {what}")))
                }
                Err(TableError::OutOfTime) => self.doubt = Some(DbState::out_of_time()),
            }
        }
        Ok(())
    }

    fn problem(&mut self, problem: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
