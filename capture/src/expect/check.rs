//! `check` looks for the expectations in a directory that holds still.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use store::format::{
    Unknown,
    expectations::Expectations,
    health::{Expected, Lapse, Missing},
};

use super::search::{SoughtCookie, SoughtCookies, SoughtOrigins};
use crate::{
    change::{names, storage},
    check_job::{CheckJob, CheckResult},
    examination::{Isolation, Options},
    profile_dir::{EntryKind, ProfileDir},
};

/// The parts of `expected` that are missing below `root`, and the times when the cookies that are there
/// lapse. One that has lapsed by `now_ms` is missing.
pub(crate) fn check(
    root: &Path,
    expected: &Expectations,
    now_ms: u64,
    options: &Options,
) -> io::Result<Expected> {
    let dir = ProfileDir::open(root)?;
    let profiles = profiles(&dir)?;
    let jobs = jobs(&dir, &profiles, expected, now_ms);
    let found = run(root, &jobs, options)?;
    let mut verdict = Verdict::default();
    verdict.cookies(expected, &found);
    verdict.origins(expected, &found, &with_databases(&dir, &profiles)?);
    for path in &expected.files {
        let is_there = dir.file(Path::new(path))?.is_some() || dir.entries(Path::new(path))?.is_some();
        verdict.unless(is_there, "file", path, || "it is not there".to_owned());
    }
    Ok(Expected { revision: expected.revision, ..verdict.0 })
}

/// So many cookies are looked for at a time: what a cell says of them must be short.
const AT_A_TIME: usize = 500;

/// The hosts and names of the cookies that a database lacks; `None` if it cannot be read, which others tell.
pub(crate) fn lacking(
    root: &Path,
    database: &Path,
    names: &BTreeSet<(String, String)>,
    options: &Options,
) -> io::Result<Option<BTreeSet<(String, String)>>> {
    let names: Vec<(String, String)> = names.iter().cloned().collect();
    // One that has lapsed was written as well.
    let job = |names: &[(String, String)]| CheckJob::Cookies(database.to_owned(), 0, names.to_vec());
    let jobs: Vec<CheckJob> = names.chunks(AT_A_TIME).map(job).collect();
    let found = run(root, &jobs, options)?;
    let mut lacking = BTreeSet::new();
    for (names, found) in names.chunks(AT_A_TIME).zip(found) {
        let CheckResult::Cookies(_, SoughtCookies { cookies, problem: None }) = found else {
            return Ok(None);
        };
        let gone = names.iter().zip(cookies).filter(|(_, cookie)| !cookie.is_there);
        lacking.extend(gone.map(|(name, _)| name.clone()));
    }
    Ok(Some(lacking))
}

fn run(root: &Path, jobs: &[CheckJob], options: &Options) -> io::Result<Vec<CheckResult>> {
    match &options.isolation {
        _ if jobs.is_empty() => Ok(Vec::new()),
        Isolation::InProcess => {
            let dir = ProfileDir::open(root)?;
            Ok(jobs.iter().map(|job| job.check(&dir, options.means())).collect())
        }
        Isolation::Cell(cell) => cell.examine(root, jobs, options.threads, options.means()),
    }
}

/// The directories in which profiles may be.
fn profiles(dir: &ProfileDir) -> io::Result<Vec<PathBuf>> {
    let entries = dir.entries(Path::new(""))?.unwrap_or_default();
    let directories = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
    Ok(directories.map(|entry| PathBuf::from(entry.name)).collect())
}

fn jobs(dir: &ProfileDir, profiles: &[PathBuf], expected: &Expectations, now_ms: u64) -> Vec<CheckJob> {
    let mut jobs = Vec::new();
    let names: Vec<(String, String)> =
        expected.cookies.iter().map(|cookie| (cookie.host.clone(), cookie.name.clone())).collect();
    for profile in profiles {
        for database in ["Cookies", "Network/Cookies"].map(|name| profile.join(name)) {
            if !names.is_empty() && matches!(dir.file(&database), Ok(Some(_))) {
                jobs.push(CheckJob::Cookies(database, now_ms, names.clone()));
            }
        }
        let directory = profile.join(storage::DIRECTORY);
        if !expected.origins.is_empty() && matches!(dir.entries(&directory), Ok(Some(_))) {
            jobs.push(CheckJob::Origins(directory, expected.origins.clone()));
        }
    }
    jobs
}

/// The origins that have an IndexedDB.
fn with_databases(dir: &ProfileDir, profiles: &[PathBuf]) -> io::Result<Vec<String>> {
    let mut origins = Vec::new();
    for folder in profiles.iter().map(|profile| profile.join("IndexedDB")) {
        let entries = dir.entries(&folder)?.unwrap_or_default();
        let directories = entries.into_iter().filter(|entry| entry.kind == EntryKind::Directory);
        let named = directories.map(|entry| folder.join(entry.name));
        origins.extend(named.filter_map(|path| names::origin(path.as_os_str().as_bytes())));
    }
    Ok(origins)
}

#[derive(Default)]
struct Verdict(Expected);

impl Verdict {
    fn unless(&mut self, is_there: bool, kind: &str, name: &str, why: impl FnOnce() -> String) {
        if !is_there {
            let (kind, name) = (kind.to_owned(), name.to_owned());
            self.0.missing.push(Missing { kind, name, why: why(), unknown: Unknown::new() });
        }
    }

    fn cookies(&mut self, expected: &Expectations, found: &[CheckResult]) {
        let databases: Vec<(&PathBuf, &SoughtCookies)> = found
            .iter()
            .filter_map(|found| match found {
                CheckResult::Cookies(path, cookies) => Some((path, cookies)),
                _ => None,
            })
            .collect();
        let problem = databases.iter().find_map(|(path, found)| problem(path, found.problem.as_ref()));
        for (at, cookie) in expected.cookies.iter().enumerate() {
            let told: Vec<SoughtCookie> =
                databases.iter().filter_map(|(_, found)| found.cookies.get(at).copied()).collect();
            let there: Vec<SoughtCookie> = told.iter().copied().filter(|told| told.is_there).collect();
            if there.is_empty() {
                let has_lapsed = told.iter().any(|told| told.has_lapsed);
                let why = || if has_lapsed { "it has lapsed".to_owned() } else { absent(problem.as_ref()) };
                self.unless(false, "cookie", &cookie.to_string(), why);
                continue;
            }
            let dated: Option<Vec<u64>> = there.iter().map(|told| told.lapses_at_ms).collect();
            self.0.cookies.push(Lapse {
                host: cookie.host.clone(),
                name: cookie.name.clone(),
                lapses_at_ms: dated.and_then(|dated| dated.into_iter().max()),
                unknown: Unknown::new(),
            });
        }
    }

    fn origins(&mut self, expected: &Expectations, found: &[CheckResult], with_databases: &[String]) {
        let mut present: BTreeMap<usize, bool> = BTreeMap::new();
        let mut unread = None;
        for found in found {
            let CheckResult::Origins(path, SoughtOrigins { are_there, problem: why }) = found else {
                continue;
            };
            unread = unread.or_else(|| problem(path, why.as_ref()));
            are_there.iter().enumerate().for_each(|(at, there)| *present.entry(at).or_default() |= there);
        }
        for (at, origin) in expected.origins.iter().enumerate() {
            let is_there = present.get(&at).copied().unwrap_or_default() || with_databases.contains(origin);
            self.unless(is_there, "origin", origin, || match &unread {
                Some(unread) => absent(Some(unread)),
                None => "it keeps nothing".to_owned(),
            });
        }
    }
}

fn problem(path: &Path, why: Option<&String>) -> Option<String> {
    why.map(|why| format!("{} cannot be read: {why}", path.display()))
}

fn absent(problem: Option<&String>) -> String {
    problem.cloned().unwrap_or_else(|| "it is not there".to_owned())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;
    use crate::{db_state::Deadline, sqlite::Depth};

    #[test]
    fn a_cookie_that_is_not_in_the_database_is_lacking_whatever_else_is() {
        let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let connection = Connection::open(root.path().join("Cookies")).unwrap();
        let table = "CREATE TABLE cookies (host_key TEXT, name TEXT, value TEXT, expires_utc INTEGER)";
        connection.execute_batch(table).unwrap();
        // One that has lapsed, in 2012, is there.
        for (name, expires) in [("sid", 0_i64), ("lapsed", 13_000_000_000_000_000)] {
            let values = rusqlite::params!["a.test", name, "secret", expires];
            connection.execute("INSERT INTO cookies VALUES (?1, ?2, ?3, ?4)", values).unwrap();
        }
        drop(connection);
        let of = |name: &str| ("a.test".to_owned(), name.to_owned());
        // More than are looked for at a time.
        let gone: BTreeSet<_> = (0..AT_A_TIME + 1).map(|number| of(&format!("gone-{number}"))).collect();
        let names: BTreeSet<_> = gone.iter().cloned().chain([of("sid"), of("lapsed")]).collect();
        let options = Options {
            depth: Depth::Quick,
            isolation: Isolation::InProcess,
            threads: 1,
            deadline: Deadline::NEVER,
            scratch: scratch.path().to_owned(),
        };
        let lacking = |database: &str, names: &BTreeSet<_>| {
            lacking(root.path(), Path::new(database), names, &options).unwrap()
        };
        assert_eq!(lacking("Cookies", &names), Some(gone.clone()));
        // Nobody knows what is in one that cannot be read: its own check says so.
        std::fs::write(root.path().join("Damaged"), "no database at all").unwrap();
        assert_eq!(lacking("Damaged", &gone), None);
        assert_eq!(lacking("None", &gone), None);
    }
}
