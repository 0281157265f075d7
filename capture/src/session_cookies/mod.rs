//! `keep` makes the session cookies of a profile outlive the browser's next start.
//!
//! Chrome writes session cookies to its database like others, and drops them when it starts. Here they become cookies
//! that lapse later, before the browser starts. A [cell](crate::cell) changes a copy of the database, since its bytes
//! are untrusted; the copy takes the place of the original at once.

pub(crate) mod lasting;

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::AsFd,
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::fs::OFlags;
use store::tree::root_dir::RootDir;

use self::lasting::Lasting;
use crate::{
    check_job::{CheckJob, CheckResult},
    chrome::{cookie_databases, replace},
    db_state::Deadline,
    examination::Isolation,
    profile_dir::ProfileDir,
    sqlite::{Depth, Means},
};

/// The name of this change in a record.
pub const TRANSFORM: &str = "keep-session-cookies";

/// As long as Chrome lets any cookie last.
const LASTS: Duration = Duration::from_secs(400 * 86_400);
/// Chrome counts microseconds since 1601.
const SECONDS_FROM_1601_TO_1970: u64 = 11_644_473_600;
/// A database of more than this is left alone.
const MAX_BYTES: u64 = 512 << 20;
const MOST_TIME: Duration = Duration::from_secs(60);

/// The outcome for one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The databases that were changed, below the directory.
    pub changed: Vec<PathBuf>,
    /// Those whose session cookies Chrome will drop, and why.
    pub warnings: Vec<String>,
}

/// Changes the databases of cookies below `directory`, on which nothing runs yet.
pub fn keep(directory: &Path, now_ms: u64, isolation: &Isolation, scratch: &Path) -> io::Result<Kept> {
    let expires = (now_ms / 1000 + LASTS.as_secs() + SECONDS_FROM_1601_TO_1970).saturating_mul(1_000_000);
    let lasting = |at: usize| Lasting {
        expires_utc: i64::try_from(expires).unwrap_or(i64::MAX),
        name: format!("kept-{at}"),
    };
    let jobs: Vec<CheckJob> = cookie_databases(directory)
        .into_iter()
        .filter_map(|path| path.strip_prefix(directory).ok().map(Path::to_owned))
        .enumerate()
        .map(|(at, path)| CheckJob::SessionCookies(path, lasting(at)))
        .collect();
    let mut kept = Kept::default();
    if jobs.is_empty() {
        return Ok(kept);
    }
    let means = Means { depth: Depth::Quick, deadline: Deadline::after(MOST_TIME), scratch };
    let found = match isolation {
        Isolation::Cell(cell) => cell.examine(directory, &jobs, 1, means)?,
        Isolation::InProcess => {
            let dir = ProfileDir::open(directory)?;
            jobs.iter().map(|job| job.check(&dir, means)).collect()
        }
    };
    let root = RootDir::open(directory).map_err(io::Error::other)?;
    for (job, found) in jobs.iter().zip(found) {
        let (CheckJob::SessionCookies(path, lasting), CheckResult::SessionCookies(_, changed)) = (job, found)
        else {
            continue;
        };
        if let Some(problem) = changed.problem {
            let place = path.display();
            kept.warnings.push(format!("the session cookies in {place} are not kept: {problem}"));
        } else if changed.cookies > 0 {
            put(&root, path, &scratch.join(&lasting.name))?;
            kept.changed.push(path.clone());
        }
    }
    Ok(kept)
}

/// Puts the changed copy in the place of the database.
fn put(root: &RootDir, path: &Path, copy: &Path) -> io::Result<()> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let copy = OpenOptions::new().read(true).custom_flags(flags).open(copy)?;
    let found = copy.metadata()?;
    if !found.is_file() || found.len() > MAX_BYTES {
        return Err(io::Error::other("the changed database of cookies is not what was asked for"));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let folder = root.dir(folder.as_os_str().as_bytes())?;
    replace(folder.as_fd(), Path::new(name), &mut io::Read::take(copy, MAX_BYTES))
}

#[cfg(test)]
mod tests {
    use std::fs;

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

    fn kept(directory: &Path) -> Kept {
        let scratch = tempfile::tempdir().unwrap();
        keep(directory, NOW_MS, &Isolation::InProcess, scratch.path()).unwrap()
    }

    #[test]
    fn session_cookies_last_and_others_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("Default/Network/Cookies");
        database(&path, &[("a.test", "sid", 0, 0), ("a.test", "other", 1, 77), (NOBODY, "written", 0, 0)]);
        assert_eq!(
            kept(dir.path()),
            Kept { changed: vec!["Default/Network/Cookies".into()], warnings: vec![] }
        );
        let expected = [("other", 1, 1, 77), ("sid", 1, 1, EXPIRES), ("written", 0, 0, 0)];
        assert_eq!(rows(&path), expected.map(|(name, a, b, c)| (name.to_owned(), a, b, c)));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
        assert_eq!(kept(dir.path()), Kept::default(), "there are none any more");
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
        let Kept { changed, warnings } = kept(dir.path());
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
        std::os::unix::fs::symlink(outside.path(), dir.path().join("Default")).unwrap();
        fs::create_dir(dir.path().join("Profile 1")).unwrap();
        std::os::unix::fs::symlink(outside.path().join("Cookies"), dir.path().join("Profile 1/Cookies"))
            .unwrap();
        assert_eq!(kept(dir.path()), Kept::default());
        assert_eq!(rows(&outside.path().join("Cookies"))[0].1, 0);
    }
}
