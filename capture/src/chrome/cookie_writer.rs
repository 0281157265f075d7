//! `write_cookies` has a running browser write the cookies to disk that it has in memory alone.
//!
//! Chrome writes cookies half a minute after they were set, or as soon as it has counted 512 changes; DevTools has no
//! call for it. So this makes that many changes: it sets one cookie, of a site that cannot exist, and takes it away,
//! again and again. The changes of all sites are written with them. Chrome says nothing when it has written, so this
//! waits until a database of cookies is another, and its transaction is over.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::devtools::Endpoint;
use crate::profile_dir::with_suffix;

/// A name that no site can have.
const NOBODY: &str = "pstore.invalid";
/// More than twice what Chrome waits for, so one round of its count ends in any case. The last one takes the cookie away.
const CHANGES: usize = 1040;
/// When the cookie goes by itself, if Chrome has written it just while it was there.
const LASTS: Duration = Duration::from_secs(30);
/// A time that is over.
const LONG_AGO: u64 = 1;
/// What is written first may be a transaction that Chrome had begun before it was asked, without the newest cookies. The
/// one after that has them all.
const ROUNDS: usize = 2;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Has the browser write its cookies; the reason if it is not known that it has.
pub(super) fn write_cookies(directory: &Path, endpoint: &Endpoint) -> Result<(), String> {
    let began = Instant::now();
    let mut session = endpoint.session(PATIENCE).map_err(|error| error.to_string())?;
    for _ in 0..ROUNDS {
        let before = databases(directory);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let lapses = (now + LASTS).as_secs();
        // One that has lapsed takes the one before away.
        let cookies: Vec<Value> =
            (0..CHANGES).map(|number| cookie(if number % 2 == 0 { lapses } else { LONG_AGO })).collect();
        let set = session.call("Storage.setCookies", &json!({ "cookies": cookies }));
        set.map_err(|error| error.to_string())?;
        while !is_written(directory, &before) {
            if began.elapsed() > PATIENCE {
                return Err("the browser has not written its cookies, though it was asked to".to_owned());
            }
            thread::sleep(LOOK_EVERY);
        }
    }
    Ok(())
}

fn cookie(lapses: u64) -> Value {
    json!({ "name": "written", "value": "", "domain": NOBODY, "path": "/", "expires": lapses })
}

/// A database of cookies, and when it was changed last.
type Database = (PathBuf, (i64, i64));

fn is_written(directory: &Path, before: &[Database]) -> bool {
    let is_over =
        |path: &Path| fs::metadata(with_suffix(path, "-journal")).map_or(true, |found| found.len() == 0);
    databases(directory).iter().any(|database| !before.contains(database) && is_over(&database.0))
}

/// How many databases of cookies a user-data-dir has.
pub(super) fn count_databases(directory: &Path) -> usize {
    databases(directory).len()
}

/// The databases of cookies of all profiles in a user-data-dir. No link is followed to one.
fn databases(directory: &Path) -> Vec<Database> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let profiles = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let profiles = profiles.map(|entry| entry.path());
    let paths = profiles.flat_map(|profile| [profile.join("Cookies"), profile.join("Network/Cookies")]);
    let changed = |path: PathBuf| {
        let found = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
        Some((path, (found.mtime(), found.mtime_nsec())))
    };
    paths.filter_map(changed).collect()
}
