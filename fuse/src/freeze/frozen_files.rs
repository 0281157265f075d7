//! `FrozenFiles` finds the regular files of a frozen tree by path, and reads them as they were when the epoch
//! ended.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use store::{Result, format::tree::Entry};

use super::{ChangedFiles, Frozen};
use crate::overlay::node::Ino;

#[derive(Debug)]
pub struct FrozenFiles<'a> {
    files: BTreeMap<PathBuf, FrozenFile<'a>>,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct FrozenFile<'a> {
    among: &'a ChangedFiles,
    at: usize,
}

impl<'a> FrozenFiles<'a> {
    pub fn at(frozen: &'a Frozen) -> Self {
        let files = [&frozen.files, &frozen.others];
        let numbered: HashMap<Ino, FrozenFile<'a>> = files
            .into_iter()
            .flat_map(|among| {
                among.numbers().enumerate().map(move |(at, ino)| (ino, FrozenFile { among, at }))
            })
            .collect();
        // The names of one file have one number.
        let named = frozen.entries.iter().zip(&frozen.numbers);
        let files = named.filter_map(|(entry, ino)| Some((path(entry), *numbered.get(ino)?))).collect();
        Self { files }
    }

    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.keys()
    }

    pub fn file(&self, path: &Path) -> Option<FrozenFile<'a>> {
        self.files.get(path).copied()
    }

    /// How a file begins, unless that cannot be read.
    pub fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        let file = self.file(path)?;
        let mut head = vec![0; most.min(file.size() as usize)];
        file.read(0, &mut head).ok()?;
        Some(head)
    }
}

impl FrozenFile<'_> {
    pub fn size(self) -> u64 {
        self.among.size(self.at)
    }

    /// Reads what is at `offset`, as long as `into`, which must not reach beyond its end. Blocks.
    pub fn read(self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.among.read_at(self.at, offset, into)
    }
}

pub fn path(entry: &Entry) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(entry.path.as_bytes()))
}
