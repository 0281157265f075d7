//! `examined_files` selects the files of a tree that an examination reads, so that a caller copies no others.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use crate::{
    cookies::is_of_cookies,
    leveldb,
    profile_dir::with_suffix,
    sqlite::{
        self,
        header::{HEADER_BYTES, Identity},
    },
};

const JOURNALS: [&str; 2] = ["-journal", "-wal"];

/// Those of `files` that belong to a database which a change of these concerns; `None` if all
/// are to be looked at. `head` gives the first bytes of a file, if it can be read.
pub(crate) fn needed(
    files: &BTreeSet<PathBuf>,
    changed: Option<&BTreeSet<PathBuf>>,
    head: &dyn Fn(&Path, usize) -> Option<Vec<u8>>,
) -> BTreeSet<PathBuf> {
    let has_journal = |path: &Path| JOURNALS.iter().any(|suffix| files.contains(&with_suffix(path, suffix)));
    let is_needed = |path: &PathBuf| {
        // One that cannot be read is not passed over: whoever copies it finds out.
        has_journal(path) || is_of_a_database(path, || head(path, HEADER_BYTES))
    };
    match changed {
        None => files.iter().filter(|path| is_needed(path)).cloned().collect(),
        Some(changed) => concerned(files, changed).into_iter().filter(is_needed).collect(),
    }
}

/// Whether a file, going by its name and how it begins, is a part of a database.
pub(crate) fn is_of_a_database(path: &Path, head: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    sqlite::owner(path).is_some()
        || path.file_name().is_some_and(leveldb::is_file_name)
        || head().is_none_or(|head| Identity::of(&head) != Identity::Other)
}

/// Those of `files` that are one of these, or make up a database together with one of these. If
/// one database of cookies has changed, all are: their number is that of all.
fn concerned(files: &BTreeSet<PathBuf>, changed: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut concerned = BTreeSet::new();
    for path in changed {
        for database in [Some(path.clone()), sqlite::owner(path)].into_iter().flatten() {
            concerned.extend(JOURNALS.map(|suffix| with_suffix(&database, suffix)));
            concerned.insert(database);
        }
    }
    concerned.retain(|path| files.contains(path));
    let is_of_leveldb = |path: &Path| path.file_name().is_some_and(leveldb::is_file_name);
    let directories: BTreeSet<&Path> =
        changed.iter().filter(|path| is_of_leveldb(path)).filter_map(|path| path.parent()).collect();
    let cookies = changed.iter().any(|path| is_of_cookies(path));
    let beside = |path: &&PathBuf| {
        cookies && is_of_cookies(path)
            || is_of_leveldb(path) && path.parent().is_some_and(|parent| directories.contains(parent))
    };
    concerned.extend(files.iter().filter(beside).cloned());
    concerned
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn found(files: &[&str], changed: Option<&[&str]>) -> BTreeSet<PathBuf> {
        let head = |path: &Path, _| {
            let database = path.to_string_lossy().contains("Cookies") || path.ends_with("History");
            Some(if database { b"SQLite format 3\0".to_vec() } else { b"{}".to_vec() })
        };
        needed(&paths(files), changed.map(paths).as_ref(), &head)
    }

    const FILES: [&str; 10] = [
        "Default/Cookies",
        "Default/Cookies-journal",
        "Default/History",
        "Default/History-wal",
        "Default/Preferences",
        "Default/Torn",
        "Default/Torn-journal",
        "Default/db/000003.log",
        "Default/db/CURRENT",
        "Other/Cookies",
    ];

    #[test]
    fn all_databases_and_what_lies_beside_them_are_needed_and_nothing_else() {
        let mut all = paths(&FILES);
        all.remove(Path::new("Default/Preferences"));
        assert_eq!(found(&FILES, None), all);
    }

    #[test]
    fn a_change_of_one_part_needs_the_others() {
        let changed = |name| found(&FILES, Some(&[name]));
        assert_eq!(changed("Default/History-wal"), paths(&["Default/History", "Default/History-wal"]));
        assert_eq!(changed("Default/db/CURRENT"), paths(&["Default/db/000003.log", "Default/db/CURRENT"]));
        let cookies = paths(&["Default/Cookies", "Default/Cookies-journal", "Other/Cookies"]);
        assert_eq!(changed("Other/Cookies"), cookies);
        assert_eq!(changed("Default/Preferences"), BTreeSet::new());
    }
}
