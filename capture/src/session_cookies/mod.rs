//! `keep` makes the session cookies of a profile outlive the browser's next start.
//!
//! Chrome writes session cookies to its database like others, and drops them when it starts. Here they become cookies
//! that lapse later, before the browser starts. A [cell](crate::cell) changes a copy of the database, since its bytes
//! are untrusted; the copy takes the place of the original at once.

pub(crate) mod lasting;

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Seek},
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::OFlags;
use store::tree::root_dir::RootDir;

use self::lasting::{ChangedCookies, Lasting};
use crate::{
    check_job::{CheckJob, CheckResult},
    chrome::{cookie_databases, replace},
    cookies::MS_FROM_1601_TO_1970,
    db_state::Deadline,
    examination::Isolation,
    profile_dir::ProfileDir,
    sqlite::{Depth, Means, header::MAGIC},
};

/// The name of this change in a record.
pub const TRANSFORM: &str = "keep-session-cookies";

/// As long as Chrome lets any cookie last.
const LASTS_MS: i64 = 400 * 86_400_000;
/// A database of more than this is left alone.
const MAX_BYTES: u64 = 512 << 20;
/// One that was changed may have grown.
const MAX_COPY_BYTES: u64 = 2 * MAX_BYTES;
const MOST_TIME: Duration = Duration::from_secs(60);

/// The outcome for one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptCookies {
    /// The databases that were changed, below the directory.
    pub changed: Vec<PathBuf>,
    /// Those whose session cookies Chrome will drop, and why.
    pub warnings: Vec<String>,
}

/// Changes the databases of cookies below `directory`, on which nothing runs yet. What cannot be changed is left as it
/// is, with a warning: a profile whose session cookies are dropped is better than none.
pub fn keep(directory: &Path, now_ms: u64, isolation: &Isolation, scratch: &Path) -> KeptCookies {
    let lapses_ms = i64::try_from(now_ms).unwrap_or(i64::MAX).saturating_add(LASTS_MS);
    let expires_utc = lapses_ms.saturating_add(MS_FROM_1601_TO_1970).saturating_mul(1000);
    let mut kept = KeptCookies::default();
    for (at, path) in cookie_databases(directory).into_iter().enumerate() {
        let Ok(path) = path.strip_prefix(directory) else { continue };
        let lasting = Lasting { expires_utc, name: format!("kept-{at}") };
        match keep_one(directory, path, lasting, isolation, scratch) {
            Ok(true) => kept.changed.push(path.to_owned()),
            Ok(false) => {}
            Err(problem) => {
                let place = path.display();
                kept.warnings.push(format!("the session cookies in {place} are not kept: {problem}"));
            }
        }
    }
    kept
}

/// Whether the database at `path` below `directory` was changed. Each has a cell of its own, so that the bytes of one
/// decide nothing about another.
fn keep_one(
    directory: &Path,
    path: &Path,
    lasting: Lasting,
    isolation: &Isolation,
    scratch: &Path,
) -> Result<bool, String> {
    let failed = |error: io::Error| error.to_string();
    if fs::symlink_metadata(directory.join(path)).map_err(failed)?.len() > MAX_BYTES {
        return Err(format!("it has more than {} MiB", MAX_BYTES >> 20));
    }
    let changed = scratch.join(&lasting.name);
    let jobs = [CheckJob::SessionCookies(path.to_owned(), lasting)];
    let means = Means { depth: Depth::Quick, deadline: Deadline::after(MOST_TIME), scratch };
    let found = match isolation {
        Isolation::Cell(cell) => cell.examine(directory, &jobs, 1, means).map_err(failed)?,
        Isolation::InProcess => vec![jobs[0].check(&ProfileDir::open(directory).map_err(failed)?, means)],
    };
    match found.into_iter().next() {
        Some(CheckResult::SessionCookies(_, ChangedCookies { problem: Some(problem), .. })) => Err(problem),
        Some(CheckResult::SessionCookies(_, ChangedCookies { cookies: 1.., .. })) => {
            let root = RootDir::open(directory).map_err(|error| error.to_string())?;
            put(&root, path, &changed).map_err(failed)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// Puts the changed copy in the place of the database.
fn put(root: &RootDir, path: &Path, copy: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut copy = OpenOptions::new().read(true).custom_flags(flags).open(copy)?;
    let found = copy.metadata()?;
    let mut first = [0; MAGIC.len()];
    if !found.is_file()
        || found.len() > MAX_COPY_BYTES
        || copy.read_exact(&mut first).is_err()
        || first != *MAGIC
    {
        return Err(io::Error::other("what was made of it is no database"));
    }
    copy.rewind()?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = root.dir(folder.as_os_str().as_bytes())?;
    replace(folder.as_fd(), Path::new(name), &mut copy.take(MAX_COPY_BYTES))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use rusqlite::Connection;

    use super::*;
    use crate::cookies::NOBODY;

    const TABLE: &str =
        "CREATE TABLE cookies (host_key TEXT, name TEXT, is_persistent INTEGER, has_expires INTEGER,
        expires_utc INTEGER)";
    const NOW_MS: u64 = 1_800_000_000_000;
    const EXPIRES: i64 = (1_800_000_000 + 400 * 86_400 + 11_644_473_600) * 1_000_000;

    fn database(path: &Path, rows: &[(&str, &str, i64, i64)]) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(TABLE).unwrap();
        for (host, name, persistent, expires) in rows {
            let values = rusqlite::params![host, name, persistent, expires];
            connection.execute("INSERT INTO cookies VALUES (?1, ?2, ?3, ?3, ?4)", values).unwrap();
        }
    }

    fn rows(path: &Path) -> Vec<(String, i64, i64, i64)> {
        let connection = Connection::open(path).unwrap();
        let text = "SELECT name, is_persistent, has_expires, expires_utc FROM cookies ORDER BY name";
        let mut statement = connection.prepare(text).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)));
        rows.unwrap().map(Result::unwrap).collect()
    }

    fn kept(directory: &Path) -> KeptCookies {
        let scratch = tempfile::tempdir().unwrap();
        keep(directory, NOW_MS, &Isolation::InProcess, scratch.path())
    }

    #[test]
    fn session_cookies_last_and_others_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Default/Network/Cookies");
        database(&path, &[("a.test", "sid", 0, 0), ("a.test", "other", 1, 77), (NOBODY, "written", 0, 0)]);
        assert_eq!(
            kept(dir.path()),
            KeptCookies { changed: vec!["Default/Network/Cookies".into()], warnings: vec![] }
        );
        let expected = [("other", 1, 1, 77), ("sid", 1, 1, EXPIRES), ("written", 0, 0, 0)];
        assert_eq!(rows(&path), expected.map(|(name, a, b, c)| (name.to_owned(), a, b, c)));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(kept(dir.path()), KeptCookies::default(), "there are none any more");
    }

    #[test]
    fn a_database_in_wal_mode_is_changed_itself_and_not_only_its_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Default/Cookies");
        database(&path, &[("a.test", "sid", 0, 0)]);
        Connection::open(&path).unwrap().execute_batch("PRAGMA journal_mode = WAL; VACUUM").unwrap();
        // A log or a journal without content is no transaction.
        for empty in ["Cookies-wal", "Cookies-journal"] {
            fs::write(dir.path().join("Default").join(empty), "").unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(kept(dir.path()).changed, [Path::new("Default/Cookies")]);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        let alone = tempfile::tempdir().unwrap();
        fs::copy(&path, alone.path().join("Cookies")).unwrap();
        assert_eq!(rows(&alone.path().join("Cookies"))[0].1, 1);
    }

    #[test]
    fn an_empty_database_is_none_and_a_huge_one_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        for (profile, len) in [("Default", 0), ("Profile 1", MAX_BYTES + 1)] {
            fs::create_dir(dir.path().join(profile)).unwrap();
            fs::File::create(dir.path().join(profile).join("Cookies")).unwrap().set_len(len).unwrap();
        }
        let KeptCookies { changed, warnings } = kept(dir.path());
        assert!(
            changed.is_empty() && warnings.len() == 1 && warnings[0].contains("more than 512 MiB"),
            "{warnings:?}"
        );
    }

    #[test]
    fn what_a_cell_leaves_in_place_of_a_database_is_not_taken() {
        let (dir, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = dir.path().join("Default/Cookies");
        database(&path, &[("a.test", "sid", 0, 0)]);
        let (before, root) = (fs::read(&path).unwrap(), RootDir::open(dir.path()).unwrap());
        let [link, folder, text, none] =
            ["link", "folder", "text", "none"].map(|name| scratch.path().join(name));
        symlink(&path, &link).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(&text, "no database at all").unwrap();
        for left in [link, folder, text, none] {
            assert!(put(&root, Path::new("Default/Cookies"), &left).is_err(), "{left:?}");
        }
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_database_that_cannot_be_changed_is_left_alone_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let (damaged, unfinished) =
            (dir.path().join("Default/Cookies"), dir.path().join("Profile 1/Cookies"));
        fs::create_dir_all(damaged.parent().unwrap()).unwrap();
        fs::write(&damaged, vec![7; 5000]).unwrap();
        database(&unfinished, &[("a.test", "sid", 0, 0)]);
        let connection = Connection::open(&unfinished).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; INSERT INTO cookies VALUES ('b.test', 'b', 0, 0, 0)")
            .unwrap();
        let before = [fs::read(&damaged).unwrap(), fs::read(&unfinished).unwrap()];
        let KeptCookies { changed, warnings } = kept(dir.path());
        assert!(changed.is_empty() && warnings.len() == 2, "{changed:?} {warnings:?}");
        assert!(
            warnings.iter().any(|text| text.contains("Profile 1/Cookies") && text.contains("not finished"))
        );
        assert_eq!([fs::read(&damaged).unwrap(), fs::read(&unfinished).unwrap()], before);
    }

    #[test]
    fn no_link_is_followed() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        database(&outside.path().join("Cookies"), &[("a.test", "sid", 0, 0)]);
        symlink(outside.path(), dir.path().join("Default")).unwrap();
        fs::create_dir(dir.path().join("Profile 1")).unwrap();
        symlink(outside.path().join("Cookies"), dir.path().join("Profile 1/Cookies")).unwrap();
        assert_eq!(kept(dir.path()), KeptCookies::default());
        assert_eq!(rows(&outside.path().join("Cookies"))[0].1, 0);
    }
}
