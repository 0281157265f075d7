//! `SnapshotFiles` finds the regular files of a snapshot by need, for an examiner.

use std::{
    collections::HashMap,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::runtime::Handle;

use super::extract::path;
use crate::{
    Result,
    content::snapshot_tree::SnapshotTree,
    format::tree::{Kind, TreePath},
    ops::write::snapshot::TreeFiles,
};

/// The regular files of a snapshot. Its methods block.
#[derive(Debug)]
pub struct SnapshotFiles {
    tree: Arc<SnapshotTree>,
    /// How some of them begin.
    heads: HashMap<PathBuf, Vec<u8>>,
    runtime: Handle,
}

impl SnapshotFiles {
    /// Those of a tree, of which `heads` says how some begin. To be made where tasks run.
    pub fn new(tree: Arc<SnapshotTree>, heads: HashMap<PathBuf, Vec<u8>>) -> Self {
        Self { tree, heads, runtime: Handle::current() }
    }
}

impl TreeFiles for SnapshotFiles {
    fn has(&self, path: &Path) -> Result<bool> {
        let Ok(path) = TreePath::new(path.as_os_str().as_bytes()) else { return Ok(false) };
        let found = self.runtime.block_on(self.tree.entry(&path))?;
        Ok(found.is_some_and(|entry| matches!(entry.kind, Kind::File { .. })))
    }

    fn within(&self, folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        let (mut files, mut folders) = (Vec::new(), Vec::new());
        let Ok(folder) = TreePath::new(folder.as_os_str().as_bytes()) else { return Ok((files, folders)) };
        for child in self.runtime.block_on(self.tree.children(&folder))? {
            match child.kind {
                Kind::File { .. } => files.push(path(&child)),
                Kind::Directory => folders.push(path(&child)),
                _ => {}
            }
        }
        Ok((files, folders))
    }

    fn head(&self, path: &Path, most: usize) -> Option<Vec<u8>> {
        let head = self.heads.get(path)?;
        Some(head[..head.len().min(most)].to_vec())
    }
}
