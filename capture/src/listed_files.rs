//! `ListedFiles` answers which files a tree has from a list of paths, without reading a directory.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use store::{Result, ops::write::snapshot::TreeFiles};

/// All files of a tree, and a way to read how one begins.
pub(crate) struct ListedFiles<'a> {
    pub files: &'a BTreeSet<PathBuf>,
    pub head: &'a dyn Fn(&Path, usize) -> Option<Vec<u8>>,
}

impl TreeFiles for ListedFiles<'_> {
    fn has(&self, path: &Path) -> Result<bool> {
        Ok(self.files.contains(path))
    }

    fn within(&self, folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let (mut files, mut folders) = (Vec::new(), BTreeSet::new());
        for path in self.files {
            let Ok(below) = path.strip_prefix(folder) else { continue };
            let mut parts = below.components();
            match (parts.next(), parts.next()) {
                (Some(_), None) => files.push(path.clone()),
                (Some(name), Some(_)) => drop(folders.insert(folder.join(name))),
                (None, _) => {}
            }
        }
        Ok((files, folders.into_iter().collect()))
    }

    fn each_folder(&self, each: &mut dyn FnMut(&[PathBuf]) -> Result<()>) -> Result<()> {
        let mut folders: BTreeMap<&Path, Vec<PathBuf>> = BTreeMap::new();
        for path in self.files {
            folders.entry(path.parent().unwrap_or(Path::new(""))).or_default().push(path.clone());
        }
        folders.values().try_for_each(|files| each(files))
    }

    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        (self.head)(path, most)
    }
}
