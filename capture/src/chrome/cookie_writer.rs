//! `write_cookies` makes a running browser write to disk, through DevTools, the cookies that it has in memory alone.
//!
//! Chrome writes cookies half a minute after they were set, or as soon as it has counted 512 changes; DevTools has no
//! call for it. So this makes that many changes: it sets two cookies, of a site that cannot exist, to one value after
//! another. The changes of all sites are written with them. Chrome says nothing when it has written, so this waits
//! until a database of cookies is another, and its transaction is over.
//!
//! There are two, since whatever Chrome writes must change the database. It takes the old value away before it sets
//! the new one, and may write between the two; to take away what was never written changes nothing on disk. The other
//! cookie is there then. So one of the two is in every database that Chrome has written since. Their names are new each
//! time: a capture that has one of them has all changes from before they were set. They lapse by themselves, and those
//! who count cookies pass over them.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::{Value, json};

use super::{
    cookie_databases::cookie_databases,
    devtools::Endpoint,
    held_cookies::{self, Written},
};
use crate::{cookies::NOBODY, profile_dir::with_suffix};

/// More than Chrome waits for, so that its count ends, however far it had counted before.
const CHANGES: usize = 1040;
/// When the cookies go by themselves.
const LASTS: Duration = Duration::from_secs(30);
/// A time that is over.
const LONG_AGO: u64 = 1;
/// The first write may be a transaction that Chrome had begun before it was asked, without the newest
/// cookies. The one after that has them all.
const ROUNDS: usize = 2;
/// How long all of it may take.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(5);
const UNWRITTEN: &str = "the browser has not written its cookies, though it was asked to";

/// Has the browser write its cookies, and says which it had before it wrote them last; the reason if it has not.
pub(super) fn write_cookies(directory: &Path, endpoint: &Endpoint) -> Result<Written, String> {
    let began = Instant::now();
    let mut session = endpoint.session(PATIENCE).map_err(|error| error.to_string())?;
    let mut written = None;
    for _ in 0..ROUNDS {
        let told = held_cookies::told(&mut session).map_err(|error| error.to_string())?;
        let before = databases(directory);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let proofs = [0, 1].map(|number| format!("written-{:x}-{number}", now.as_nanos()));
        // One that has lapsed takes the one before away.
        let earlier = told.nobodys.iter().map(|name| cookie(name, 0, LONG_AGO));
        let lapses = (now + LASTS).as_secs();
        let changes = (0..CHANGES).map(|number| cookie(&proofs[number % proofs.len()], number, lapses));
        let cookies: Vec<Value> = earlier.chain(changes).collect();
        let set = session.call("Storage.setCookies", &json!({ "cookies": cookies }));
        set.map_err(|error| error.to_string())?;
        while !is_written(directory, &before) {
            if began.elapsed() > PATIENCE {
                return Err(UNWRITTEN.to_owned());
            }
            thread::sleep(LOOK_EVERY);
        }
        written = Some(Written { told, proofs });
    }
    written.ok_or_else(|| UNWRITTEN.to_owned())
}

fn cookie(name: &str, number: usize, lapses: u64) -> Value {
    json!({ "name": name, "value": number.to_string(), "domain": NOBODY, "path": "/", "expires": lapses })
}

/// A database of cookies, and when it and its write-ahead log were changed last.
type Database = (PathBuf, [Option<(i64, i64)>; 2]);

fn is_written(directory: &Path, before: &[Database]) -> bool {
    let is_over =
        |path: &Path| fs::metadata(with_suffix(path, "-journal")).map_or(true, |found| found.len() == 0);
    databases(directory).iter().any(|database| !before.contains(database) && is_over(&database.0))
}

fn databases(directory: &Path) -> Vec<Database> {
    let changed = |path: &Path| {
        let found = fs::symlink_metadata(path).ok().filter(fs::Metadata::is_file)?;
        Some((found.mtime(), found.mtime_nsec()))
    };
    let database = |path: PathBuf| {
        let times = [Some(changed(&path)?), changed(&with_suffix(&path, "-wal"))];
        Some((path, times))
    };
    cookie_databases(directory).into_iter().filter_map(database).collect()
}
