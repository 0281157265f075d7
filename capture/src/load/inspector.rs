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
    unexamined::is_unexamined,
};
use crate::{
    chrome::normalise,
    db_state::{DbState, Deadline},
    examination::{self, Isolation, Options, Scope},
    leveldb,
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
    /// Those that its capture has found: their databases are looked at again. All, if nobody has examined it.
    suspects: Suspects,
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
            suspects: match is_unexamined(record) {
                true => Suspects::All,
                false => Suspects::Of(record.torn_logs()),
            },
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

    /// Returns warnings, and the logs that are torn or could not be read to their end.
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
        let torn = found.torn().map(|(database, log)| database.join(&log.name));
        // Of tables that take too long to read, the logs are short all the same.
        let is_doubtful = |database: &&leveldb::Checked| matches!(database.state, DbState::Unchecked(_));
        let doubtful = found.leveldb.iter().filter(is_doubtful).map(|at| at.path.join(leveldb::CURRENT));
        Ok((unchecked.collect(), torn.chain(doubtful).collect()))
    }
}

impl Inspector for LoadInspector {
    fn inspect(&self, directory: &Path) -> Result<()> {
        let (mut warnings, suspects) = match self.depth {
            Some(depth) => {
                let (warnings, torn) = self.check(directory, depth)?;
                (warnings, Suspects::Of(torn))
            }
            None => (Vec::new(), self.suspects.clone()),
        };
        let cut = torn_logs::mend(directory, &suspects, &self.isolation);
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::leveldb::writer;

    /// Makes the index of a table one whose compression is not known here.
    fn compress_strangely(table: &Path) {
        let mut bytes = fs::read(table).unwrap();
        // Where the two blocks of handles begin and how long they are; that of data comes last.
        let footer_at = bytes.len() - 48;
        let mut footer = bytes[footer_at..].iter();
        let mut number = || {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = usize::from(*footer.next().unwrap());
                value |= (byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        };
        let (_metaindex, begin, length) = ((number(), number()), number(), number());
        let end = begin + length;
        bytes[end] = 9;
        let checksum = crc32c::crc32c(&bytes[begin..=end]).rotate_right(15).wrapping_add(0xa282_ead8);
        bytes[end + 1..][..4].copy_from_slice(&checksum.to_le_bytes());
        fs::write(table, bytes).unwrap();
    }

    #[test]
    fn torn_logs_are_cut_though_nobody_could_examine_their_databases() {
        for depth in [Some(Depth::Full), Some(Depth::Quick), None] {
            let folder = tempfile::tempdir().unwrap();
            let database = folder.path().join("Default/Local Storage/leveldb");
            fs::create_dir_all(&database).unwrap();
            writer::database(&database);
            compress_strangely(&database.join("000004.ldb"));
            let newest = database.join("000008.log");
            let whole = fs::read(&newest).unwrap();
            fs::write(&newest, [whole.as_slice(), &[0x5a, 1, 2, 3, 75, 0, 1]].concat()).unwrap();
            let inspector = LoadInspector {
                depth,
                isolation: Isolation::InProcess,
                threads: 1,
                normalise_exit: false,
                keep_session_cookies: None,
                suspects: Suspects::All,
                upgrade: None,
                found: Mutex::default(),
            };
            inspector.inspect(folder.path()).unwrap();
            assert_eq!(fs::read(&newest).unwrap(), whole, "{depth:?}");
            assert_eq!(inspector.transforms(), [torn_logs::TRANSFORM]);
            assert_eq!(
                inspector.warnings().len(),
                usize::from(depth.is_some()),
                "{:?}",
                inspector.warnings()
            );
        }
    }
}
