//! `compare` sends the cookie databases of two snapshots to a cell, where `cookie_sites` compares them.

pub use super::cookie_sites::{AFTER, BEFORE, SOON, Site, Sites};

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
};

use super::cookie_sites::MOST_TIME;
use crate::{
    cell::Cell,
    check_job::{CheckJob, CheckResult},
    db_state::Deadline,
    sqlite::{Depth, Means},
};

/// Compares the cookies in each of these databases, which lie at the same path below [`BEFORE`] and
/// [`AFTER`] of `root`. `captured_at_ms` is when the later snapshot was.
pub fn compare(
    root: &Path,
    databases: &BTreeSet<PathBuf>,
    captured_at_ms: u64,
    (cell, scratch): (Cell, &Path),
) -> io::Result<BTreeMap<PathBuf, Sites>> {
    let soon_ms = captured_at_ms.saturating_add(SOON.as_millis() as u64);
    let jobs: Vec<CheckJob> = databases.iter().map(|path| CheckJob::Sites(path.clone(), soon_ms)).collect();
    let means = Means { depth: Depth::Quick, deadline: Deadline::after(MOST_TIME), scratch };
    let found = cell.examine(root, &jobs, 1, means)?;
    let sites = found.into_iter().filter_map(|found| match found {
        CheckResult::Sites(path, sites) => Some((path, sites)),
        _ => None,
    });
    Ok(sites.collect())
}
