//! `cookie_databases` finds the databases of cookies of a user-data-dir.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Those of all profiles below `directory`. No link is followed to one.
pub(crate) fn cookie_databases(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let profiles = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let profiles = profiles.map(|entry| entry.path());
    let paths = profiles.flat_map(|profile| [profile.join("Cookies"), profile.join("Network/Cookies")]);
    let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
    let mut found: Vec<PathBuf> = paths.filter(is_file).collect();
    found.sort_unstable();
    found
}
