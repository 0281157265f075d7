//! `LoadInspector` examines a written profile before any program can use it.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;

use store::{
    Error, Result,
    format::record::Record,
    ops::read::restore::Inspector,
    scratch::{self, Scratch},
};

use super::{
    LoadRequest, leftovers,
    torn_logs::{self, Suspects},
};
use crate::{
    chrome::normalise,
    db_state::Deadline,
    examination::{self, Isolation, Options, Scope},
    marker::Marker,
    session_cookies::{self, KeptCookies},
    sqlite::Depth,
};

const MOST_TIME: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(super) struct LoadInspector {
    depth: Option<Depth>,
    isolation: Isolation,
    threads: usize,
    normalise_exit: bool,
    /// The present time, if session cookies are to be kept.
    keep_session_cookies: Option<u64>,
    /// Those that its capture has found: their databases are looked at again.
    torn_logs: BTreeSet<PathBuf>,
    /// How the snapshot came to be loaded for this Chrome, if it is an older one's.
    upgrade: Option<String>,
    found: Mutex<LoadFindings>,
}

#[derive(Debug, Default)]
struct LoadFindings {
    warnings: Vec<String>,
    transforms: Vec<String>,
}

impl LoadInspector {
    pub fn new(request: &LoadRequest, record: &Record, upgrade: Option<String>) -> Self {
        Self {
            depth: request.policy.depth,
            isolation: request.policy.isolation.clone(),
            threads: request.threads,
            normalise_exit: request.normalise_exit,
            keep_session_cookies: request.keep_session_cookies.then_some(request.now_ms),
            torn_logs: record.torn_logs(),
            upgrade,
            found: Mutex::default(),
        }
    }

    pub fn warnings(&self) -> Vec<String> {
        self.found.lock().warnings.clone()
    }

    pub fn transforms(&self) -> Vec<String> {
        self.found.lock().transforms.clone()
    }

    /// Returns warnings, and the logs that are torn.
    fn check(&self, directory: &Path, depth: Depth) -> Result<(Vec<String>, BTreeSet<PathBuf>)> {
        let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
        let options = Options {
            depth,
            isolation: self.isolation.clone(),
            threads: self.threads,
            deadline: Deadline::after(MOST_TIME),
            scratch: scratch.path().to_owned(),
        };
        let found = examination::examine(directory, Scope::All, &options)
            .map_err(|error| Error::io("cannot check", directory, error))?;
        if let Some((path, problems)) = found.damaged().next() {
            return Err(Error::IntegrityFailed {
                what: format!("the database {}", path.display()),
                problem: problems.join("; "),
            });
        }
        let unchecked =
            found.unchecked().map(|(path, reason)| format!("{} was not checked: {reason}", path.display()));
        let torn = found.torn_logs().into_iter().map(|log| PathBuf::from(log.path));
        Ok((unchecked.collect(), torn.collect()))
    }
}

impl Inspector for LoadInspector {
    fn inspect(&self, directory: &Path) -> Result<()> {
        let (mut warnings, torn) = match self.depth {
            Some(depth) => self.check(directory, depth)?,
            None => (Vec::new(), self.torn_logs.clone()),
        };
        let cut = torn_logs::mend(directory, &Suspects::Of(torn), &self.isolation);
        warnings.extend(cut.warnings);
        warnings.extend(leftovers::remove(directory)?);
        let mut transforms: Vec<String> = self.upgrade.iter().cloned().collect();
        if cut.was_cut {
            transforms.push(torn_logs::TRANSFORM.to_owned());
        }
        if self.normalise_exit {
            let changed = normalise::normalise_exit(directory)
                .map_err(|error| Error::io("cannot normalise", directory, error))?;
            if !changed.is_empty() {
                transforms.push(normalise::TRANSFORM.to_owned());
            }
        }
        if let Some(now_ms) = self.keep_session_cookies {
            let kept = keep_session_cookies(directory, now_ms, &self.isolation);
            warnings.extend(kept.warnings);
            if !kept.changed.is_empty() {
                transforms.push(session_cookies::TRANSFORM.to_owned());
            }
        }
        if !transforms.is_empty() {
            let marker = Marker { fallback: None, transforms: transforms.clone() };
            marker.write(directory).map_err(|error| Error::io("cannot mark", directory, error))?;
        }
        *self.found.lock() = LoadFindings { warnings, transforms };
        Ok(())
    }
}

/// Makes session cookies outlive the browser's next start.
pub fn keep_session_cookies(directory: &Path, now_ms: u64, isolation: &Isolation) -> KeptCookies {
    match Scratch::make(&std::env::temp_dir(), scratch::Kind::Check) {
        Ok(scratch) => session_cookies::keep(directory, now_ms, isolation, scratch.path()),
        Err(error) => {
            let warnings = vec![format!("session cookies are not kept: {error}")];
            KeptCookies { changed: Vec::new(), warnings }
        }
    }
}

/// Marks a fresh directory with the reason for it.
#[derive(Debug)]
pub(super) struct Marking(pub Marker);

impl Inspector for Marking {
    fn inspect(&self, directory: &Path) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.write(directory).map_err(|error| Error::io("cannot mark", directory, error))
    }
}
