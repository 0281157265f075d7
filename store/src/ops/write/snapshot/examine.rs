//! `Examiner` looks at the files that were read before the record becomes live.
//!
//! Files were read one after the other; whether they make a whole together is for somebody
//! who knows what they are. That is asked after all of them were read and before the walk
//! that finds out whether anything changed meanwhile: what is judged is what is stored.

use std::{
    collections::{BTreeSet, HashMap},
    ffi::OsStr,
    fmt,
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

/// What every file of a snapshot held, by path: a digest of its extents.
pub(super) type Contents = HashMap<Vec<u8>, [u8; 32]>;

pub(super) fn contents(entries: &[Entry]) -> Contents {
    entries.iter().filter_map(|entry| Some((entry.path.as_bytes().to_vec(), digest(entry)?))).collect()
}

/// The files that differ from `base`.
pub(super) fn changed(entries: &[Entry], base: &Contents) -> BTreeSet<PathBuf> {
    let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
    let mut gone: BTreeSet<&[u8]> = base.keys().map(Vec::as_slice).collect();
    let mut changed = BTreeSet::new();
    for entry in entries {
        let name = entry.path.as_bytes();
        gone.remove(name);
        if digest(entry) != base.get(name).copied() {
            changed.insert(path(name));
        }
    }
    changed.extend(gone.into_iter().map(path));
    changed
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
