//! `VolumeContent` is the content of a stored volume: its part of the snapshot's tree, which is read by need, and the directory
//! that the bytes were written to.

use std::{
    fs::File,
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::failure::Failure;
use rustix::fs::{Mode, OFlags};
use store::{
    archive::{
        members::{self, END, Times},
        padding,
    },
    content::snapshot_tree::{Below, FoundEntry, SnapshotTree},
    format::tree::{Entry, Kind, Meta, TreePath},
    tree::root_dir::RootDir,
};
use tokio::runtime::Handle;

use super::compose::VOLUMES;

/// A volume of a snapshot.
#[derive(Clone, Debug)]
pub(super) struct VolumeContent {
    tree: Arc<SnapshotTree>,
    /// Where the tree has it.
    top: TreePath,
    /// Where the bytes are.
    directory: PathBuf,
    /// How many files it has.
    pub files: u64,
    /// How many bytes its files have.
    pub bytes: u64,
    runtime: Handle,
}

impl VolumeContent {
    /// The volume `name` of a snapshot with this tree, which was written to `directory`.
    pub async fn of(tree: Arc<SnapshotTree>, directory: &Path, name: &str) -> Result<Self, Failure> {
        let top =
            TreePath::new(format!("{VOLUMES}/{name}")).map_err(|error| Failure::usage(error.to_string()))?;
        let (mut files, mut bytes) = (0, 0);
        let mut below = Below::of(&tree, &top);
        while let Some(entries) = below.next().await? {
            files += entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count() as u64;
            bytes += entries.iter().map(Entry::size).sum::<u64>();
        }
        let (directory, runtime) = (directory.to_owned(), Handle::current());
        Ok(Self { tree, top, directory, files, bytes, runtime })
    }

    /// The path in the volume of something in the tree.
    fn inner(&self, path: &TreePath) -> Option<TreePath> {
        let path = path.as_bytes().strip_prefix(self.top.as_bytes())?;
        match path.strip_prefix(b"/") {
            Some(path) => TreePath::new(path).ok(),
            None => path.is_empty().then(TreePath::root),
        }
    }

    /// The path in the tree of something in the volume.
    fn outer(&self, path: &TreePath) -> io::Result<TreePath> {
        match path.is_root() {
            true => Ok(self.top.clone()),
            false => {
                TreePath::new([self.top.as_bytes(), b"/", path.as_bytes()].concat()).map_err(io::Error::other)
            }
        }
    }

    /// An entry with its paths as they are in the volume; a link to something outside of it is left out.
    fn within(&self, entry: Entry) -> Option<Entry> {
        let path = self.inner(&entry.path)?;
        let kind = match &entry.kind {
            Kind::HardLink { target } => Kind::HardLink { target: self.inner(target)? },
            _ => entry.kind,
        };
        Some(Entry { path, kind, ..entry })
    }

    /// The entry at a path of the volume, and its number in the tree. Blocks.
    pub fn find(&self, path: &TreePath) -> Result<Option<(u64, Entry)>, Failure> {
        let outer = self.outer(path).map_err(|error| Failure::internal(error.to_string()))?;
        let found = self.runtime.block_on(self.tree.find(&outer))?;
        Ok(found.and_then(|FoundEntry { ordinal, entry }| Some((ordinal, self.within(entry)?))))
    }

    /// The entry with this number in the tree. Blocks.
    pub fn at(&self, ordinal: u64) -> Result<Option<Entry>, Failure> {
        Ok(self.runtime.block_on(self.tree.at(ordinal))?.and_then(|entry| self.within(entry)))
    }

    /// The numbers that its entries have in the tree. Blocks.
    pub fn ordinals(&self) -> Result<Range<u64>, Failure> {
        let first = self.runtime.block_on(self.tree.rank(self.top.as_bytes()))?;
        Ok(first..self.runtime.block_on(self.tree.rank_after(&self.top))?)
    }

    /// Whether another name of the file at this path of the volume is in the tree. Blocks.
    pub fn is_linked(&self, path: &TreePath) -> Result<bool, Failure> {
        let outer = self.outer(path).map_err(|error| Failure::internal(error.to_string()))?;
        Ok(!self.runtime.block_on(self.tree.links())?.to(&outer).is_empty())
    }

    /// Opens a file of it. Links are never followed.
    pub fn open(&self, path: &TreePath) -> Result<File, Failure> {
        let root = RootDir::open(&self.directory)?;
        Ok(self
            .open_in(&root, path)
            .map_err(|error| store::Error::io("cannot read", self.directory.join(path.to_string()), error))?)
    }

    fn open_in(&self, root: &RootDir, path: &TreePath) -> io::Result<File> {
        let whole = self.outer(path)?;
        Ok(File::from(root.open_at(whole.as_bytes(), OFlags::RDONLY, Mode::empty())?))
    }

    /// Writes all of it as a tar stream, below a directory called `root_name`. Blocks.
    pub fn write(&self, root_name: &str, out: &mut dyn Write) -> io::Result<()> {
        let root = RootDir::open(&self.directory).map_err(io::Error::other)?;
        let top = self.runtime.block_on(self.tree.entry(&self.top)).map_err(io::Error::other)?;
        if let Some(top) = top.and_then(|top| self.within(top)) {
            self.write_entry(&root, root_name, &top, out)?;
        }
        let mut below = Below::of(&self.tree, &self.top);
        while let Some(entries) = self.runtime.block_on(below.next()).map_err(io::Error::other)? {
            for entry in entries.into_iter().filter_map(|entry| self.within(entry)) {
                self.write_entry(&root, root_name, &entry, out)?;
            }
        }
        out.write_all(&END)
    }

    fn write_entry(
        &self,
        root: &RootDir,
        root_name: &str,
        entry: &Entry,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let below = |path: &TreePath| {
            let path = match path.is_root() {
                true => root_name.as_bytes().to_vec(),
                false => [root_name.as_bytes(), b"/", path.as_bytes()].concat(),
            };
            TreePath::new(path).map_err(io::Error::other)
        };
        let meta = match &entry.kind {
            Kind::HardLink { target } => self.meta_of(target)?,
            _ => None,
        };
        // Without extents: what says where the holes are is for programs that know it.
        let plain = match &entry.kind {
            Kind::File { size, .. } => Kind::File { size: *size, extents: Vec::new() },
            Kind::HardLink { target } => Kind::HardLink { target: below(target)? },
            kind => kind.clone(),
        };
        let member = Entry { path: below(&entry.path)?, meta: entry.meta.clone(), kind: plain };
        let meta = meta.as_ref().unwrap_or(&entry.meta);
        let Some(head) = members::head(&member, meta, Times::Exact) else { return Ok(()) };
        out.write_all(&head)?;
        if let Kind::File { size, .. } = entry.kind {
            let mut file = self.open_in(root, &entry.path)?;
            let copied = io::copy(&mut io::Read::take(&mut file, size), out)?;
            if copied != size {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
            }
            out.write_all(&[0; 512][..padding(size)])?;
        }
        Ok(())
    }

    /// The attributes of the file at a path of the volume.
    fn meta_of(&self, path: &TreePath) -> io::Result<Option<Meta>> {
        let file = self.runtime.block_on(self.tree.entry(&self.outer(path)?)).map_err(io::Error::other)?;
        Ok(file.filter(|file| matches!(file.kind, Kind::File { .. })).map(|file| file.meta))
    }
}
