//! `examined_files` selects the files of a tree that an examination reads, so that a caller copies no others.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use store::{Result, ops::write::snapshot::TreeFiles};

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

/// The files of `tree` that belong to a database which a change of these concerns; `None` if all databases are
/// to be looked at.
pub(crate) fn needed(tree: &dyn TreeFiles, changed: Option<&BTreeSet<PathBuf>>) -> Result<BTreeSet<PathBuf>> {
    let Some(changed) = changed else { return all_databases(tree) };
    let mut needed = BTreeSet::new();
    for path in concerned(tree, changed)? {
        let has = |suffix| tree.has(&with_suffix(&path, suffix));
        if has(JOURNALS[0])? || has(JOURNALS[1])? || may_be_of_a_database(tree, &path) {
            needed.insert(path);
        }
    }
    Ok(needed)
}

/// The files of all databases, found directory by directory: a journal lies beside its database.
fn all_databases(tree: &dyn TreeFiles) -> Result<BTreeSet<PathBuf>> {
    let mut needed = BTreeSet::new();
    tree.each_folder(&mut |files| {
        let listed: BTreeSet<&PathBuf> = files.iter().collect();
        for path in files {
            let has_journal = JOURNALS.iter().any(|suffix| listed.contains(&with_suffix(path, suffix)));
            if has_journal || may_be_of_a_database(tree, path) {
                needed.insert(path.clone());
            }
        }
        Ok(())
    })?;
    Ok(needed)
}

/// One that cannot be read is not passed over: the copy finds out.
fn may_be_of_a_database(tree: &dyn TreeFiles, path: &Path) -> bool {
    is_of_a_database(path, || tree.head(path, HEADER_BYTES))
}

/// Whether a file, going by its name and how it begins, is a part of a database.
pub(crate) fn is_of_a_database(path: &Path, head: impl FnOnce() -> Option<Vec<u8>>) -> bool {
    sqlite::owner(path).is_some()
        || path.file_name().is_some_and(leveldb::is_file_name)
        || head().is_none_or(|head| Identity::of(&head) != Identity::Other)
}

/// The files of `tree` that are one of these, or make up a database together with one of these. If one database of
/// cookies has changed, all those of profiles are: their number is that of all.
fn concerned(tree: &dyn TreeFiles, changed: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>> {
    let mut named = BTreeSet::new();
    for path in changed {
        for database in [Some(path.clone()), sqlite::owner(path)].into_iter().flatten() {
            named.extend(JOURNALS.map(|suffix| with_suffix(&database, suffix)));
            named.insert(database);
        }
    }
    if changed.iter().any(|path| is_of_cookies(path)) {
        named.extend(cookies_of_profiles(tree)?);
    }
    let mut concerned = BTreeSet::new();
    for path in named {
        if tree.has(&path)? {
            concerned.insert(path);
        }
    }
    let is_of_leveldb = |path: &Path| path.file_name().is_some_and(leveldb::is_file_name);
    let directories: BTreeSet<&Path> =
        changed.iter().filter(|path| is_of_leveldb(path)).filter_map(|path| path.parent()).collect();
    for directory in directories {
        concerned.extend(tree.within(directory)?.0.into_iter().filter(|path| is_of_leveldb(path)));
    }
    Ok(concerned)
}

/// Where profiles have their cookies.
pub(crate) fn cookies_of_profiles(tree: &dyn TreeFiles) -> Result<Vec<PathBuf>> {
    let (_, profiles) = tree.within(Path::new(""))?;
    let folders = profiles.into_iter().flat_map(|profile| [profile.join("Network"), profile]);
    let database = folders.map(|folder| folder.join("Cookies"));
    Ok(database.flat_map(|path| [with_suffix(&path, "-journal"), with_suffix(&path, "-wal"), path]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listed_files::ListedFiles;

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn found(files: &[&str], changed: Option<&[&str]>) -> BTreeSet<PathBuf> {
        let head = |path: &Path, _| {
            let database = path.to_string_lossy().contains("Cookies") || path.ends_with("History");
            Some(if database { b"SQLite format 3\0".to_vec() } else { b"{}".to_vec() })
        };
        let tree = ListedFiles { files: &paths(files), head: &head };
        needed(&tree, changed.map(paths).as_ref()).unwrap()
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
