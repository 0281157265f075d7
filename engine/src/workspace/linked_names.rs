//! `with_linked_names` has a revert give a file back under all names that it has in the checkpoint: then these are one file
//! again.
//!
//! A name is left alone if it leads to a file of its own by now that is not as the checkpoint has it.

use std::collections::{BTreeSet, HashMap};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use store::{
    format::tree::{Entry, Kind, Meta, TreePath},
    id::ChunkKey,
    tree::{root_dir::RootDir, walk::FileState},
};

use super::{
    compare::{self, Difference, Live},
    outcome::ChangeKind,
};
use crate::failure::Failure;

/// The permissions of a mode, and the special bits.
const MODE_BITS: u32 = 0o7777;

/// Adds the other `names` of files to what differs, but for those that are left out.
pub(crate) fn with_linked_names(
    (root, key, began_ms): (&RootDir, &ChunkKey, u64),
    mut found: Vec<Difference>,
    names: &HashMap<TreePath, Vec<TreePath>>,
    left_out: &[String],
) -> Result<Vec<Difference>, Failure> {
    let mut known: BTreeSet<TreePath> = found.iter().map(|found| found.path.clone()).collect();
    let mut more = Vec::new();
    for difference in &found {
        let (Some(before), Some(names)) = (&difference.before, names.get(&difference.path)) else { continue };
        let number = |stat: Stat| (stat.st_dev, stat.st_ino);
        let reverted = file_at(root, &difference.path).map(number);
        for name in names {
            if compare::is_left_out(name, left_out) || !known.insert(name.clone()) {
                continue;
            }
            let Some(stat) = file_at(root, name) else { continue };
            let (before, live) = (Entry { path: name.clone(), ..before.clone() }, live(name, &stat));
            // Whoever wrote to the one wrote to the other.
            let is_one = reverted == Some(number(stat));
            if is_one || compare::changed(root, key, name, &before, &live, began_ms)?.is_none() {
                more.push(Difference {
                    path: name.clone(),
                    change: ChangeKind::Modified,
                    before: Some(before),
                    after: Some(live.entry),
                    is_time_of_directory: false,
                });
            }
        }
    }
    found.extend(more);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The regular file at a path.
fn file_at(root: &RootDir, path: &TreePath) -> Option<Stat> {
    let opened = root.open_at(path.as_bytes(), OFlags::PATH, Mode::empty()).ok()?;
    let stat = fstat(opened).ok()?;
    (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(stat)
}

/// The file as a walk would find it.
fn live(path: &TreePath, stat: &Stat) -> Live {
    let state = FileState::of(stat);
    let meta = Meta {
        mode: stat.st_mode & MODE_BITS,
        uid: stat.st_uid,
        gid: stat.st_gid,
        mtime: state.mtime,
        ..Meta::default()
    };
    let kind = Kind::File { size: state.size, extents: Vec::new() };
    Live { entry: Entry { path: path.clone(), meta, kind }, state: Some(state) }
}
