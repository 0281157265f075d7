//! Refuses a directory that is too large.

use std::{collections::BTreeMap, path::Path};

use crate::{
    Error, Result,
    format::tree::{Entry, Kind, TreePath},
};

/// How many of the largest directories are named.
const NAMED: usize = 5;
/// How deep below the top they are looked for: deeper names say nothing to most people.
const DEPTH: usize = 3;

/// Refuses a directory with these entries if it holds more than `limit` bytes, and says where they are. Sizes
/// are those that files claim to have; links are not followed.
pub fn check(root: &Path, entries: &[Entry], bytes: u64, limit: Option<u64>) -> Result<()> {
    match limit {
        Some(limit) if bytes > limit => {
            let mut sizes = Sizes::default();
            entries.iter().for_each(|entry| sizes.add(entry));
            Err(sizes.too_large(root, bytes, limit))
        }
        _ => Ok(()),
    }
}

/// How much is in the directories near the top.
#[derive(Debug, Default)]
pub(super) struct Sizes(BTreeMap<Vec<u8>, u64>);

impl Sizes {
    /// Counts an entry.
    pub fn add(&mut self, entry: &Entry) {
        let Kind::File { size, .. } = &entry.kind else { return };
        let path = entry.path.as_bytes();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let mut folders = ends.take(DEPTH).peekable();
        if folders.peek().is_none() {
            // In no directory but the top: it is named itself.
            *self.0.entry(path.to_vec()).or_default() += size;
        }
        for end in folders {
            *self.0.entry(path[..end].to_vec()).or_default() += size;
        }
    }

    /// Says so of a directory with so many bytes.
    pub fn too_large(&self, root: &Path, bytes: u64, limit: u64) -> Error {
        Error::ProfileTooLarge { path: root.to_owned(), bytes, limit, largest: self.largest() }
    }

    /// The directories with the most bytes in them, and large files at the top. One that holds little besides
    /// another one says less than that other one, and is left out.
    fn largest(&self) -> Vec<(String, u64)> {
        let inside =
            |path: &[u8], other: &[u8]| other.starts_with(path) && other.get(path.len()) == Some(&b'/');
        let explained = |path: &[u8], size: u64| {
            self.0
                .iter()
                .any(|(other, part)| inside(path, other) && part.saturating_mul(10) >= size.saturating_mul(9))
        };
        // The largest first, so that few are compared with all others.
        let mut sizes: Vec<(&[u8], u64)> = self.0.iter().map(|(path, size)| (&path[..], *size)).collect();
        sizes.sort_by_key(|(path, size)| (std::cmp::Reverse(*size), *path));
        let named = sizes.into_iter().filter(|(path, size)| !explained(path, *size)).take(NAMED);
        let shown = |path: &[u8]| TreePath::new(path).map(|path| path.to_string()).unwrap_or_default();
        named.map(|(path, size)| (shown(path), size)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tree::Meta;

    #[test]
    fn the_largest_directories_are_named_and_none_for_its_child() {
        let file = |path: &str, size| Entry {
            path: TreePath::new(path).unwrap(),
            kind: Kind::File { size, extents: Vec::new() },
            meta: Meta::default(),
        };
        let entries =
            [file("Default/Cache/Cache_Data/a", 900), file("Default/History", 50), file("Crashpad/b", 70)];
        let largest = |entries: &[Entry]| {
            let mut sizes = Sizes::default();
            entries.iter().for_each(|entry| sizes.add(entry));
            sizes.largest()
        };
        assert_eq!(
            largest(&entries),
            [("Default/Cache/Cache_Data".to_owned(), 900), ("Crashpad".to_owned(), 70)]
        );
        assert_eq!(largest(&[file("core.1234", 5000)]), [("core.1234".to_owned(), 5000)]);
    }
}
