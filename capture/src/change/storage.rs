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
    examination::{Isolation, Options},
    sqlite::Depth,
};

/// Compares each of these, which lie at the same path below [`BEFORE`](super::sites::BEFORE) and
/// [`AFTER`](super::sites::AFTER) of `root`.
pub fn compare(
    root: &Path,
    directories: &BTreeSet<PathBuf>,
    (cell, scratch): (Cell, &Path),
) -> io::Result<BTreeMap<PathBuf, Storage>> {
    let jobs: Vec<CheckJob> = directories.iter().cloned().map(CheckJob::Storage).collect();
    let options = Options {
        depth: Depth::Quick,
        isolation: Isolation::Cell(cell.clone()),
        threads: 1,
        deadline: Deadline::after(MOST_TIME),
        scratch: scratch.to_owned(),
    };
    let found = cell.examine(root, &jobs, &options)?;
    let storage = found.into_iter().filter_map(|found| match found {
        CheckResult::Storage(path, storage) => Some((path, storage)),
        _ => None,
    });
    Ok(storage.collect())
}
