//! `torn_logs` cuts torn records off the logs of LevelDBs before a browser opens them.
//!
//! A writer that dies may leave the beginning of a record at the end of a log. LevelDB drops that record when it opens
//! the database, and then appends behind it. Its next start finds a record whose checksum is wrong, and Chrome throws
//! the whole database away. Without the torn record nothing is lost that LevelDB would have read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::{Mode, OFlags};
use store::{
    Error,
    scratch::{self, Scratch},
    tree::root_dir::RootDir,
};

use crate::{
    db_state::Deadline,
    examination::{self, Examination, Isolation, Options},
    leveldb,
    sqlite::Depth,
};

/// The name of this change in a record.
pub const TRANSFORM: &str = "cut-torn-logs";

/// For all logs of a profile together.
const MOST_TIME: Duration = Duration::from_secs(60);

/// A log that ends in the middle of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TornLog {
    path: PathBuf,
    /// Its length without that record, and with it.
    whole_bytes: u64,
    bytes: u64,
}

/// Where torn logs may be.
#[derive(Clone, Debug)]
pub enum Suspects {
    /// In the databases to which these files belong.
    Of(BTreeSet<PathBuf>),
    /// In any database.
    All,
}

/// What became of the torn logs of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CutLogs {
    /// Whether any log was torn, and is whole now.
    pub was_cut: bool,
    /// Why others are as they were.
    pub warnings: Vec<String>,
}

/// Reads the logs of the suspects below `directory`, on which nothing runs yet, and cuts what is torn off them. What cannot be
/// read or cut is left as it is, with a warning.
pub fn mend(directory: &Path, suspects: &Suspects, isolation: &Isolation) -> CutLogs {
    mend_until(Deadline::after(MOST_TIME), directory, suspects, isolation)
}

fn mend_until(deadline: Deadline, directory: &Path, suspects: &Suspects, isolation: &Isolation) -> CutLogs {
    let mut done = CutLogs::default();
    let mut databases: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for log in find(directory, suspects, (isolation, deadline), &mut done.warnings) {
        if let Some(database) = log.path.parent() {
            databases.entry(database.to_owned()).or_default().insert(log.path);
        }
    }
    let mut left = databases.len();
    for logs in databases.into_values() {
        if deadline.passed() {
            let warning = format!("torn logs of {left} databases stay: the time to cut them ran out");
            done.warnings.push(warning);
            break;
        }
        // What has taken a process over that reads one database may lie about the others: each is asked about alone.
        let torn = find(directory, &Suspects::Of(logs), (isolation, deadline), &mut done.warnings);
        cut(directory, &torn, &mut done);
        left -= 1;
    }
    done
}

/// Cuts what is torn off these logs below `directory`. No path leads outside of the directory, and no file is longer
/// afterwards.
fn cut(directory: &Path, torn: &[TornLog], done: &mut CutLogs) {
    for log in torn {
        match cut_one(directory, log) {
            Ok(was_cut) => done.was_cut |= was_cut,
            Err(error) => {
                let path = log.path.display();
                done.warnings.push(format!("{path} ends in a torn record, which stays: {error}"));
            }
        }
    }
}

/// Cuts a log that is as long as it was when it was read: what somebody has appended since may not go.
fn cut_one(directory: &Path, log: &TornLog) -> store::Result<bool> {
    let path = log.path.as_path();
    if !path.file_name().is_some_and(leveldb::is_log_name) {
        return Ok(false);
    }
    let failed = |error| Error::io("cannot cut", path, error);
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = RootDir::open(directory)?.open_at(path.as_os_str().as_bytes(), flags, Mode::empty());
    let file = File::from(opened.map_err(failed)?);
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() || found.len() != log.bytes || log.bytes <= log.whole_bytes {
        return Ok(false);
    }
    file.set_len(log.whole_bytes).map_err(failed)?;
    Ok(true)
}

/// The torn logs of the suspects. It reads logs alone.
fn find(
    directory: &Path,
    suspects: &Suspects,
    means: (&Isolation, Deadline),
    warnings: &mut Vec<String>,
) -> Vec<TornLog> {
    match examine(directory, suspects, means) {
        Ok(found) => {
            let unread =
                |(path, why): (&Path, &str)| format!("the logs of {} were not read: {why}", path.display());
            warnings.extend(found.unchecked().map(unread));
            warnings.extend(found.damaged().map(|(path, why)| unread((path, &why.join("; ")))));
            let torn = |(database, log): (&Path, &leveldb::TornLog)| TornLog {
                path: database.join(&log.name),
                whole_bytes: log.whole_bytes,
                bytes: log.bytes,
            };
            found.torn().map(torn).collect()
        }
        Err(error) => {
            warnings.push(format!("the logs of databases were not read: {error}"));
            Vec::new()
        }
    }
}

fn examine(
    directory: &Path,
    suspects: &Suspects,
    (isolation, deadline): (&Isolation, Deadline),
) -> store::Result<Examination> {
    let is_of_one = |path: &&PathBuf| path.file_name().is_some_and(leveldb::is_file_name);
    let of: Option<BTreeSet<PathBuf>> = match suspects {
        Suspects::Of(files) => Some(files.iter().filter(is_of_one).cloned().collect()),
        Suspects::All => None,
    };
    if of.as_ref().is_some_and(BTreeSet::is_empty) {
        return Ok(Examination::default());
    }
    let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
    let options = Options {
        depth: Depth::Quick,
        isolation: isolation.clone(),
        threads: 1,
        deadline,
        scratch: scratch.path().to_owned(),
    };
    examination::examine_logs(directory, of.as_ref(), &options)
        .map_err(|error| Error::io("cannot check", directory, error))
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;
    use crate::leveldb::writer;

    fn log(path: &str, whole_bytes: u64, bytes: u64) -> TornLog {
        TornLog { path: path.into(), whole_bytes, bytes }
    }

    #[test]
    fn a_torn_log_is_found_and_cut() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("Default/Local Storage/leveldb");
        fs::create_dir_all(&database).unwrap();
        writer::database(&database);
        let newest = database.join("000008.log");
        let whole = fs::read(&newest).unwrap();
        fs::write(&newest, [whole.as_slice(), &[0x5a, 1, 2, 3, 75, 0, 1]].concat()).unwrap();

        let path = "Default/Local Storage/leveldb/000008.log";
        let find = |suspects: &Suspects| {
            let mut warnings = Vec::new();
            let means = (&Isolation::InProcess, Deadline::NEVER);
            let found = find(folder.path(), suspects, means, &mut warnings);
            assert_eq!(warnings, [""; 0]);
            found
        };
        let of = |file: &str| {
            Suspects::Of(BTreeSet::from([PathBuf::from(file), PathBuf::from("Default/Cookies")]))
        };
        assert_eq!(find(&of("Default/Session Storage/000003.log")), []);
        for suspects in [Suspects::All, of("Default/Local Storage/leveldb/MANIFEST-000002")] {
            assert_eq!(find(&suspects), [log(path, whole.len() as u64, whole.len() as u64 + 7)]);
        }
        let mend = || mend(folder.path(), &of(path), &Isolation::InProcess);
        assert_eq!(mend(), CutLogs { was_cut: true, warnings: Vec::new() });
        assert_eq!(fs::read(&newest).unwrap(), whole);
        assert_eq!(mend(), CutLogs::default(), "it was cut twice");
    }

    #[test]
    fn a_log_that_cannot_be_read_stays_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        writer::database(folder.path());
        let newest = folder.path().join("000008.log");
        let mut damaged = fs::read(&newest).unwrap();
        damaged[0] ^= 1;
        fs::write(&newest, &damaged).unwrap();
        let done = mend(folder.path(), &Suspects::All, &Isolation::InProcess);
        assert!(!done.was_cut && done.warnings.len() == 1, "{done:?}");
        assert_eq!(fs::read(&newest).unwrap(), damaged);
    }

    #[test]
    fn a_log_that_has_grown_since_it_was_read_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("000003.log");
        fs::write(&path, "whole, torn, and more").unwrap();
        let mut done = CutLogs::default();
        cut(folder.path(), &[log("000003.log", 5, 11)], &mut done);
        assert_eq!(done, CutLogs::default());
        assert_eq!(fs::read(&path).unwrap(), b"whole, torn, and more");
        cut(folder.path(), &[log("000003.log", 5, 21)], &mut done);
        assert!(done.was_cut);
        assert_eq!(fs::read(&path).unwrap(), b"whole");
    }

    #[test]
    fn what_there_is_no_time_for_stays_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        writer::database(folder.path());
        let newest = folder.path().join("000008.log");
        let torn = [fs::read(&newest).unwrap().as_slice(), &[0x5a, 1, 2, 3, 75, 0, 1]].concat();
        fs::write(&newest, &torn).unwrap();
        let over = Deadline::after(Duration::ZERO);
        let done = mend_until(over, folder.path(), &Suspects::All, &Isolation::InProcess);
        assert!(!done.was_cut && done.warnings.len() == 1, "{done:?}");
        assert_eq!(fs::read(&newest).unwrap(), torn);
    }

    #[test]
    fn nothing_but_logs_of_the_profile_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        fs::create_dir(&inside).unwrap();
        fs::write(folder.path().join("000003.log"), "somebody else's").unwrap();
        for name in ["Cookies", "CURRENT", "000007.ldb"] {
            fs::write(inside.join(name), "cookies").unwrap();
        }
        fs::write(inside.join("000005.log"), "short").unwrap();
        symlink("../000003.log", inside.join("000003.log")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        let outside = "somebody else's".len() as u64;
        for (path, whole_bytes, bytes) in [
            ("Cookies", 0, 7),
            ("000003.log", 0, outside),
            ("../000003.log", 0, outside),
            ("up/000003.log", 0, outside),
            ("missing/000003.log", 0, outside),
            ("000005.log", 5, 5),
            ("000005.log", 500, 5),
            ("CURRENT", 0, 7),
            ("000007.ldb", 0, 7),
        ] {
            let mut done = CutLogs::default();
            cut(&inside, &[log(path, whole_bytes, bytes)], &mut done);
            assert!(!done.was_cut, "{path}");
        }
        assert_eq!(fs::read(folder.path().join("000003.log")).unwrap(), b"somebody else's");
        for name in ["Cookies", "CURRENT", "000007.ldb"] {
            assert_eq!(fs::read(inside.join(name)).unwrap(), b"cookies");
        }
        assert_eq!(fs::read(inside.join("000005.log")).unwrap(), b"short");
    }
}
