//! `torn_logs` cuts torn records off the logs of LevelDBs before a browser opens them.
//!
//! A writer that dies may leave the beginning of a record at the end of a log. LevelDB drops that record when it opens
//! the database, and then appends behind it. Its next start finds a record whose checksum is wrong, and Chrome throws
//! the whole database away. Without the torn record nothing is lost that LevelDB would have read.

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use store::{
    Error,
    format::health::TornLog,
    scratch::{self, Scratch},
    tree::root_dir::RootDir,
};

use crate::{
    db_state::Deadline,
    examination::{self, Isolation, Options},
    leveldb,
    sqlite::Depth,
};

/// The name of this change in a record.
pub const TRANSFORM: &str = "cut-torn-logs";

const MOST_TIME: Duration = Duration::from_secs(30);

/// Cuts what is torn off these logs below `directory`, on which nothing runs yet, and says whether there was
/// anything. No path leads outside of the directory, and no file is longer afterwards.
pub fn cut(directory: &Path, torn: &[TornLog]) -> store::Result<bool> {
    let root = RootDir::open(directory)?;
    let mut was_cut = false;
    for log in torn {
        let cut = cut_one(&root, Path::new(&log.path), log.whole_bytes);
        was_cut |= cut.map_err(|error| Error::io("cannot cut", directory.join(&log.path), error))?;
    }
    Ok(was_cut)
}

fn cut_one(root: &RootDir, path: &Path, whole_bytes: u64) -> io::Result<bool> {
    if !path.file_name().is_some_and(leveldb::is_file_name) {
        return Ok(false);
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match root.open_at(path.as_os_str().as_bytes(), flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(error) => {
            return match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::ISDIR) => Ok(false),
                _ => Err(error),
            };
        }
    };
    let found = file.metadata()?;
    if !found.is_file() || found.len() <= whole_bytes {
        return Ok(false);
    }
    file.set_len(whole_bytes)?;
    Ok(true)
}

/// The torn logs of the databases to which these files below `directory` belong. It reads those logs alone. A database
/// that cannot be read is left as it is.
pub fn find(directory: &Path, of: &BTreeSet<PathBuf>, isolation: &Isolation) -> store::Result<Vec<TornLog>> {
    let of: BTreeSet<PathBuf> =
        of.iter().filter(|path| path.file_name().is_some_and(leveldb::is_file_name)).cloned().collect();
    if of.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
    let options = Options {
        depth: Depth::Quick,
        isolation: isolation.clone(),
        threads: 1,
        deadline: Deadline::after(MOST_TIME),
        scratch: scratch.path().to_owned(),
    };
    let found = examination::examine_logs(directory, &of, &options);
    Ok(found.map_err(|error| Error::io("cannot check", directory, error))?.torn_logs())
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
        let find = |of: &str| {
            let of = BTreeSet::from([PathBuf::from(of), PathBuf::from("Default/Cookies")]);
            find(folder.path(), &of, &Isolation::InProcess).unwrap()
        };
        assert_eq!(find("Default/Session Storage/000003.log"), []);
        let torn = find("Default/Local Storage/leveldb/MANIFEST-000002");
        assert_eq!(torn, [log(path, whole.len() as u64)]);
        assert!(cut(folder.path(), &torn).unwrap());
        assert_eq!(fs::read(&newest).unwrap(), whole);
        assert_eq!(find(path), []);
        assert!(!cut(folder.path(), &torn).unwrap(), "it was cut twice");
    }

    #[test]
    fn nothing_but_logs_of_the_profile_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("inside");
        fs::create_dir(&inside).unwrap();
        fs::write(folder.path().join("000003.log"), "somebody else's").unwrap();
        fs::write(inside.join("Cookies"), "cookies").unwrap();
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
        ] {
            assert!(!cut(&inside, &[log(path, whole_bytes)]).unwrap_or(false), "{path}");
        }
        assert_eq!(fs::read(folder.path().join("000003.log")).unwrap(), b"somebody else's");
        assert_eq!(fs::read(inside.join("Cookies")).unwrap(), b"cookies");
        assert_eq!(fs::read(inside.join("000005.log")).unwrap(), b"short");
    }
}
