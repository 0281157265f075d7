//! `guess` predicts which parts of its files a Chrome reads when it starts, for a profile that was never mounted.
//!
//! Seen by tracing Chromium 156 on a profile of 300 MB: the heads of its databases, the whole
//! of the indexes of its GPU caches, the logs of its LevelDBs and the ends of their tables,
//! and the tabs it had open.

#[cfg(test)]
mod tests;

use std::{collections::HashSet, ops::Range, sync::Arc};

use store::{
    content::chunk_fetcher::startup::Ranking,
    format::tree::{Entry, TreePath},
};

const HEAD: u64 = 64 << 10;
const TAIL: u64 = 32 << 10;
const WHOLE: u64 = 320 << 10;

/// Folders of a profile that are read at the start, and how soon; below them everything is.
const FOLDERS: &[(&[u8], u8)] = &[
    (b"Network", 1),
    (b"GPUCache", 2),
    (b"DawnWebGPUCache", 2),
    (b"DawnGraphiteCache", 2),
    (b"Local Storage/leveldb", 3),
    (b"Session Storage", 3),
    (b"Sync Data/LevelDB", 3),
    (b"shared_proto_db", 3),
    (b"Site Characteristics Database", 3),
    (b"Extension State", 3),
    (b"Extension Rules", 3),
    (b"Extension Scripts", 3),
    (b"Service Worker/Database", 3),
    (b"GCM Store", 3),
    (b"Sessions", 4),
    (b"Sessions_Encrypted", 4),
    (b"Shared Dictionary", 4),
    (b"WebStorage", 4),
];
/// Folders beside the profiles.
const SHARED_FOLDERS: &[&[u8]] =
    &[b"segmentation_platform", b"GPUPersistentCache", b"ShaderCache", b"GrShaderCache"];

/// Ranks the parts of files by how soon a Chrome will probably read them. Of a tree that is no user data directory
/// of Chrome's, no part is read at the start.
pub fn guess(entries: &[Entry]) -> Arc<dyn Ranking> {
    let folders = entries.iter().filter_map(|entry| entry.path.as_bytes().strip_suffix(b"/Preferences"));
    Arc::new(Profiles(folders.filter(|folder| !folder.contains(&b'/')).map(<[u8]>::to_vec).collect()))
}

/// The folders of the profiles in a user data directory.
#[derive(Debug)]
struct Profiles(HashSet<Vec<u8>>);

impl Ranking for Profiles {
    fn rank(&self, path: &TreePath, size: u64, part: Range<u64>) -> Option<u8> {
        let rank = self.rank_of_file(path.as_bytes())?;
        is_read(path.name(), size, part).then_some(rank)
    }
}

impl Profiles {
    /// How soon a file is read; `None` if not at the start.
    fn rank_of_file(&self, path: &[u8]) -> Option<u8> {
        if self.0.is_empty() || path.ends_with(b".pma") {
            return None;
        }
        let Some(slash) = path.iter().position(|byte| *byte == b'/') else { return Some(0) };
        let (folder, rest) = (&path[..slash], &path[slash + 1..]);
        if SHARED_FOLDERS.contains(&folder) {
            return Some(1);
        }
        if !self.0.contains(folder) {
            return None;
        }
        // Of several profiles one is opened, and mostly that is the first.
        let later = if folder == b"Default" { 0 } else { 10 };
        if !rest.contains(&b'/') {
            return Some(1 + later);
        }
        // The one file of a disk cache that is read before anything is looked up in it.
        if path.ends_with(b"/the-real-index") {
            return Some(2 + later);
        }
        let within = |name: &[u8]| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"/"));
        let (_, rank) = FOLDERS.iter().find(|(name, _)| within(name))?;
        Some(rank + later)
    }
}

/// Whether this part of a file is read at once.
fn is_read(name: &[u8], size: u64, part: Range<u64>) -> bool {
    if name.ends_with(b".ldb") {
        // A table is read from its end.
        return part.end + TAIL > size;
    }
    let whole =
        matches!(name, b"index" | b"the-real-index") || name.ends_with(b".log") || name.starts_with(b"Tabs_");
    part.start < if whole { WHOLE } else { HEAD }
}
