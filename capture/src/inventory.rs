//! `Inventory` lists the databases that a directory holds; `Sizes` tells where its bytes are.
//!
//! A file is a SQLite database if it begins as one; a directory is a LevelDB if it has the
//! files of one. A file that has a journal beside it and does not begin as a database is
//! listed too: its beginning may be the damaged part.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

use serde::Serialize;

use crate::{
    db_state::path_as_text,
    leveldb,
    profile_dir::{DirEntry, EntryKind, ProfileDir, with_suffix},
    sqlite::{
        self,
        header::{HEADER_BYTES, Identity},
    },
};

/// A directory is worth naming if it holds this part of all bytes.
const LARGE_PART: u64 = 50;

/// The shortest file that can be told for a database.
const MIN_BYTES: u64 = 16;

/// The databases below a directory. Paths are relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    pub sqlite: BTreeSet<PathBuf>,
    pub leveldb: BTreeSet<PathBuf>,
}

/// Where the bytes of a directory are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// Of all files, holes included.
    pub bytes: u64,
    /// The largest first. No byte counts twice: a directory is listed with
    /// everything below it, less the directories that are listed themselves.
    pub largest: Vec<DirectorySize>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirectorySize {
    #[serde(serialize_with = "path_as_text")]
    pub path: PathBuf,
    pub bytes: u64,
}

impl Inventory {
    /// All databases, found by opening every file.
    pub fn of_all(dir: &ProfileDir) -> io::Result<Self> {
        let mut inventory = Self::default();
        walk(dir, |directory, entries| {
            if are_leveldb(entries) {
                inventory.leveldb.insert(directory.to_owned());
                return Ok(());
            }
            let has =
                |name: &OsStr| entries.binary_search_by(|entry| entry.name.as_os_str().cmp(name)).is_ok();
            for entry in entries.iter().filter(|entry| entry.file_bytes().is_some_and(|bytes| bytes > 0)) {
                let path = directory.join(&entry.name);
                let name = Path::new(&entry.name);
                let journal =
                    ["-journal", "-wal"].iter().any(|suffix| has(with_suffix(name, suffix).as_os_str()));
                if journal || (entry.file_bytes() >= Some(MIN_BYTES) && is_sqlite(dir, &path)?) {
                    inventory.sqlite.insert(path);
                }
            }
            Ok(())
        })?;
        Ok(inventory)
    }

    /// The databases that a change of these files, some of them perhaps removed, concerns.
    /// No other file is opened.
    pub fn of_changed(dir: &ProfileDir, changed: &BTreeSet<PathBuf>) -> io::Result<Self> {
        let mut inventory = Self::default();
        let mut leveldbs: BTreeMap<&Path, bool> = BTreeMap::new();
        for path in changed {
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
            if leveldb::is_file_name(name) {
                let known = leveldbs.get(directory).copied();
                let is_leveldb = known.map_or_else(|| is_leveldb(dir, directory), Ok)?;
                leveldbs.insert(directory, is_leveldb);
                if is_leveldb {
                    inventory.leveldb.insert(directory.to_owned());
                    continue;
                }
            }
            for candidate in [Some(path.clone()), sqlite::owner(path)].into_iter().flatten() {
                if !inventory.sqlite.contains(&candidate)
                    && (is_sqlite(dir, &candidate)? || has_journal(dir, &candidate)?)
                {
                    inventory.sqlite.insert(candidate);
                }
            }
        }
        Ok(inventory)
    }
}

/// The directories that are LevelDBs, by their names alone: no file is opened. All of them, or those to which these files belong.
pub fn leveldbs(dir: &ProfileDir, of: Option<&BTreeSet<PathBuf>>) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let Some(files) = of else {
        walk(dir, |directory, entries| {
            if are_leveldb(entries) {
                found.insert(directory.to_owned());
            }
            Ok(())
        })?;
        return Ok(found);
    };
    let directories: BTreeSet<&Path> = files.iter().filter_map(|file| file.parent()).collect();
    for directory in directories {
        if is_leveldb(dir, directory)? {
            found.insert(directory.to_owned());
        }
    }
    Ok(found)
}

impl Sizes {
    /// Names at most `count` directories.
    pub fn of(dir: &ProfileDir, count: usize) -> io::Result<Self> {
        let mut own: BTreeMap<PathBuf, u64> = BTreeMap::new();
        walk(dir, |directory, entries| {
            let bytes = entries.iter().filter_map(DirEntry::file_bytes).fold(0, u64::saturating_add);
            own.insert(directory.to_owned(), bytes);
            Ok(())
        })?;
        let bytes = own.values().copied().fold(0, u64::saturating_add);
        let mut largest = Vec::new();
        // A path sorts after all of its parents: from the end, children come first.
        while let Some((path, held)) = own.pop_last() {
            if held > 0 && held >= bytes / LARGE_PART {
                largest.push(DirectorySize { path, bytes: held });
            } else if let Some(parent) = path.parent().and_then(|parent| own.get_mut(parent)) {
                *parent = parent.saturating_add(held);
            }
        }
        largest.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.path.cmp(&b.path)));
        largest.truncate(count);
        Ok(Self { bytes, largest })
    }
}

/// Visits every directory below the source, itself as the empty path, with its entries.
fn walk(dir: &ProfileDir, mut visit: impl FnMut(&Path, &[DirEntry]) -> io::Result<()>) -> io::Result<()> {
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        // What is removed meanwhile was not there.
        let Some(entries) = dir.entries(&directory)? else { continue };
        let directories = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
        waiting.extend(directories.map(|entry| directory.join(&entry.name)));
        visit(&directory, &entries)?;
    }
    Ok(())
}

fn is_leveldb(dir: &ProfileDir, directory: &Path) -> io::Result<bool> {
    Ok(are_leveldb(&dir.entries(directory)?.unwrap_or_default()))
}

fn are_leveldb(entries: &[DirEntry]) -> bool {
    let files = entries.iter().filter(|entry| entry.file_bytes().is_some());
    leveldb::is_leveldb(files.map(|entry| entry.name.as_os_str()))
}

fn is_sqlite(dir: &ProfileDir, path: &Path) -> io::Result<bool> {
    // A journal begins differently, and need not be opened to know that.
    if sqlite::owner(path).is_some() {
        return Ok(false);
    }
    let Some(file) = dir.file(path)? else { return Ok(false) };
    Ok(Identity::of(&sqlite::start(&file, HEADER_BYTES)?) != Identity::Other)
}

fn has_journal(dir: &ProfileDir, path: &Path) -> io::Result<bool> {
    let Some(file) = dir.file(path)? else { return Ok(false) };
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    Ok(dir.file(&with_suffix(path, "-journal"))?.is_some() || dir.file(&with_suffix(path, "-wal"))?.is_some())
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
