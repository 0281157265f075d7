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
    format::health::TornLog,
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

const MOST_TIME: Duration = Duration::from_secs(30);

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
    let mut done = CutLogs::default();
    let mut databases: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for log in find(directory, suspects, isolation, &mut done.warnings) {
        let path = PathBuf::from(log.path);
        if let Some(database) = path.parent() {
            databases.entry(database.to_owned()).or_default().insert(path);
        }
    }
    for logs in databases.into_values() {
        // What has taken a process over that reads one database may lie about the others: each is asked about alone.
        let torn = find(directory, &Suspects::Of(logs), isolation, &mut done.warnings);
        cut(directory, &torn, &mut done);
    }
    done
}

/// Cuts what is torn off these logs below `directory`. No path leads outside of the directory, and no file is longer
/// afterwards.
fn cut(directory: &Path, torn: &[TornLog], done: &mut CutLogs) {
    for log in torn {
        match cut_one(directory, Path::new(&log.path), log.whole_bytes) {
            Ok(was_cut) => done.was_cut |= was_cut,
            Err(error) => {
                done.warnings.push(format!("{} ends in a torn record, which stays: {error}", log.path));
            }
        }
    }
}

fn cut_one(directory: &Path, path: &Path, whole_bytes: u64) -> store::Result<bool> {
    if !path.file_name().is_some_and(leveldb::is_log_name) {
        return Ok(false);
    }
    let failed = |error| Error::io("cannot cut", path, error);
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = RootDir::open(directory)?.open_at(path.as_os_str().as_bytes(), flags, Mode::empty());
    let file = File::from(opened.map_err(failed)?);
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() || found.len() <= whole_bytes {
        return Ok(false);
    }
    file.set_len(whole_bytes).map_err(failed)?;
    Ok(true)
}

/// The torn logs of the suspects. It reads logs alone.
fn find(
    directory: &Path,
    suspects: &Suspects,
    isolation: &Isolation,
    warnings: &mut Vec<String>,
) -> Vec<TornLog> {
    match examine(directory, suspects, isolation) {
        Ok(found) => {
            let unread =
                |(path, why): (&Path, &str)| format!("the logs of {} were not read: {why}", path.display());
            warnings.extend(found.unchecked().map(unread));
            warnings.extend(found.damaged().map(|(path, why)| unread((path, &why.join("; ")))));
            found.torn_logs()
        }
        Err(error) => {
            warnings.push(format!("the logs of databases were not read: {error}"));
            Vec::new()
        }
    }
}

fn examine(directory: &Path, suspects: &Suspects, isolation: &Isolation) -> store::Result<Examination> {
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
        deadline: Deadline::after(MOST_TIME),
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

    fn log(path: &str, whole_bytes: u64) -> TornLog {
        TornLog { path: path.to_owned(), whole_bytes, unknown: Default::default() }
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
            let found = find(folder.path(), suspects, &Isolation::InProcess, &mut warnings);
            assert_eq!(warnings, [""; 0]);
            found
        };
        let of = |file: &str| {
            Suspects::Of(BTreeSet::from([PathBuf::from(file), PathBuf::from("Default/Cookies")]))
        };
        assert_eq!(find(&of("Default/Session Storage/000003.log")), []);
        for suspects in [Suspects::All, of("Default/Local Storage/leveldb/MANIFEST-000002")] {
            assert_eq!(find(&suspects), [log(path, whole.len() as u64)]);
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
        for (path, whole_bytes) in [
            ("Cookies", 0),
            ("000003.log", 0),
            ("../000003.log", 0),
            ("up/000003.log", 0),
            ("missing/000003.log", 0),
            ("000005.log", 5),
            ("000005.log", 500),
            ("CURRENT", 0),
            ("000007.ldb", 0),
        ] {
            let mut done = CutLogs::default();
            cut(&inside, &[log(path, whole_bytes)], &mut done);
            assert!(!done.was_cut, "{path}");
        }
        assert_eq!(fs::read(folder.path().join("000003.log")).unwrap(), b"somebody else's");
        for name in ["Cookies", "CURRENT", "000007.ldb"] {
            assert_eq!(fs::read(inside.join(name)).unwrap(), b"cookies");
        }
        assert_eq!(fs::read(inside.join("000005.log")).unwrap(), b"short");
    }
}
