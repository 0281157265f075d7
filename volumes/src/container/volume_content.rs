//! `VolumeContent` is the content of a stored volume: its entries, and the directory that their bytes were written to.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Write},
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
    format::tree::{Entry, Kind, Meta, TreePath},
    tree::root_dir::RootDir,
};

use super::compose::VOLUMES;

/// A volume of a snapshot.
#[derive(Clone, Debug)]
pub(super) struct VolumeContent {
    /// What is in it, in order, with paths as they are in the volume.
    pub entries: Arc<Vec<Entry>>,
    /// Where the bytes are.
    directory: PathBuf,
    name: String,
}

impl VolumeContent {
    /// The volume `name` of a snapshot whose tree has `entries`, and was written to `directory`.
    pub fn of(entries: &[Entry], directory: &Path, name: &str) -> Self {
        let root = format!("{VOLUMES}/{name}");
        let of = |path: &TreePath| {
            let path = path.as_bytes().strip_prefix(root.as_bytes())?;
            match path.strip_prefix(b"/") {
                Some(path) => TreePath::new(path.to_vec()).ok(),
                None => path.is_empty().then(TreePath::root),
            }
        };
        let within = entries.iter().filter_map(|entry| {
            let path = of(&entry.path)?;
            let kind = match &entry.kind {
                Kind::HardLink { target } => Kind::HardLink { target: of(target)? },
                kind => kind.clone(),
            };
            Some(Entry { path, meta: entry.meta.clone(), kind })
        });
        Self { entries: Arc::new(within.collect()), directory: directory.to_owned(), name: name.to_owned() }
    }

    /// Opens a file of it. Links are never followed.
    pub fn open(&self, path: &TreePath) -> Result<File, Failure> {
        let root = RootDir::open(&self.directory)?;
        Ok(self
            .open_in(&root, path)
            .map_err(|error| store::Error::io("cannot read", self.directory.join(path.to_string()), error))?)
    }

    fn open_in(&self, root: &RootDir, path: &TreePath) -> io::Result<File> {
        let whole = [VOLUMES.as_bytes(), b"/", self.name.as_bytes(), b"/", path.as_bytes()].concat();
        Ok(File::from(root.open_at(&whole, OFlags::RDONLY, Mode::empty())?))
    }

    /// Writes all of it as a tar stream, below a directory called `root_name`.
    pub fn write(&self, root_name: &str, out: &mut dyn Write) -> io::Result<()> {
        let below = |path: &TreePath| {
            let path = match path.is_root() {
                true => root_name.as_bytes().to_vec(),
                false => [root_name.as_bytes(), b"/", path.as_bytes()].concat(),
            };
            TreePath::new(path).map_err(io::Error::other)
        };
        let root = RootDir::open(&self.directory).map_err(io::Error::other)?;
        let metas: HashMap<&TreePath, &Meta> = self
            .entries
            .iter()
            .filter(|entry| matches!(entry.kind, Kind::File { .. }))
            .map(|entry| (&entry.path, &entry.meta))
            .collect();
        for entry in self.entries.iter() {
            let meta = match &entry.kind {
                Kind::HardLink { target } => metas.get(target).copied().unwrap_or(&entry.meta),
                _ => &entry.meta,
            };
            // Without extents: what says where the holes are is for programs that know it.
            let plain = match &entry.kind {
                Kind::File { size, .. } => Kind::File { size: *size, extents: Vec::new() },
                Kind::HardLink { target } => Kind::HardLink { target: below(target)? },
                kind => kind.clone(),
            };
            let member = Entry { path: below(&entry.path)?, meta: entry.meta.clone(), kind: plain };
            let Some(head) = members::head(&member, meta, Times::Exact) else { continue };
            out.write_all(&head)?;
            if let Kind::File { size, .. } = entry.kind {
                let mut file = self.open_in(&root, &entry.path)?;
                let copied = io::copy(&mut io::Read::take(&mut file, size), out)?;
                if copied != size {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                out.write_all(&[0; 512][..padding(size)])?;
            }
        }
        out.write_all(&END)
    }

    /// How many files it has.
    pub fn files(&self) -> u64 {
        self.entries.iter().filter(|entry| matches!(entry.kind, Kind::File { .. })).count() as u64
    }

    /// How many bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(Entry::size).sum()
    }
}
