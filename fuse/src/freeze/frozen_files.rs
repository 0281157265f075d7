//! `FrozenFiles` finds the regular files of a frozen tree by path, and reads them as they were when the epoch
//! ended. It looks up what it is asked for.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use store::{Result, format::tree::TreePath, ops::write::snapshot::TreeFiles};
use tokio::runtime::Handle;

use super::{ChangedFiles, FrozenNodes};
use crate::{
    attributes::FileKind,
    overlay::{
        node::{Ino, Node},
        nodes::Named,
    },
};

/// The files of a frozen tree. Its methods block.
#[derive(Debug)]
pub struct FrozenFiles<'a> {
    frozen: &'a FrozenNodes,
    runtime: Handle,
}

/// One of them.
#[derive(Debug)]
pub struct FrozenFile(ChangedFiles);

impl<'a> FrozenFiles<'a> {
    pub fn of(frozen: &'a FrozenNodes, runtime: &Handle) -> Self {
        Self { frozen, runtime: runtime.clone() }
    }

    /// The regular file at `path`.
    pub fn file(&self, path: &Path) -> Result<Option<FrozenFile>> {
        let Some((ino, node)) = self.node(path)? else { return Ok(None) };
        let Some(file) = node.file().cloned() else { return Ok(None) };
        let fs = Arc::clone(&self.frozen.reading.0);
        Ok(Some(FrozenFile(ChangedFiles::new(fs, vec![(ino, file)], self.runtime.clone()))))
    }

    /// Whether a directory, a file or a symlink is at `path`, and which of them.
    pub fn kind(&self, path: &Path) -> Result<Option<FileKind>> {
        Ok(self.node(path)?.map(|(_, node)| crate::attributes::kind_of(&node)))
    }

    fn node(&self, path: &Path) -> Result<Option<(Ino, Node)>> {
        let nodes = &self.frozen.nodes;
        let (mut ino, mut so_far) = (Ino::ROOT, PathBuf::new());
        let Some(mut node) = self.runtime.block_on(nodes.fetch(ino))? else { return Ok(None) };
        for part in path.components() {
            let Component::Normal(name) = part else { return Ok(None) };
            so_far.push(name);
            if self.is_excluded(&so_far) {
                return Ok(None);
            }
            let child = self.runtime.block_on(nodes.fetch_child(&node, name.as_bytes()))?;
            let Some(child) = child else { return Ok(None) };
            let Some(found) = self.runtime.block_on(nodes.fetch(child))? else { return Ok(None) };
            (ino, node) = (child, found);
        }
        Ok(Some((ino, node)))
    }

    fn is_excluded(&self, path: &Path) -> bool {
        self.frozen.reading.0.exclusions.iter().any(|excluded| Path::new(excluded) == path)
    }
}

impl TreeFiles for FrozenFiles<'_> {
    fn has(&self, path: &Path) -> Result<bool> {
        Ok(self.node(path)?.is_some_and(|(_, node)| node.file().is_some()))
    }

    fn within(&self, folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let Some((_, node)) = self.node(folder)? else { return Ok((Vec::new(), Vec::new())) };
        let names = self.runtime.block_on(self.frozen.nodes.fetch_names(&node))?;
        let of_kind = |kind: FileKind| {
            let named = names.iter().filter(move |named| named.kind == kind);
            let path = |named: &Named| folder.join(OsStr::from_bytes(&named.name));
            named.map(path).filter(|path| !self.is_excluded(path)).collect()
        };
        Ok((of_kind(FileKind::File), of_kind(FileKind::Directory)))
    }

    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        let file = self.file(path).ok()??;
        let mut head = vec![0; most.min(file.size() as usize)];
        file.read(0, &mut head).ok()?;
        Some(head)
    }
}

impl FrozenFile {
    pub fn size(&self) -> u64 {
        self.0.size(0)
    }

    /// Reads what is at `offset`, as long as `into`, which must not reach beyond its end. Blocks.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.0.read_at(0, offset, into)
    }
}

/// The path of an entry, below the top of its tree.
pub fn to_path(path: &TreePath) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.as_bytes()))
}
