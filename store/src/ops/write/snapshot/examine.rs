//! `Examiner` looks at the files that were read before the record becomes live.
//!
//! Files were read one after the other; whether they make a whole together is for somebody
//! who knows what they are. That is asked after all of them were read and before the walk
//! that finds out whether anything changed meanwhile: what is judged is what is stored.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt,
    iter::Peekable,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    format::{
        health::Health,
        record::Record,
        tree::{Entry, Extent, Kind},
    },
};

/// Knows what the files of a directory are.
pub trait Examiner: Send + Sync + fmt::Debug {
    /// Looks at the directory `root`. `changed` holds the paths below it that differ from
    /// `base`, also those that are gone; `None` if all of it is to be looked at.
    fn examine(
        &self,
        root: &Path,
        changed: Option<&BTreeSet<PathBuf>>,
        base: Option<&Record>,
    ) -> Result<Examined>;

    /// Why a snapshot that was stored before, and has the same content as what was examined, must not
    /// become the current one by itself, by what is known of it.
    fn recalls(&self, _twin: &Record) -> Option<HoldBack> {
        None
    }

    /// Of `files`, which are all that there are, those whose bytes [`Self::examine`] would look
    /// at. `head` gives the first bytes of a file, if it can be read.
    fn reads(
        &self,
        files: &BTreeSet<PathBuf>,
        changed: Option<&BTreeSet<PathBuf>>,
        head: &dyn Fn(&Path, usize) -> Option<Vec<u8>>,
    ) -> BTreeSet<PathBuf>;
}

/// What an examination found.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// What to write into the record.
    pub health: Option<Health>,
    /// Why the snapshot must not become the current one by itself.
    pub hold_back: Option<HoldBack>,
}

/// Why a snapshot is stored but the pointer is not moved to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldBack {
    /// What it is called: `shrunk`, `damaged`, `fallback`, `logged out`, `unjudged`.
    pub word: &'static str,
    /// For people.
    pub reason: String,
}

/// Finds the files of a tree that differ from those of its base. Both are told in order.
pub(super) struct Changed<B: Iterator<Item = Entry>> {
    base: Peekable<B>,
    paths: BTreeSet<PathBuf>,
}

impl<B: Iterator<Item = Entry>> Changed<B> {
    pub fn since(base: B) -> Self {
        Self { base: base.peekable(), paths: BTreeSet::new() }
    }

    /// The next entry of the tree.
    pub fn push(&mut self, entry: &Entry) {
        while let Some(gone) = self.base.next_if(|base| base.path < entry.path) {
            self.note(&gone);
        }
        match self.base.next_if(|base| base.path == entry.path) {
            Some(base) if digest(&base) == digest(entry) => {}
            // What held something and is a directory now, or the reverse.
            Some(_) => drop(self.paths.insert(path(entry))),
            None => self.note(entry),
        }
    }

    /// All of them, also those that are gone.
    pub fn finish(mut self) -> BTreeSet<PathBuf> {
        while let Some(gone) = self.base.next() {
            self.note(&gone);
        }
        self.paths
    }

    fn note(&mut self, entry: &Entry) {
        if digest(entry).is_some() {
            self.paths.insert(path(entry));
        }
    }
}

fn path(entry: &Entry) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(entry.path.as_bytes()))
}

/// Of what an entry holds, whatever its attributes are; `None` of what holds nothing.
fn digest(entry: &Entry) -> Option<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    match &entry.kind {
        Kind::File { size, extents } => {
            hasher.update(&size.to_le_bytes());
            for extent in extents {
                match extent {
                    Extent::Hole(len) => hasher.update(b"h").update(&len.to_le_bytes()),
                    Extent::Chunk { id, .. } => hasher.update(b"c").update(id.as_bytes()),
                    Extent::Inline(bytes) => hasher.update(b"i").update(bytes),
                };
            }
        }
        Kind::HardLink { target } => {
            hasher.update(b"l").update(target.as_bytes());
        }
        _ => return None,
    }
    Some(*hasher.finalize().as_bytes())
}
