//! `files_to_read` selects the files that an examination of the expectations reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use store::{Result, format::expectations::Expectations, ops::write::snapshot::TreeFiles};

use crate::{
    change::{names, storage},
    cookies::is_of_cookies,
};

/// The files of `tree` that tell it.
pub(crate) fn wanted(tree: &dyn TreeFiles, expected: &Expectations) -> Result<BTreeSet<PathBuf>> {
    if expected.cookies.is_empty() && expected.origins.is_empty() && expected.files.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut wanted = BTreeSet::new();
    // One file shows that its directory is there: the first of them.
    let mut shown: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
    tree.each_folder(&mut |files| {
        for path in files {
            match token(path, expected) {
                Token::None => {}
                Token::Whole => drop(wanted.insert(path.clone())),
                Token::OneOf(directory) => {
                    let first = shown.entry(directory).or_insert_with(|| path.clone());
                    if path < first {
                        first.clone_from(path);
                    }
                }
            }
        }
        Ok(())
    })?;
    wanted.extend(shown.into_values());
    Ok(wanted)
}

/// Whether the file at `path` is one of those.
pub(crate) fn is_wanted(path: &Path, expected: &Expectations) -> bool {
    !matches!(token(path, expected), Token::None)
}

/// The expectation that a file shows.
enum Token {
    None,
    Whole,
    /// That this directory is there.
    OneOf(PathBuf),
}

fn token(path: &Path, expected: &Expectations) -> Token {
    if !expected.cookies.is_empty() && is_of_cookies(path)
        || !expected.origins.is_empty() && storage::directory_of(path).is_some()
        || expected.files.iter().any(|file| Path::new(file) == path)
    {
        return Token::Whole;
    }
    let database = path.parent().filter(|parent| {
        let origin = names::origin(parent.as_os_str().as_bytes());
        origin.is_some_and(|origin| expected.origins.contains(&origin))
    });
    let named = || expected.files.iter().map(Path::new).find(|file| path.starts_with(file));
    match database.or_else(named) {
        Some(directory) => Token::OneOf(directory.to_owned()),
        None => Token::None,
    }
}

#[cfg(test)]
mod tests {
    use store::format::{event::Actor, expectations::CookieName};

    use super::*;
    use crate::listed_files::ListedFiles;

    #[test]
    fn only_what_tells_it_is_read() {
        let mut expected = Expectations::new(&"acme/alice".parse().unwrap(), Actor::default());
        let files = [
            "Default/Cookies",
            "Default/Cookies-journal",
            "Default/History",
            "Default/IndexedDB/https_a.test_0.indexeddb.leveldb/CURRENT",
            "Default/IndexedDB/https_a.test_0.indexeddb.leveldb/LOG",
            "Default/IndexedDB/https_b.test_0.indexeddb.leveldb/CURRENT",
            "Default/Local Storage/leveldb/000003.log",
            "Default/kept/a",
            "Default/kept/b",
        ];
        let paths: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
        let tree = ListedFiles { files: &paths, head: &|_, _| None };
        let read = |expected: &Expectations| wanted(&tree, expected).unwrap().into_iter().collect::<Vec<_>>();
        assert!(read(&expected).is_empty());
        expected.cookies = vec![CookieName { host: "a.test".to_owned(), name: "sid".to_owned() }];
        assert_eq!(read(&expected), [files[0], files[1]].map(PathBuf::from));
        expected.cookies.clear();
        expected.origins = vec!["https://a.test".to_owned()];
        assert_eq!(read(&expected), [files[3], files[6]].map(PathBuf::from));
        expected.origins.clear();
        expected.files = vec!["Default/kept".to_owned(), "Default/History".to_owned()];
        assert_eq!(read(&expected), [files[2], files[7]].map(PathBuf::from));
        assert!(is_wanted(Path::new("Default/kept/b"), &expected));
    }
}
