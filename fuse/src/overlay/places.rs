//! `Places` finds out where nodes are: under which paths, and whether that is where the snapshot below has them.

use std::collections::HashMap;

use store::format::tree::TreePath;

use super::{
    inode_table::InodeTable,
    node::{Ino, Node},
};

/// No path has more names.
const MOST_NAMES: usize = 1 << 15;

/// The names of the nodes of a table, by where they lead.
#[derive(Debug)]
pub struct Places<'a> {
    table: &'a InodeTable,
    /// The directories of the table, by where the snapshot has them.
    directories: HashMap<&'a [u8], (Ino, &'a Node)>,
    /// The names of the table, by what they lead to.
    names: HashMap<Ino, Vec<(Ino, &'a [u8])>>,
}

/// A directory on the way up.
enum Step {
    Of(Ino),
    /// The one that the snapshot has at this path.
    Below(Vec<u8>),
}

impl<'a> Places<'a> {
    pub fn of(table: &'a InodeTable) -> Self {
        let mut places = Self { table, directories: HashMap::new(), names: HashMap::new() };
        for (ino, node) in table.iter() {
            let Some(directory) = node.directory() else { continue };
            if let Some(path) = node.below.first() {
                places.directories.insert(path.as_bytes(), (ino, node));
            }
            for (name, slot) in &directory.slots {
                if let Some(child) = slot.ino {
                    places.names.entry(child).or_default().push((ino, name));
                }
            }
        }
        places
    }

    /// All paths of a node that the snapshot has at the paths `below`, in order.
    pub fn paths(&self, ino: Ino, below: &[TreePath]) -> Vec<TreePath> {
        if ino == Ino::ROOT {
            return vec![TreePath::root()];
        }
        let named = self.names.get(&ino).into_iter().flatten();
        let named = named.filter_map(|(parent, name)| self.joined(Step::Of(*parent), name));
        let below = below.iter().filter(|path| self.slot_of(path.as_bytes()).is_none());
        let below = below.filter_map(|path| self.joined(Step::Below(path.parent()?.to_vec()), path.name()));
        let mut paths: Vec<TreePath> = named.chain(below).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Whether what the snapshot has at `path`, the node `ino`, is still there: neither it nor a directory above it
    /// was moved or removed.
    pub fn stays(&self, path: &TreePath, ino: Ino) -> bool {
        let bytes = path.as_bytes();
        let ends = (0..bytes.len()).filter(|at| bytes[*at] == b'/').chain([bytes.len()]);
        ends.filter(|end| *end > 0).all(|end| {
            let prefix = &bytes[..end];
            let there = if end == bytes.len() {
                Some(ino)
            } else {
                self.directories.get(prefix).map(|(ino, _)| *ino)
            };
            match (self.slot_of(prefix), there) {
                (None, _) => true,
                (Some(found), Some(there)) => found == Some(there),
                (Some(_), None) => !self.is_gone(prefix),
            }
        })
    }

    /// Whether the directory that the snapshot has at `path`, and the table has not, was removed. What has its name now
    /// is in the table, as everything is that was made or moved.
    fn is_gone(&self, path: &[u8]) -> bool {
        self.slot_of(path).is_some_and(|found| found.is_none_or(|found| self.table.get(found).is_some()))
    }

    /// What the table says of a path of the snapshot, if anything.
    fn slot_of(&self, path: &[u8]) -> Option<Option<Ino>> {
        let (parent, name) = split(path)?;
        let (_, folder) = self.directories.get(parent)?;
        folder.directory()?.slots.get(name).map(|slot| slot.ino)
    }

    /// The path of a name in a directory, as it is now.
    fn joined(&self, folder: Step, name: &[u8]) -> Option<TreePath> {
        let mut names: Vec<Vec<u8>> = vec![name.to_vec()];
        let mut at = folder;
        while names.len() < MOST_NAMES {
            at = match at {
                Step::Of(Ino::ROOT) => {
                    names.reverse();
                    return TreePath::new(names.join(&b'/')).ok();
                }
                Step::Of(ino) => match self.names.get(&ino).and_then(|named| named.first()) {
                    Some((parent, name)) => {
                        names.push(name.to_vec());
                        Step::Of(*parent)
                    }
                    None => {
                        let path = self.table.get(ino).and_then(|node| node.below.first());
                        let path = path.filter(|path| self.slot_of(path.as_bytes()).is_none())?;
                        names.push(path.name().to_vec());
                        Step::Below(path.parent()?.to_vec())
                    }
                },
                Step::Below(path) => match (self.directories.get(path.as_slice()), split(&path)) {
                    (Some((ino, _)), _) => Step::Of(*ino),
                    (None, None) => Step::Of(Ino::ROOT),
                    (None, Some((parent, name))) => {
                        if self.is_gone(&path) {
                            return None;
                        }
                        names.push(name.to_vec());
                        Step::Below(parent.to_vec())
                    }
                },
            };
        }
        None
    }
}

/// The directory and the name of a path; `None` of the root.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => Some((&path[..at], &path[at + 1..])),
        None => Some((&[], path)),
    }
}
