//! `changed` finds the files of a tree that differ from those of its base, in the segments that only one of them has.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
};

use crate::{
    Result,
    content::{
        meta::{NewTree, TreePart},
        snapshot_tree::SnapshotTree,
    },
    format::{
        segment::SegmentPart,
        tree::{Entry, Extent, Kind, TreePath},
    },
};

/// The digest of an entry's content, as far as its segment has it.
type Digest = [u8; 32];

/// The files that differ, also those that are gone. Of a file that goes on from segment to segment it may be said
/// though it is the same.
pub(super) async fn changed(tree: &NewTree, base: &SnapshotTree) -> Result<BTreeSet<PathBuf>> {
    let mut changed = BTreeSet::new();
    let kept: HashSet<usize> = tree.kept_numbers().collect();
    let mut before: BTreeMap<TreePath, Option<Digest>> = BTreeMap::new();
    let left: Vec<usize> = (0..base.root().segments.len()).filter(|at| !kept.contains(at)).collect();
    for at in left {
        let part = base.read(at).await?;
        if part.tree.span.continues {
            changed.extend(last_before(base, at).await?.as_ref().map(shown));
        }
        before.extend(part.tree.entries.iter().map(|entry| (entry.path.clone(), digest(entry))));
    }
    let mut last = None;
    for part in tree.parts() {
        let segment = match part {
            TreePart::Kept { at, .. } => {
                last = Some(Last::InBase(*at));
                continue;
            }
            TreePart::New { segment, .. } => segment,
        };
        let mut now = SegmentPart::read(&segment.bytes).map_err(|error| error.of("a tree that was cut"))?;
        if now.span.continues {
            let goes_on = match last.take() {
                Some(Last::InBase(at)) => last_before(base, at + 1).await?,
                Some(Last::Path(path)) => Some(path),
                None => None,
            };
            changed.extend(goes_on.as_ref().map(shown));
            last = goes_on.map(Last::Path);
        }
        for entry in &now.entries {
            let is_same = match before.remove(&entry.path) {
                Some(before) => before == digest(entry),
                None => digest(entry).is_none(),
            };
            if !is_same {
                changed.insert(shown(&entry.path));
            }
        }
        last = now.entries.pop().map(|entry| Last::Path(entry.path)).or(last);
    }
    let gone = before.into_iter().filter(|(_, digest)| digest.is_some());
    changed.extend(gone.map(|(path, _)| shown(&path)));
    Ok(changed)
}

/// Where the last entry is that has begun.
enum Last {
    /// In this segment of the base, or before it.
    InBase(usize),
    Path(TreePath),
}

/// The last entry that begins before a segment of the base.
async fn last_before(base: &SnapshotTree, at: usize) -> Result<Option<TreePath>> {
    let segments = &base.root().segments[..at.min(base.root().segments.len())];
    let begins =
        segments.iter().rposition(|segment| segment.span.as_ref().is_some_and(|span| span.first.is_some()));
    match begins {
        Some(at) => Ok(base.read(at).await?.tree.entries.last().map(|entry| entry.path.clone())),
        None => Ok(None),
    }
}

fn shown(path: &TreePath) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path.as_bytes()))
}

/// The digest of an entry's content, without its attributes; `None` of an entry without content.
fn digest(entry: &Entry) -> Option<Digest> {
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
