//! `Examiner` looks at the files that were read before the record becomes live.
//!
//! Files were read one after the other; whether they make a whole together is for an examiner
//! that knows their meaning. It is asked after all of them were read and before the walk
//! that finds out whether anything changed meanwhile: the judged files are the stored ones.

use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    format::{health::Health, record::Record},
};

/// Knows the meaning of a directory's files.
pub trait Examiner: Send + Sync + fmt::Debug {
    /// Looks at the directory `root`. `changed` holds the paths below it that differ from
    /// `base`, also those that are gone; `None` if all of it is to be looked at.
    fn examine(
        &self,
        root: &Path,
        changed: Option<&BTreeSet<PathBuf>>,
        base: Option<&Record>,
    ) -> Result<Examined>;

    /// Why an earlier snapshot, with the same content as the examined files, must not
    /// become the current one by itself, as far as is known of it.
    fn recalls(&self, _twin: &Record) -> Option<HoldBack> {
        None
    }

    /// The files of `tree` whose bytes [`Self::examine`] would look at. With `changed` it asks for no more of the
    /// tree than these concern.
    fn reads(&self, tree: &dyn TreeFiles, changed: Option<&BTreeSet<PathBuf>>) -> Result<BTreeSet<PathBuf>>;
}

/// The regular files of a tree, found by need: a tree may have a million.
pub trait TreeFiles {
    /// Whether a regular file is at `path`.
    fn has(&self, path: &Path) -> Result<bool>;

    /// The contents of the directory `folder`: the paths of its files, then those of its directories. Nothing
    /// if it is no directory.
    fn within(&self, folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)>;

    /// Tells `each` the paths of the files of every directory, one directory after another.
    fn each_folder(&self, each: &mut dyn FnMut(&[PathBuf]) -> Result<()>) -> Result<()> {
        let mut open = vec![PathBuf::new()];
        while let Some(folder) = open.pop() {
            let (files, mut folders) = self.within(&folder)?;
            each(&files)?;
            folders.reverse();
            open.append(&mut folders);
        }
        Ok(())
    }

    /// The first bytes of a file, at most so many; `None` if it cannot be read.
    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>>;
}

/// The result of an examination.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// The findings for the record.
    pub health: Option<Health>,
    /// Why the snapshot must not become the current one by itself.
    pub hold_back: Option<HoldBack>,
}

/// Why a snapshot is stored but the pointer is not moved to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldBack {
    /// Its name: `shrunk`, `damaged`, `fallback`, `logged out`, `unjudged`.
    pub word: &'static str,
    /// For people.
    pub reason: String,
}
