//! `Collected` lists the whole tree of nodes, for the few who must know all of it.

use std::collections::HashMap;

use store::{
    Error, Result,
    format::{
        FormatError,
        tree::{Entry, Extent, Kind, Meta, TreePath},
    },
};

use super::{
    node::{Ino, Node, NodeKind},
    nodes::Nodes,
};

/// A tree; the extents of changed files are not known yet.
#[derive(Debug, Default)]
pub struct Collected {
    pub entries: Vec<Entry>,
    /// The number of each entry's node. Entries have the same one if they are names of the same
    /// node, though a snapshot can say that of files alone.
    pub numbers: Vec<Ino>,
}

impl Collected {
    /// Walks the nodes as a capture walks a directory: the same tree has the same entries. What
    /// is at a path of `exclusions` is left out.
    pub async fn of(nodes: &Nodes, exclusions: &[String]) -> Result<Self> {
        let mut collected = Self::default();
        let mut collector = Collector { nodes, exclusions, first: HashMap::new() };
        collector.visit(&mut collected, TreePath::root(), Ino::ROOT).await?;
        Ok(collected)
    }
}

struct Collector<'a> {
    nodes: &'a Nodes,
    exclusions: &'a [String],
    /// The first path of each file that has several.
    first: HashMap<Ino, TreePath>,
}

impl Collector<'_> {
    /// Goes through `root` and everything in it, without recursion: a tree may be deep.
    async fn visit(&mut self, out: &mut Collected, root: TreePath, ino: Ino) -> Result<()> {
        let mut open = vec![(root, ino)];
        while let Some((path, ino)) = open.pop() {
            let Some(node) = self.nodes.fetch(ino).await? else { continue };
            if self.exclusions.iter().any(|excluded| excluded.as_bytes() == path.as_bytes()) {
                continue;
            }
            let Some(kind) = self.kind(&path, ino, &node) else { continue };
            let link = matches!(kind, Kind::HardLink { .. });
            let meta = if link { Meta::default() } else { meta(&node) };
            if node.directory().is_some() {
                for named in self.nodes.fetch_names(&node).await?.into_iter().rev() {
                    open.push((path.join(&named.name).map_err(unstorable)?, named.ino));
                }
            }
            out.entries.push(Entry { path, meta, kind });
            out.numbers.push(ino);
        }
        Ok(())
    }

    fn kind(&mut self, path: &TreePath, ino: Ino, node: &Node) -> Option<Kind> {
        Some(match &node.kind {
            NodeKind::Directory(_) => Kind::Directory,
            NodeKind::Symlink { target } => Kind::Symlink { target: target.clone() },
            // A snapshot does not keep them.
            NodeKind::Fifo | NodeKind::Socket => return None,
            NodeKind::CharDevice { .. } | NodeKind::BlockDevice { .. } => return None,
            NodeKind::File(file) => {
                if node.names > 1 {
                    if let Some(target) = self.first.get(&ino) {
                        return Some(Kind::HardLink { target: target.clone() });
                    }
                    self.first.insert(ino, path.clone());
                }
                let extents = match &file.lower {
                    Some(lower) if file.is_as_below() => {
                        lower.parts().iter().map(|part| part.extent()).collect()
                    }
                    _ => Vec::<Extent>::new(),
                };
                Kind::File { size: file.size, extents }
            }
        })
    }
}

fn unstorable(error: FormatError) -> Error {
    Error::InvalidInput { what: format!("the tree cannot be stored: {error}") }
}

pub(super) fn meta(node: &Node) -> Meta {
    let xattrs = match node.kind {
        NodeKind::File(_) | NodeKind::Directory(_) => {
            node.xattrs.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
        }
        _ => Vec::new(),
    };
    Meta { mode: node.mode, uid: node.uid, gid: node.gid, mtime: node.mtime, xattrs, extensions: Vec::new() }
}
