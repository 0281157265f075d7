//! `Image` is the content of a disk, flushed and not.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

pub(super) const ROOT: u64 = 1;

/// The unflushed data that has reached the disk when its power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    pub names: bool,
    pub bytes: bool,
}

impl Reached {
    pub const EVERYTHING: Self = Self { names: true, bytes: true };
    /// From nothing to everything.
    pub const ALL: [Self; 4] = [
        Self { names: false, bytes: false },
        Self { names: true, bytes: false },
        Self { names: false, bytes: true },
        Self::EVERYTHING,
    ];
}

/// All of a disk at one moment. A copy shares unchanged parts.
#[derive(Clone, Debug)]
pub struct Image {
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) next: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File { bytes: Arc<Vec<u8>>, flushed: Arc<Vec<u8>> },
    Folder { names: Names, flushed: Names },
}

pub(super) type Names = BTreeMap<String, u64>;

impl Default for Image {
    fn default() -> Self {
        Self { nodes: BTreeMap::from([(ROOT, Node::folder())]), next: ROOT + 1 }
    }
}

impl Node {
    pub(super) fn file() -> Self {
        Self::File { bytes: Arc::default(), flushed: Arc::default() }
    }

    pub(super) fn folder() -> Self {
        Self::Folder { names: Names::new(), flushed: Names::new() }
    }

    pub(super) fn flush(&mut self) {
        match self {
            Self::File { bytes, flushed } => *flushed = Arc::clone(bytes),
            Self::Folder { names, flushed } => flushed.clone_from(names),
        }
    }
}

impl Image {
    pub(super) fn flush_all(&mut self) {
        self.nodes.values_mut().for_each(Node::flush);
    }

    pub(super) fn add(&mut self, node: Node) -> u64 {
        self.nodes.insert(self.next, node);
        self.next += 1;
        self.next - 1
    }

    pub(super) fn names(&self, folder: u64) -> Option<&Names> {
        match self.nodes.get(&folder)? {
            Node::Folder { names, .. } => Some(names),
            Node::File { .. } => None,
        }
    }

    pub(super) fn names_mut(&mut self, folder: u64) -> Option<&mut Names> {
        match self.nodes.get_mut(&folder)? {
            Node::Folder { names, .. } => Some(names),
            Node::File { .. } => None,
        }
    }

    pub(super) fn bytes_mut(&mut self, file: u64) -> Option<&mut Vec<u8>> {
        match self.nodes.get_mut(&file)? {
            Node::File { bytes, .. } => Some(Arc::make_mut(bytes)),
            Node::Folder { .. } => None,
        }
    }

    /// Writes the disk's content after the power has failed into `folder`, which exists.
    pub fn write_to(&self, folder: &Path, reached: Reached) {
        let mut open = vec![(ROOT, folder.to_owned())];
        while let Some((node, path)) = open.pop() {
            match &self.nodes[&node] {
                Node::File { bytes, flushed } => {
                    fs::write(path, &***if reached.bytes { bytes } else { flushed }).unwrap();
                }
                Node::Folder { names, flushed } => {
                    if node != ROOT {
                        fs::create_dir(&path).unwrap();
                    }
                    let names = if reached.names { names } else { flushed };
                    open.extend(names.iter().map(|(name, node)| (*node, path.join(name))));
                }
            }
        }
    }
}
