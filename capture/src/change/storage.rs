//! `compare` has the Local Storages of two snapshots compared in a cell.

pub use super::origins::{DIRECTORY, Storage, directory_of};

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

/// Compares each of these, which lie at the same path below [`BEFORE`](super::sites::BEFORE) and
/// [`AFTER`](super::sites::AFTER) of `root`.
pub fn compare(
    root: &Path,
    directories: &BTreeSet<PathBuf>,
    (cell, scratch): (Cell, &Path),
) -> io::Result<BTreeMap<PathBuf, Storage>> {
    let jobs: Vec<CheckJob> = directories.iter().cloned().map(CheckJob::Storage).collect();
    let means = Means { depth: Depth::Quick, deadline: Deadline::after(MOST_TIME), scratch };
    let found = cell.examine(root, &jobs, 1, means)?;
    let storage = found.into_iter().filter_map(|found| match found {
        CheckResult::Storage(path, storage) => Some((path, storage)),
        _ => None,
    });
    Ok(storage.collect())
}
