//! `ProfileExaminer` judges a profile while it is captured: it has `examination` check the databases, and decides.
//!
//! A snapshot is always stored; the findings decide whether it becomes current by itself. A snapshot with a torn
//! database, or without most of its cookies, must not silently replace a good one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use store::{
    Error, Result,
    catalog::clock,
    format::{
        Unknown,
        health::{Cookies, Expected, Finding, Health, Recovered, TornLog},
        record::{Mode, Record},
    },
    ops::write::snapshot::{Examined, Examiner, HoldBack, TreeFiles},
    scratch::{self, Scratch},
};

use crate::{
    chrome::{held_cookies::HeldCookies, profile, stop::Stopped},
    cookies::{Census, is_of_cookies},
    db_state::Deadline,
    examination::{self, Examination, Isolation, Options, Scope},
    examined_files::needed,
    expect::{self, Awaited, Known},
    sqlite::Depth,
};

/// Checks take no longer: a capture must end, and it lists the unchecked databases.
const MOST_TIME: Duration = Duration::from_secs(120);

/// The word for a snapshot that lacks an expectation.
pub const LOGGED_OUT: &str = "logged out";
/// The word for a snapshot of which nobody can say what is expected of it.
pub const UNJUDGED: &str = "unjudged";

/// How strict a capture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `None`: databases are not checked.
    pub depth: Option<Depth>,
    /// Where databases are read.
    pub isolation: Isolation,
    pub threads: usize,
    /// More than so many per cent of the cookies gone is no accident; `None` for any number.
    pub max_shrink_percent: Option<u64>,
    /// Make a snapshot with a damaged database the current one all the same.
    pub allow_damaged: bool,
    /// Make a snapshot the current one though something is missing that is expected of the profile.
    pub allow_logged_out: bool,
}

/// Knows the meaning of the files of a Chrome profile.
#[derive(Clone, Debug)]
pub struct ProfileExaminer {
    pub policy: Policy,
    /// Whether the browser had ended.
    pub mode: Mode,
    /// How the browser ended; `None` if nobody looked.
    pub stopped: Option<Stopped>,
    /// The expectations.
    pub expected: Awaited,
}

impl Examiner for ProfileExaminer {
    fn examine(
        &self,
        root: &Path,
        changed: Option<&BTreeSet<PathBuf>>,
        base: Option<&Record>,
    ) -> Result<Examined> {
        let before = base.and_then(|base| base.health.as_ref());
        let changed = changed.map(|changed| with_all_cookies(root, changed));
        self.require_cookies(root)?;
        let found = self.look(root, changed.as_ref())?;
        let mut health = self.health(root, &found);
        if let (Some(changed), Some(before)) = (&changed, before) {
            carry_over(&mut health, before, root, changed, &found, self.mode == Mode::Hot);
        }
        if changed.is_some() && !before.is_some_and(Health::is_verdict) {
            // Nobody has looked at what has not changed.
            health.depth = Health::UNEXAMINED.to_owned();
        }
        let expected = self.expected.get()?;
        health.expected = self.missing(root, expected)?;
        let hold_back = self
            .damage(&health, before)
            .or_else(|| self.logged_out(&health, expected))
            .or_else(|| self.shrink(&health, before));
        Ok(Examined { health: Some(health), hold_back })
    }

    fn recalls(&self, twin: &Record) -> Option<HoldBack> {
        if self.policy.depth.is_some() || self.policy.allow_damaged {
            return None;
        }
        let found = twin.health.as_ref()?.damaged.first()?;
        let reason = format!(
            "snapshot {} has the same content, and its database {} was found damaged: {}",
            twin.sha256_prefix(),
            found.path,
            found.problem
        );
        Some(HoldBack { word: "damaged", reason })
    }

    fn reads(&self, tree: &dyn TreeFiles, changed: Option<&BTreeSet<PathBuf>>) -> Result<BTreeSet<PathBuf>> {
        let mut read = match self.policy.depth {
            Some(_) => needed(tree, changed)?,
            None => BTreeSet::new(),
        };
        let local_state = PathBuf::from(profile::LOCAL_STATE);
        if tree.has(&local_state)? {
            read.insert(local_state);
        }
        if let Some(expected) = self.expected.expected() {
            read.extend(expect::wanted(tree, expected)?);
        }
        for path in self.held_cookies().map(HeldCookies::files).into_iter().flatten() {
            if tree.has(&path)? {
                read.insert(path);
            }
        }
        Ok(read)
    }
}

impl ProfileExaminer {
    fn held_cookies(&self) -> Option<&HeldCookies> {
        self.stopped.as_ref().and_then(|stopped| stopped.held_cookies.as_ref())
    }

    /// Ends an examination, as if it were interrupted, if the profile lacks cookies, or changes of them, that the browser
    /// has and that another attempt may find.
    fn require_cookies(&self, root: &Path) -> Result<()> {
        let Some(held) = self.held_cookies() else { return Ok(()) };
        let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
        let options = self.options(Depth::Quick, &scratch);
        let present = held.present();
        let lacking = expect::lacking(root, &held.database, &present.sought, &options);
        let lacking = lacking.map_err(|error| Error::io("cannot look for cookies in", root, error))?;
        if held.note(&present, lacking) { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn look(&self, root: &Path, changed: Option<&BTreeSet<PathBuf>>) -> Result<Examination> {
        let Some(depth) = self.policy.depth else { return Ok(Examination::default()) };
        let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
        let options = self.options(depth, &scratch);
        let scope = changed.map_or(Scope::All, Scope::Changed);
        examination::examine(root, scope, &options).map_err(|error| Error::io("cannot check", root, error))
    }

    fn options(&self, depth: Depth, scratch: &Scratch) -> Options {
        Options {
            depth,
            isolation: self.policy.isolation.clone(),
            threads: self.policy.threads,
            deadline: Deadline::after(MOST_TIME),
            scratch: scratch.path().to_owned(),
        }
    }

    /// The expected things that are missing, however thoroughly databases are checked.
    fn missing(&self, root: &Path, expected: &Known) -> Result<Option<Expected>> {
        let Known::Expected(expected) = expected else { return Ok(None) };
        let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
        let options = self.options(Depth::Quick, &scratch);
        let checked = expect::check(root, expected, clock::unix_ms(), &options);
        checked.map(Some).map_err(|error| Error::io("cannot look for what is expected in", root, error))
    }

    fn health(&self, root: &Path, found: &Examination) -> Health {
        let finding =
            |path: &Path, problem: String| Finding { path: shown(path), problem, unknown: Unknown::new() };
        Health {
            ended: self.stopped.as_ref().map_or("unknown", |stopped| stopped.ended.as_str()).to_owned(),
            stop_ms: self.stopped.as_ref().map_or(0, |stopped| stopped.took.as_millis() as u64),
            depth: match self.policy.depth {
                Some(Depth::Quick) => "quick",
                Some(Depth::Full) => "full",
                None => Health::UNEXAMINED,
            }
            .to_owned(),
            checked: (found.sqlite.len() + found.leveldb.len()) as u64,
            damaged: found.damaged().map(|(path, problems)| finding(path, problems.join("; "))).collect(),
            unchecked: found.unchecked().map(|(path, reason)| finding(path, reason.to_owned())).collect(),
            hot_journals: found.sqlite.iter().filter(|db| db.hot_journal).map(|db| shown(&db.path)).collect(),
            recovered: match self.mode {
                Mode::Hot => recovered(found),
                _ => Vec::new(),
            },
            torn_logs: found.torn_logs(),
            cookies: found
                .cookies
                .as_ref()
                .map(of_profiles)
                .filter(|census| !census.databases.is_empty())
                .map(|census| {
                    let total = census.total();
                    Cookies {
                        rows: total.rows,
                        plain: total.plain,
                        v10: total.v10,
                        v11: total.v11,
                        other: total.other,
                        unknown: Unknown::new(),
                    }
                }),
            expected: None,
            local_state: profile::Facts::read(root).has_local_state,
            unknown: Unknown::new(),
        }
    }

    /// A database that was whole before, or is new, and is damaged now.
    fn damage(&self, health: &Health, before: Option<&Health>) -> Option<HoldBack> {
        let known =
            |path: &str| before.is_some_and(|before| before.damaged.iter().any(|old| old.path == path));
        let new =
            health.damaged.iter().find(|found| !known(&found.path)).filter(|_| !self.policy.allow_damaged)?;
        let reason = format!("the database {} is damaged: {}", new.path, new.problem);
        Some(HoldBack { word: "damaged", reason })
    }

    /// Something is missing of which somebody has said that it must be there.
    fn logged_out(&self, health: &Health, expected: &Known) -> Option<HoldBack> {
        if self.policy.allow_logged_out {
            return None;
        }
        if let Known::Unreadable(why) = expected {
            let reason = format!("what is expected of the profile cannot be read: {why}");
            return Some(HoldBack { word: UNJUDGED, reason });
        }
        let missing = health.expected.as_ref().map(|expected| &expected.missing)?;
        let told =
            missing.iter().map(|missing| format!("{} {}: {}", missing.kind, missing.name, missing.why));
        let told = told.collect::<Vec<_>>().join("; ");
        (!missing.is_empty()).then(|| HoldBack { word: LOGGED_OUT, reason: format!("{LOGGED_OUT}: {told}") })
    }

    /// Most cookies gone: a browser that could not read its keys, or started with an empty profile.
    fn shrink(&self, health: &Health, before: Option<&Health>) -> Option<HoldBack> {
        // Who looks at no database has counted none.
        self.policy.depth?;
        let most = self.policy.max_shrink_percent?;
        let old = before?.cookies.as_ref()?.rows;
        let new = health.cookies.as_ref().map_or(0, |cookies| cookies.rows);
        let lost = old.saturating_sub(new);
        (lost.saturating_mul(100) > old.saturating_mul(most))
            .then(|| HoldBack { word: "shrunk", reason: format!("{lost} of {old} cookies are gone") })
    }
}

/// The cookies of profiles alone: other databases of the same shape are Chrome's own affair.
fn of_profiles(census: &Census) -> Census {
    let databases = census.databases.iter().filter(|db| is_of_cookies(&db.path)).cloned();
    Census { databases: databases.collect() }
}

/// The databases that are recovered when they are opened, as after a power failure, each with its source.
fn recovered(found: &Examination) -> Vec<Recovered> {
    let recovered = |path: &Path, from: &str| Recovered {
        path: shown(path),
        from: from.to_owned(),
        unknown: Unknown::new(),
    };
    let sqlite = found.sqlite.iter().filter_map(|db| match db {
        db if db.hot_journal => Some(recovered(&db.path, Recovered::JOURNAL)),
        db if db.wal => Some(recovered(&db.path, Recovered::WAL)),
        _ => None,
    });
    let leveldb = found.leveldb.iter().filter(|db| db.notes.logs > 0);
    sqlite.chain(leveldb.map(|db| recovered(&db.path, Recovered::LOG))).collect()
}

/// If one database of cookies has changed, all are counted: the number is that of all.
fn with_all_cookies(root: &Path, changed: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut all = changed.clone();
    if changed.iter().any(|path| is_of_cookies(path)) {
        let names: Vec<PathBuf> = std::fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .flat_map(|entry| {
                let profile = PathBuf::from(entry.file_name());
                [profile.join("Cookies"), profile.join("Network/Cookies")]
            })
            .filter(|path| root.join(path).is_file())
            .collect();
        all.extend(names);
    }
    all
}

/// The findings about unchanged databases still hold.
fn carry_over(
    health: &mut Health,
    before: &Health,
    root: &Path,
    changed: &BTreeSet<PathBuf>,
    found: &Examination,
    is_hot: bool,
) {
    let looked_at: BTreeSet<String> = found
        .sqlite
        .iter()
        .map(|db| shown(&db.path))
        .chain(found.leveldb.iter().map(|db| shown(&db.path)))
        .collect();
    let still = |finding: &&Finding| !looked_at.contains(&finding.path) && root.join(&finding.path).exists();
    health.damaged.extend(before.damaged.iter().filter(still).cloned());
    health.unchecked.extend(before.unchecked.iter().filter(still).cloned());
    let hot = |path: &&String| !looked_at.contains(*path) && root.join(path).exists();
    health.hot_journals.extend(before.hot_journals.iter().filter(hot).cloned());
    let unfinished = |recovered: &&Recovered| is_hot && hot(&&recovered.path);
    health.recovered.extend(before.recovered.iter().filter(unfinished).cloned());
    // Such a log may be whole by now: the note only says where a load looks.
    let torn = |log: &&TornLog| {
        let is_as_before = |folder: &Path| !looked_at.contains(&shown(folder));
        Path::new(&log.path).parent().is_some_and(is_as_before) && root.join(&log.path).exists()
    };
    health.torn_logs.extend(before.torn_logs.iter().filter(torn).cloned());
    if !changed.iter().any(|path| is_of_cookies(path)) {
        health.cookies = before.cookies.clone();
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{
        db_state::DbState,
        leveldb::{self, Notes},
    };

    #[test]
    fn nobody_misses_cookies_that_nobody_has_counted() {
        let rows = |rows: u64| {
            let counted =
                Cookies { rows, plain: rows, v10: 0, v11: 0, other: 0, unknown: Default::default() };
            Health { cookies: Some(counted), ..Health::default() }
        };
        let before = rows(10);
        let shrinks = |depth: Option<Depth>, health: &Health| {
            let policy = Policy {
                depth,
                isolation: Isolation::InProcess,
                threads: 1,
                max_shrink_percent: Some(50),
                allow_damaged: false,
                allow_logged_out: false,
            };
            let examiner =
                ProfileExaminer { policy, mode: Mode::Cold, stopped: None, expected: Default::default() };
            examiner.shrink(health, Some(&before)).is_some()
        };
        for depth in [Some(Depth::Quick), Some(Depth::Full)] {
            assert!(shrinks(depth, &rows(4)) && !shrinks(depth, &rows(5)));
            assert!(shrinks(depth, &Health::default()), "the database is gone");
        }
        assert!(!shrinks(None, &Health::default()));
    }

    #[test]
    fn a_note_of_a_torn_log_stays_until_its_database_is_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("db")).unwrap();
        let log = folder.path().join("db/000003.log");
        fs::write(&log, "torn").unwrap();
        let torn = TornLog { path: "db/000003.log".to_owned(), whole_bytes: 2, unknown: Default::default() };
        let before = Health { torn_logs: vec![torn], ..Health::default() };
        let changed = |name: &str| BTreeSet::from([PathBuf::from(name)]);
        let kept = |changed: &BTreeSet<PathBuf>, found: &Examination| {
            let mut health = Health::default();
            carry_over(&mut health, &before, folder.path(), changed, found, false);
            health.torn_logs.len()
        };
        // A browser that only opened the database has begun another `LOG`, in which nothing is stored.
        assert_eq!(kept(&changed("db/LOG"), &Examination::default()), 1);
        let checked =
            leveldb::Checked { path: "db".into(), state: DbState::Ok, notes: Notes::default(), bytes: 0 };
        let looked_at = Examination { leveldb: vec![checked], ..Examination::default() };
        assert_eq!(kept(&changed("db/000003.log"), &looked_at), 0);
        fs::remove_file(&log).unwrap();
        assert_eq!(kept(&changed("db/LOG"), &Examination::default()), 0);
    }
}
