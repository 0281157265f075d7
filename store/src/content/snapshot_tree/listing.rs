//! Lists what is in a directory of a tree: its entries alone, or all below it.

use super::SnapshotTree;
use crate::{
    Result,
    format::tree::{Entry, Kind, TreePath, in_order},
};

/// Appended to the path of a directory, it sorts after all that lies in it and not after what comes next: no name
/// has a smaller byte.
const AFTER: u8 = 1;

impl SnapshotTree {
    /// The entries of a directory, in order. Segments that only have what lies deeper are not read.
    pub async fn children(&self, directory: &TreePath) -> Result<Vec<Entry>> {
        let mut found: Vec<Entry> = Vec::new();
        let mut from = directory.as_bytes().to_vec();
        let mut at = self.segment_of(&from);
        while let Some(segment) = at {
            let part = self.read(segment).await?;
            for entry in &part.tree.entries {
                if entry.path <= *directory || in_order(entry.path.as_bytes(), &from).is_lt() {
                    continue;
                }
                if !entry.path.is_within(directory) {
                    return Ok(found);
                }
                if entry.path.parent() == Some(directory.as_bytes()) {
                    found.push(entry.clone());
                }
            }
            at = self.next_of(segment);
            let last = part.tree.entries.last();
            if let (Some(folder), Some(next)) = (last.and_then(|last| folder_of(&last.path, &found)), at) {
                from = [folder.as_bytes(), &[AFTER]].concat();
                at = self.segment_of(&from).map(|behind| behind.max(next));
            }
        }
        Ok(found)
    }

    /// All that lies in a directory, however deep, in order; the directory itself is left out.
    pub async fn below(&self, directory: &TreePath, mut each: impl FnMut(&Entry)) -> Result<()> {
        let mut at = self.segment_of(directory.as_bytes());
        while let Some(segment) = at {
            let part = self.read(segment).await?;
            for entry in part.tree.entries.iter().filter(|entry| entry.path > *directory) {
                if !entry.path.is_within(directory) {
                    return Ok(());
                }
                each(entry);
            }
            at = self.next_of(segment);
        }
        Ok(())
    }
}

/// The last directory that was found, if a segment ends within it.
fn folder_of<'a>(last: &TreePath, found: &'a [Entry]) -> Option<&'a TreePath> {
    let folder = found.last().filter(|entry| entry.kind == Kind::Directory)?;
    last.is_within(&folder.path).then_some(&folder.path)
}
