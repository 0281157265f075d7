//! `TreeBuilder` makes a tree of the members of an archive.
//!
//! An archive lists its members in any order; a tree is sorted, each path is there once,
//! and every entry below another is below a directory. Nothing here touches a file system,
//! so no path in the archive can lead anywhere: but an archive that would, unpacked by
//! another program, write elsewhere is refused all the same.

use std::collections::BTreeMap;

use super::{
    problem::{Problem, Result},
    reader::{Limits, Member, What},
};
use crate::format::tree::{Entry, Extent, Kind, Meta, TreePath};

/// The memory of an entry beside its names and attributes.
const ENTRY_BYTES: usize = 256;
/// And that of an attribute.
const ATTRIBUTE_BYTES: usize = 64;
/// And that of a hole, with the part between it and the next one.
const HOLE_BYTES: usize = 512;
/// Of directories that an archive implies and does not list.
const IMPLIED_MODE: u32 = 0o700;

/// The members of an archive that were read so far.
#[derive(Debug)]
pub struct TreeBuilder {
    limits: Limits,
    nodes: BTreeMap<TreePath, Node>,
    metadata_bytes: usize,
    /// Of all files, also of those that are not stored.
    read_bytes: u64,
    /// Of all files that are stored, each once.
    pub bytes: u64,
    /// FIFOs that were left out.
    pub fifos: u64,
    /// Devices that were left out.
    pub devices: u64,
}

#[derive(Debug)]
struct Node {
    meta: Meta,
    state: BuilderState,
}

#[derive(Debug)]
enum BuilderState {
    /// A directory that is only there because something is in it.
    Implied,
    Directory,
    File(Vec<Extent>),
    Symlink(Vec<u8>),
    /// Another name of the file that was listed at this path.
    Link(TreePath),
    /// Not stored.
    LeftOut,
}

impl TreeBuilder {
    /// An empty tree that takes in no more than `limits` allow.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            nodes: BTreeMap::new(),
            metadata_bytes: 0,
            read_bytes: 0,
            bytes: 0,
            fifos: 0,
            devices: 0,
        }
    }

    /// Takes in a member, but for its content: that of a file is to be given to
    /// [`TreeBuilder::fill`].
    pub fn add(&mut self, member: Member) -> Result<()> {
        let Member { path, mut meta, what } = member;
        // As a capture stores it: what would lend rights is not the archive's to give.
        meta.make_plain();
        let shown = path.to_string();
        let state = match what {
            What::Directory => BuilderState::Directory,
            What::File { size, holes } => {
                self.read(size)?;
                self.charge(holes.len() * HOLE_BYTES)?;
                self.bytes = self.bytes.saturating_add(size);
                BuilderState::File(Vec::new())
            }
            What::Symlink { target } => BuilderState::Symlink(target),
            What::HardLink { target } => self.link(&shown, target)?,
            What::Fifo => {
                self.fifos += 1;
                BuilderState::LeftOut
            }
            What::Device => {
                self.devices += 1;
                BuilderState::LeftOut
            }
        };
        self.insert(path, Node { meta, state }, &shown)
    }

    /// Takes in a file that is stored already, with what it consists of.
    pub(crate) fn carry(&mut self, entry: &Entry) -> Result<()> {
        let Kind::File { size, extents } = &entry.kind else { return Ok(()) };
        let what = What::File { size: *size, holes: Vec::new() };
        self.add(Member { path: entry.path.clone(), meta: entry.meta.clone(), what })?;
        self.fill(&entry.path, extents.clone());
        Ok(())
    }

    /// A member that is not to be stored, and nothing below it either.
    pub(crate) fn leave_out(&mut self, path: TreePath, what: &What) -> Result<()> {
        if let What::File { size, .. } = what {
            self.read(*size)?;
        }
        let shown = path.to_string();
        self.insert(path, Node { meta: Meta::default(), state: BuilderState::LeftOut }, &shown)
    }

    fn read(&mut self, size: u64) -> Result<()> {
        self.read_bytes = self.read_bytes.saturating_add(size);
        if self.read_bytes > self.limits.bytes {
            return Err(Problem::TooLarge(self.read_bytes));
        }
        Ok(())
    }

    /// Sets the content of a file.
    pub fn fill(&mut self, path: &TreePath, content: Vec<Extent>) {
        if let Some(Node { state: BuilderState::File(extents), .. }) = self.nodes.get_mut(path) {
            *extents = content;
        }
    }

    /// All entries, in the order of a tree. A file with several names is a file where it
    /// comes first, and a link elsewhere.
    pub fn into_entries(mut self) -> Vec<Entry> {
        let mut first: BTreeMap<TreePath, TreePath> = BTreeMap::new();
        for (path, node) in &self.nodes {
            if let BuilderState::Link(file) = &node.state {
                first.entry(file.clone()).or_insert_with(|| path.clone().min(file.clone()));
            }
        }
        // Only where a link comes before its file do the two change places.
        for (file, first) in first.iter().filter(|(file, first)| file != first) {
            let (Some(mut file_node), Some(link)) = (self.nodes.remove(file), self.nodes.get_mut(first))
            else {
                continue;
            };
            std::mem::swap(&mut file_node, link);
            self.nodes.insert(file.clone(), file_node);
        }
        let name = |file: TreePath| first.get(&file).cloned().unwrap_or(file);
        let entry = |(path, node): (TreePath, Node)| {
            let kind = match node.state {
                BuilderState::Implied | BuilderState::Directory => Kind::Directory,
                BuilderState::File(extents) => {
                    Kind::File { size: extents.iter().map(Extent::len).sum(), extents }
                }
                BuilderState::Symlink(target) => Kind::Symlink { target },
                BuilderState::Link(file) => Kind::HardLink { target: name(file) },
                BuilderState::LeftOut => return None,
            };
            Some(Entry { path, meta: node.meta, kind })
        };
        self.nodes.into_iter().filter_map(entry).collect()
    }

    fn insert(&mut self, path: TreePath, node: Node, shown: &str) -> Result<()> {
        self.make_parents(&path, &node.meta, shown)?;
        if path.is_root() && !matches!(node.state, BuilderState::Directory) {
            return Err(Problem::bad("its root is not a directory"));
        }
        match self.nodes.get_mut(&path) {
            None => self.place(path, node),
            Some(found) if matches!(found.state, BuilderState::Implied) => {
                if !matches!(node.state, BuilderState::Directory) {
                    return Err(Problem::bad(format!(
                        "{shown} is no directory, though something is below it"
                    )));
                }
                let attributes = attributes_bytes(&node.meta);
                *found = node;
                self.charge(attributes)
            }
            Some(_) => Err(Problem::bad(format!("{shown} is there twice"))),
        }
    }

    /// Makes the directories above a member. Each must be a directory: nothing is written through a link.
    fn make_parents(&mut self, path: &TreePath, meta: &Meta, shown: &str) -> Result<()> {
        let mut missing = Vec::new();
        let mut above = path.parent().map(<[u8]>::to_vec);
        while let Some(bytes) = above {
            let parent = TreePath::new(bytes).map_err(|error| Problem::bad(error.to_string()))?;
            match self.nodes.get(&parent).map(|node| &node.state) {
                Some(BuilderState::Directory | BuilderState::Implied) => break,
                Some(BuilderState::Symlink(_)) => {
                    return Err(Problem::bad(format!("{shown} is below {parent}, which is a symbolic link")));
                }
                Some(_) => {
                    return Err(Problem::bad(format!("{shown} is below {parent}, which is no directory")));
                }
                None => {
                    above = parent.parent().map(<[u8]>::to_vec);
                    missing.push(parent);
                }
            }
        }
        for parent in missing {
            // As its first member, but for what only its owner would say of it.
            let meta = Meta {
                mode: IMPLIED_MODE,
                uid: meta.uid,
                gid: meta.gid,
                mtime: meta.mtime,
                ..Meta::default()
            };
            self.place(parent, Node { meta, state: BuilderState::Implied })?;
        }
        Ok(())
    }

    fn place(&mut self, path: TreePath, node: Node) -> Result<()> {
        let target = match &node.state {
            BuilderState::Symlink(target) => target.len(),
            BuilderState::Link(file) => file.as_bytes().len(),
            _ => 0,
        };
        if self.nodes.len() >= self.limits.entries {
            return Err(Problem::bad(format!("it holds more than {} entries", self.limits.entries)));
        }
        self.charge(ENTRY_BYTES + path.as_bytes().len() + target + attributes_bytes(&node.meta))?;
        self.nodes.insert(path, node);
        Ok(())
    }

    fn charge(&mut self, bytes: usize) -> Result<()> {
        self.metadata_bytes += bytes;
        let most = self.limits.metadata_bytes;
        if self.metadata_bytes > most {
            return Err(Problem::bad(format!("its names and attributes take more than {most} bytes")));
        }
        Ok(())
    }

    /// A link names a member that was listed before it: a file, or a name of one.
    fn link(&mut self, shown: &str, target: TreePath) -> Result<BuilderState> {
        match self.nodes.get(&target).map(|node| &node.state) {
            Some(BuilderState::File(_)) => Ok(BuilderState::Link(target)),
            Some(BuilderState::Link(file)) => Ok(BuilderState::Link(file.clone())),
            // Two names of one link are two links alike.
            Some(BuilderState::Symlink(to)) => Ok(BuilderState::Symlink(to.clone())),
            Some(BuilderState::LeftOut) => Ok(BuilderState::LeftOut),
            Some(BuilderState::Directory | BuilderState::Implied) => {
                Err(Problem::bad(format!("{shown} is a hard link to {target}, which is a directory")))
            }
            None => {
                Err(Problem::bad(format!("{shown} is a hard link to {target}, which is not there before it")))
            }
        }
    }
}

fn attributes_bytes(meta: &Meta) -> usize {
    meta.xattrs.iter().map(|(name, value)| ATTRIBUTE_BYTES + name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(path: &str, what: What, attribute: usize) -> Member {
        let meta = Meta { xattrs: vec![(b"user.a".to_vec(), vec![7; attribute])], ..Meta::default() };
        Member { path: TreePath::new(path.as_bytes().to_vec()).unwrap(), meta, what }
    }

    /// Also those of a directory that is listed after its entries.
    #[test]
    fn all_attributes_count() {
        let limits = Limits { bytes: 0, entries: 100, metadata_bytes: 100_000 };
        let mut gathered = TreeBuilder::new(limits);
        let added = (0..10).try_for_each(|number| {
            let file = What::File { size: 0, holes: Vec::new() };
            gathered.add(member(&format!("{number}/file"), file, 1))?;
            gathered.add(member(&number.to_string(), What::Directory, 60_000))
        });
        assert!(matches!(added, Err(Problem::Bad(_))), "{added:?}");
    }
}
