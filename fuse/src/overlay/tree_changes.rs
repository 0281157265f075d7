//! `ChangedTree` lists what has changed since the snapshot below, for a commit; it looks at changed nodes alone.
//!
//! What was changed in place is put in its place. What was moved or is new is listed whole, at its new path; where it
//! was, it is removed. A node of several names is put at all of them: the first in order is the file, the others link to it.

use std::collections::{BTreeMap, HashMap, HashSet};

use store::{
    Error, Result,
    format::{
        FormatError,
        tree::{Entry, Extent, Kind, Meta, TreePath},
    },
    ops::write::commit::{PutEntry, TreeChange, TreeChanges},
    tree::walk::Skipped,
};

use super::{
    base_tree::BaseTree,
    collect::meta,
    node::{FileNode, Ino, Node, NodeKind},
    nodes::Nodes,
    numbers::{Builder, NONE, Numbers},
    places::Places,
};
use crate::lower::Piece;

/// The changes of a tree, and what its nodes are in it.
#[derive(Debug)]
pub struct ChangedTree {
    pub changes: TreeChanges,
    /// The files whose content must be read, as the changes number them.
    pub files: Vec<(Ino, FileNode)>,
    /// The numbers of the entries of the tree that they make.
    pub numbers: Numbers,
    /// Where that tree has the nodes that are put.
    pub paths: HashMap<Ino, Vec<TreePath>>,
    /// The sizes of all its files.
    pub bytes: u64,
    /// The paths that the snapshot below has and that tree lacks, or has anew.
    pub removed: Vec<TreePath>,
}

impl ChangedTree {
    /// What became of what is below `nodes`. What is at a path of `exclusions` is left out.
    pub async fn of(nodes: &Nodes, exclusions: &[String]) -> Result<Self> {
        let places = Places::of(&nodes.table);
        let mut collector = Collector {
            nodes,
            exclusions,
            places,
            found: BTreeMap::new(),
            grouped: HashSet::new(),
            skipped: Skipped::default(),
        };
        match &nodes.base {
            Some(base) => collector.compare(base).await?,
            None => collector.put_all(TreePath::root(), Ino::ROOT).await?,
        }
        let Collector { found, skipped, .. } = collector;
        let numbers = numbered(nodes.base.as_ref(), &found).await?;
        let (bytes, removed) = content(nodes.base.as_ref(), &found).await?;
        Ok(Self { bytes, removed, ..Self::gathered(found, numbers, skipped) })
    }

    fn gathered(found: BTreeMap<TreePath, Change>, numbers: Numbers, skipped: Skipped) -> Self {
        let (mut changes, mut files) = (Vec::new(), Vec::new());
        let mut paths: HashMap<Ino, Vec<TreePath>> = HashMap::new();
        let mut removed: Option<TreePath> = None;
        for (path, change) in found {
            let is_removed = removed.as_ref().is_some_and(|removed| path.is_within(removed));
            if change.is_removed && !is_removed {
                changes.push(TreeChange::Removed(path.clone()));
                removed = Some(path.clone());
            }
            let Some(Put { ino, entry, content, pieces, .. }) = change.put else { continue };
            paths.entry(ino).or_default().push(path);
            let file = content.map(|content| {
                files.push((ino, content));
                files.len() - 1
            });
            changes.push(TreeChange::Put(PutEntry { entry, file, pieces }));
        }
        Self {
            changes: TreeChanges { changes, skipped },
            files,
            numbers,
            paths,
            bytes: 0,
            removed: Vec::new(),
        }
    }
}

/// What becomes of one path.
#[derive(Debug, Default)]
struct Change {
    /// What the snapshot has there, and all below it, is gone.
    is_removed: bool,
    put: Option<Put>,
}

#[derive(Debug)]
struct Put {
    ino: Ino,
    /// Whether the node has its number by this entry, or by another.
    is_first: bool,
    entry: Entry,
    content: Option<FileNode>,
    pieces: Vec<Piece>,
}

struct Collector<'a> {
    nodes: &'a Nodes,
    exclusions: &'a [String],
    places: Places<'a>,
    found: BTreeMap<TreePath, Change>,
    /// Nodes of several names that were put.
    grouped: HashSet<Ino>,
    skipped: Skipped,
}

impl Collector<'_> {
    /// Finds what differs from `base`.
    async fn compare(&mut self, base: &BaseTree) -> Result<()> {
        for excluded in self.exclusions {
            let path = TreePath::new(excluded.as_bytes()).map_err(unstorable)?;
            if base.tree.entry(&path).await?.is_some() {
                self.remove(path);
            }
        }
        let mut held: Vec<(Ino, &Node)> = self.nodes.table.iter().collect();
        held.sort_unstable_by_key(|(ino, _)| *ino);
        for (ino, node) in held {
            let stays: Vec<TreePath> =
                node.below.iter().filter(|path| self.places.stays(path, ino)).cloned().collect();
            for path in stays {
                if let Some(directory) = node.directory() {
                    for (name, slot) in &directory.slots {
                        let child = path.join(name).map_err(unstorable)?;
                        self.compare_name(child, slot.ino, slot.in_base).await?;
                    }
                }
                if node.changed > 0 || node.file().is_some_and(|file| !file.is_as_below()) {
                    self.put(path, ino, node, true)?;
                }
            }
        }
        Ok(())
    }

    /// A name of a directory that is where it was.
    async fn compare_name(&mut self, path: TreePath, ino: Option<Ino>, in_base: bool) -> Result<()> {
        let Some(ino) = ino else {
            if in_base {
                self.remove(path);
            }
            return Ok(());
        };
        let is_same = in_base && self.nodes.fetch(ino).await?.is_some_and(|node| node.below.contains(&path));
        if is_same {
            return Ok(());
        }
        if in_base {
            self.remove(path.clone());
        }
        self.put_all(path, ino).await
    }

    /// Puts a node with all below it, without recursion: a tree may be deep.
    async fn put_all(&mut self, path: TreePath, ino: Ino) -> Result<()> {
        let mut open = vec![(path, ino)];
        while let Some((path, ino)) = open.pop() {
            let Some(node) = self.nodes.fetch(ino).await? else { continue };
            if !self.put(path.clone(), ino, &node, false)? || node.directory().is_none() {
                continue;
            }
            for named in self.nodes.fetch_names(&node).await?.into_iter().rev() {
                open.push((path.join(&named.name).map_err(unstorable)?, named.ino));
            }
        }
        Ok(())
    }

    /// Puts a node at a path; says whether it is stored there. What is not is removed, if it is there.
    fn put(&mut self, path: TreePath, ino: Ino, node: &Node, is_there: bool) -> Result<bool> {
        let skipped = match &node.kind {
            NodeKind::Fifo => Some(&mut self.skipped.fifos),
            NodeKind::Socket => Some(&mut self.skipped.sockets),
            NodeKind::CharDevice { .. } | NodeKind::BlockDevice { .. } => Some(&mut self.skipped.devices),
            _ => None,
        };
        if let Some(skipped) = skipped {
            *skipped += 1;
            if is_there {
                self.remove(path);
            }
            return Ok(false);
        }
        if self.is_excluded(&path) {
            return Ok(false);
        }
        if node.names > 1 && node.directory().is_none() {
            self.put_group(ino, node);
        } else {
            let put = first(path.clone(), ino, node);
            self.found.entry(path).or_default().put = Some(put);
        }
        Ok(true)
    }

    /// Puts a node of several names at all of them.
    fn put_group(&mut self, ino: Ino, node: &Node) {
        if !self.grouped.insert(ino) {
            return;
        }
        let mut paths = self.places.paths(ino, &node.below);
        paths.retain(|path| !self.is_excluded(path));
        let Some(target) = paths.first().cloned() else { return };
        for path in paths {
            let mut put = first(path.clone(), ino, node);
            put.is_first = path == target;
            if !put.is_first && node.file().is_some() {
                let kind = Kind::HardLink { target: target.clone() };
                put.entry = Entry { path: path.clone(), meta: Meta::default(), kind };
                (put.content, put.pieces) = (None, Vec::new());
            }
            self.found.entry(path).or_default().put = Some(put);
        }
    }

    fn remove(&mut self, path: TreePath) {
        self.found.entry(path).or_default().is_removed = true;
    }

    fn is_excluded(&self, path: &TreePath) -> bool {
        self.exclusions.iter().any(|excluded| excluded.as_bytes() == path.as_bytes())
    }
}

/// A node at the path by which it has its number.
fn first(path: TreePath, ino: Ino, node: &Node) -> Put {
    let (mut content, mut pieces) = (None, Vec::new());
    let kind = match &node.kind {
        NodeKind::Symlink { target } => Kind::Symlink { target: target.clone() },
        NodeKind::File(file) => {
            let lower = file.lower.as_deref();
            pieces = lower.into_iter().flat_map(|lower| lower.pieces(0..lower.size())).collect();
            let mut extents: Vec<Extent> = Vec::new();
            if file.is_as_below() {
                extents =
                    lower.into_iter().flat_map(|lower| lower.parts()).map(|part| part.extent()).collect();
            } else {
                content = Some(file.clone());
            }
            Kind::File { size: file.size, extents }
        }
        _ => Kind::Directory,
    };
    let entry = Entry { path, meta: meta(node), kind };
    Put { ino, is_first: true, entry, content, pieces }
}

/// The numbers of the tree that is made of `base` by what was found.
async fn numbered(base: Option<&BaseTree>, found: &BTreeMap<TreePath, Change>) -> Result<Numbers> {
    let mut builder = Builder::default();
    let mut at = 0;
    for (path, change) in found {
        if let Some(BaseTree { tree, numbers }) = base {
            let rank = tree.rank(path.as_bytes()).await?.max(at);
            builder.copy(numbers, at..rank);
            at = rank;
            if change.is_removed {
                at = at.max(tree.rank_after(path).await?);
            } else if change.put.is_some() && tree.find(path).await?.is_some_and(|found| found.ordinal == at)
            {
                at += 1;
            }
        }
        match &change.put {
            Some(Put { ino, is_first: true, .. }) => builder.push(*ino, 1),
            Some(Put { ino, entry, .. }) if matches!(entry.kind, Kind::Symlink { .. }) => {
                builder.push_alias(*ino);
            }
            Some(_) => builder.push(NONE, 1),
            None => {}
        }
    }
    if let Some(BaseTree { numbers, .. }) = base {
        builder.copy(numbers, at..numbers.len());
    }
    Ok(builder.finish())
}

/// The sizes of all files of the tree that is made of `base` by what was found, and the paths that were removed of it.
async fn content(
    base: Option<&BaseTree>,
    found: &BTreeMap<TreePath, Change>,
) -> Result<(u64, Vec<TreePath>)> {
    let puts = found.values().filter_map(|change| change.put.as_ref());
    let put: u64 = puts.map(|put| put.entry.size()).sum();
    let Some(BaseTree { tree, .. }) = base else { return Ok((put, Vec::new())) };
    let (mut lost, mut removed, mut within) = (0, Vec::new(), None::<&TreePath>);
    for (path, change) in found {
        if within.is_some_and(|removed| path.is_within(removed)) {
            continue;
        }
        lost += tree.entry(path).await?.map_or(0, |entry| entry.size());
        if change.is_removed {
            removed.push(path.clone());
            let below = |entry: &Entry| {
                lost += entry.size();
                removed.push(entry.path.clone());
            };
            tree.below(path, below).await?;
            within = Some(path);
        }
    }
    Ok(((tree.content_bytes() + put).saturating_sub(lost), removed))
}

fn unstorable(error: FormatError) -> Error {
    Error::InvalidInput { what: format!("the tree cannot be stored: {error}") }
}
