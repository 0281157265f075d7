//! `ChangesSince` lists what a mount changed since its last checkpoint, which `CheckpointBase` remembers as if it were
//! the snapshot below.
//!
//! So each snapshot is made of what has changed since the one before, whatever the mount was mounted from. It holds for the
//! end of the next epoch alone: another freeze in between forgets what was cut off of files before it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use store::{
    Error, Result, content::snapshot_tree::SnapshotTree, format::tree::TreePath,
    ops::write::commit::TreeChanges,
};
use tokio::runtime::Handle;

use super::{ChangedFiles, FrozenNodes};
use crate::{
    lower::LowerFile,
    overlay::{
        base_tree::BaseTree,
        node::{FileNode, Ino, Node, NodeKind},
        nodes::Nodes,
        numbers::Numbers,
        places::Places,
        rebase::{NewBase, Rebase},
        tree_changes::ChangedTree,
    },
};

/// A snapshot that was taken before, and what it is to the nodes of the mount.
#[derive(Debug)]
pub struct CheckpointBase {
    onto: NewBase,
    /// What was below the mount then.
    below: Option<Arc<SnapshotTree>>,
    /// The paths that it leaves out.
    left_out: Vec<String>,
    /// The directories that these lay in, by where they were. The root is always where it was.
    directories: BTreeMap<String, Ino>,
}

/// What has changed since the snapshot before, or since the one below.
#[derive(Debug)]
pub struct ChangesSince {
    pub changes: TreeChanges,
    /// The files whose content must be read, as the changes number them.
    pub files: Arc<ChangedFiles>,
    /// The sizes of all files of the tree.
    pub bytes: u64,
    pub taken: TakenSince,
}

/// What a snapshot is taken of, as the next one needs it.
#[derive(Debug)]
pub struct TakenSince {
    epoch: u64,
    nodes: Arc<Nodes>,
    numbers: Arc<Numbers>,
    /// Where the tree has the nodes that the snapshot below the mount has elsewhere, or not at all.
    paths: HashMap<Ino, Vec<TreePath>>,
    /// What the snapshots before have of the files whose bytes are not those of the snapshot below the mount.
    lowers: HashMap<Ino, Arc<LowerFile>>,
    /// The files that have other bytes since.
    read: Vec<Ino>,
    left_out: Vec<String>,
    /// The directories that these lie in.
    directories: BTreeMap<String, Ino>,
}

impl CheckpointBase {
    /// Whether a node was there when it was taken, and it does not have it.
    fn lacks(&self, ino: Ino) -> bool {
        ino < self.onto.taken.next_ino() && !self.onto.base.has(ino)
    }
}

impl FrozenNodes {
    /// Whether what has changed since `standing` can be told if these paths are left out: nothing else was taken of the
    /// mount in between, nothing that was left out then is wanted now, and the directories that it lay in are where they
    /// were.
    pub async fn follows(&self, standing: &CheckpointBase, left_out: &[String]) -> Result<bool> {
        let below = self.nodes.base.as_ref().map(|base| &base.tree);
        let is_above_the_same = match (below, &standing.below) {
            (Some(below), Some(then)) => Arc::ptr_eq(below, then),
            (None, None) => true,
            _ => false,
        };
        if !is_above_the_same || self.epoch != standing.onto.epoch + 1 || self.has_moved(standing, left_out) {
            return Ok(false);
        }
        for (path, ino) in &standing.directories {
            // What has moved along with its directory is as below, so the table does not name it.
            if self.at(path).await? != Some(*ino) {
                return Ok(false);
            }
        }
        for path in standing.left_out.iter().filter(|path| !left_out.contains(path)) {
            // What is new there is known whole.
            if self.at(path).await?.is_some_and(|ino| standing.lacks(ino)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether something that was left out then has got a name where it is wanted: what is in it is known from the snapshot
    /// below the mount alone.
    fn has_moved(&self, standing: &CheckpointBase, left_out: &[String]) -> bool {
        let left_out = [&self.reading.0.exclusions, left_out].concat();
        let is_wanted = |path: &TreePath| !left_out.iter().any(|top| is_at_or_below(path, top));
        let was_left_out = |ino: Ino, node: &Node| {
            let is_stored =
                matches!(node.kind, NodeKind::File(_) | NodeKind::Directory(_) | NodeKind::Symlink { .. });
            is_stored && node.names > 0 && standing.lacks(ino)
        };
        let mut found = self.nodes.table.iter().filter(|(ino, node)| was_left_out(*ino, node)).peekable();
        if found.peek().is_none() {
            return false;
        }
        let places = Places::of(&self.nodes.table);
        found.any(|(ino, node)| places.paths(ino, &node.below).iter().any(is_wanted))
    }

    /// The directories, but for the root, that the mount has something in that is left out.
    async fn directories_of(&self, left_out: &[String]) -> Result<BTreeMap<String, Ino>> {
        let mut found: BTreeMap<String, Ino> = BTreeMap::new();
        for path in self.reading.0.exclusions.iter().chain(left_out) {
            let Some((directory, _)) = path.rsplit_once('/') else { continue };
            if found.contains_key(directory) {
                continue;
            }
            if let Some(ino) = self.at(directory).await? {
                found.insert(directory.to_owned(), ino);
            }
        }
        Ok(found)
    }

    /// What has this path.
    async fn at(&self, path: &str) -> Result<Option<Ino>> {
        let mut ino = Ino::ROOT;
        for name in path.split('/') {
            let Some(node) = self.nodes.fetch(ino).await? else { return Ok(None) };
            match self.nodes.fetch_child(&node, name.as_bytes()).await? {
                Some(child) => ino = child,
                None => return Ok(None),
            }
        }
        Ok(Some(ino))
    }

    /// What has changed since `standing`, which must [be followed](Self::follows); without one, since the snapshot below.
    /// What is at a path of `left_out` is left out, too. Nothing is held up meanwhile.
    pub async fn since(
        &self,
        standing: Option<&CheckpointBase>,
        left_out: &[String],
        runtime: &Handle,
    ) -> Result<ChangesSince> {
        let fs = &self.reading.0;
        let directories = self.directories_of(left_out).await?;
        let seen = match standing {
            Some(standing) => Arc::new(self.above(standing)),
            None => Arc::clone(&self.nodes),
        };
        let ChangedTree { changes, files, numbers, paths: put, bytes, .. } =
            ChangedTree::of(&seen, &[&fs.exclusions, left_out].concat()).await?;
        let (mut paths, mut lowers) = match standing {
            Some(CheckpointBase { onto, .. }) => (onto.paths.clone(), onto.files.clone()),
            None => Default::default(),
        };
        paths.extend(put);
        lowers.retain(|ino, _| numbers.ordinal(*ino).is_some());
        let read = files.iter().map(|(ino, _)| *ino).collect();
        // What was written is read from where it was written to, though the snapshot before has it, too.
        let written = |(ino, file): &(Ino, FileNode)| {
            self.nodes.table.get(*ino).and_then(Node::file).unwrap_or(file).clone()
        };
        let contents = files.iter().map(written).collect();
        let files = ChangedFiles::read_from(Arc::clone(fs), files, contents, runtime.clone());
        let (epoch, nodes) = (self.epoch, Arc::clone(&self.nodes));
        let taken = TakenSince {
            epoch,
            nodes,
            numbers: Arc::new(numbers),
            paths,
            lowers,
            read,
            left_out: left_out.to_vec(),
            directories,
        };
        Ok(ChangesSince { changes, files: Arc::new(files), bytes, taken })
    }

    /// The nodes as they are if `standing` is what is below.
    fn above(&self, standing: &CheckpointBase) -> Nodes {
        let mut nodes = Nodes::clone(&self.nodes);
        let plan = Rebase::plan(&nodes.table, standing.onto.clone());
        plan.apply(&mut nodes);
        nodes
    }
}

fn is_at_or_below(path: &TreePath, top: &str) -> bool {
    let rest = path.as_bytes().strip_prefix(top.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

impl TakenSince {
    /// The snapshot that was made of it and has this tree, for the next one to stand on.
    pub async fn stored_as(self, tree: Arc<SnapshotTree>) -> Result<CheckpointBase> {
        let Self { epoch, nodes, numbers, paths, lowers: mut files, read, left_out, directories } = self;
        if numbers.len() != tree.len() {
            let what = format!("{} entries were taken, {} are stored", numbers.len(), tree.len());
            return Err(Error::Internal { what });
        }
        for ino in read {
            let Some(path) = paths.get(&ino).and_then(|paths| paths.first()) else { continue };
            let Some(file) = tree.file(path).await? else { continue };
            let mut locations = file.pieces.iter().map(|piece| piece.location);
            files.extend(LowerFile::of(&file.entry, &mut locations).map(|lower| (ino, Arc::new(lower))));
        }
        let below = nodes.base.as_ref().map(|base| Arc::clone(&base.tree));
        let taken = Arc::new(nodes.table.clone());
        Ok(CheckpointBase {
            onto: NewBase { base: BaseTree { tree, numbers }, taken, epoch, paths, files },
            below,
            left_out,
            directories,
        })
    }
}
