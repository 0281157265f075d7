//! Commits a tree of which every entry is in memory: it compares the tree with its base, and commits the changes.

use std::{collections::BTreeMap, sync::Arc};

use super::{PutEntry, Request, TreeChange, TreeChanges};
use crate::{
    Error, Result,
    catalog::lock::Hold,
    content::{
        TenantStore,
        chunk::{Piece, locations_by_id},
        ingest::Files,
        meta::Metadata,
        snapshot_tree::SnapshotTree,
    },
    format::{
        record::Record,
        table::Location,
        tree::{Entry, Kind, TreePath},
    },
    id::RecordId,
    ops::write::snapshot::Report,
    progress::Progress,
    tree::walk::Skipped,
};

/// A whole tree; the extents of its changed files are to be found out.
#[derive(Debug)]
pub struct Tree {
    /// The tree, sorted.
    pub entries: Vec<Entry>,
    /// The places of the changed files among the entries, in order.
    pub changed: Vec<usize>,
    /// The entries that were left out of it.
    pub skipped: Skipped,
    /// How many bytes its files have.
    pub bytes: u64,
}

/// The snapshot the tree is built on.
#[derive(Clone, Debug)]
pub struct Base {
    /// The record of the snapshot.
    pub record: Record,
    /// The segments of its tree and tables.
    pub metadata: Arc<Metadata>,
}

/// A snapshot that was stored, for a mount that goes on from it.
#[derive(Debug)]
pub struct Stored {
    /// The record of the snapshot.
    pub record: Record,
    /// The segments of its tree and tables.
    pub metadata: Arc<Metadata>,
    /// The tree.
    pub entries: Vec<Entry>,
    /// Where the chunks of the tree lie, in its order.
    pub locations: Vec<Location>,
}

/// Stores `tree`, as [`commit`](super::commit) stores changes of its base. `files` reads the changed
/// files in the order of `tree.changed`.
pub async fn commit(
    store: &TenantStore,
    request: Request,
    (tree, files): (Tree, Arc<dyn Files + Send>),
    base: Option<Base>,
    hold: Option<&Hold>,
    intend: impl AsyncFnOnce(RecordId) -> Result<()>,
    progress: Arc<dyn Progress>,
) -> Result<(Report, Option<Stored>)> {
    let changes = compared(tree, base.as_ref())?;
    let base = match base {
        Some(Base { record, metadata }) => {
            let tree = Arc::new(SnapshotTree::of_metadata(store, metadata)?);
            Some(super::Base { record, tree })
        }
        None => None,
    };
    let committed = super::commit(store, request, (changes, files), base, hold, intend, progress);
    let (report, stored) = Box::pin(committed).await?;
    let Some(super::Stored { record, tree, untold }) = stored else { return Ok((report, None)) };
    if let (Some(hold), Some(event)) = (hold, untold) {
        hold.tell(&event).await;
    }
    let whole = tree.metadata().map(Arc::clone);
    let metadata = whole.ok_or_else(|| Error::Internal { what: "a tree that is not at hand".to_owned() })?;
    let (entries, locations) = metadata.decode()?;
    Ok((report, Some(Stored { record, metadata, entries, locations })))
}

/// The changes since the base.
fn compared(tree: Tree, base: Option<&Base>) -> Result<TreeChanges> {
    let (old, locations) = base.map(|base| base.metadata.decode()).transpose()?.unwrap_or_default();
    let located = locations_by_id(&old, locations);
    let old: BTreeMap<&TreePath, &Entry> = old.iter().map(|entry| (&entry.path, entry)).collect();
    let Tree { entries, changed, skipped, .. } = tree;
    let files: BTreeMap<usize, usize> = changed.iter().enumerate().map(|(file, at)| (*at, file)).collect();
    let mut changes = Vec::new();
    let new = entries.into_iter().enumerate().map(|(at, entry)| (entry.path.clone(), (at, entry)));
    let mut new: BTreeMap<TreePath, (usize, Entry)> = new.collect();
    let paths: std::collections::BTreeSet<TreePath> =
        old.keys().map(|path| (*path).clone()).chain(new.keys().cloned()).collect();
    let mut removed: Option<TreePath> = None;
    let is_removed = |removed: &Option<TreePath>, path: &TreePath| {
        removed.as_ref().is_some_and(|removed| path.is_within(removed))
    };
    for path in paths {
        let (before, now) = (old.get(&path).copied(), new.remove(&path));
        let becomes_leaf = |before: &Entry| {
            before.kind == Kind::Directory
                && now.as_ref().is_none_or(|(_, entry)| entry.kind != Kind::Directory)
        };
        if before.is_some_and(|before| now.is_none() || becomes_leaf(before)) && !is_removed(&removed, &path)
        {
            changes.push(TreeChange::Removed(path.clone()));
            removed = Some(path.clone());
        }
        let Some((at, entry)) = now else { continue };
        let file = files.get(&at).copied();
        if file.is_none() && before == Some(&entry) && !is_removed(&removed, &path) {
            continue;
        }
        let piece = |(id, raw_len)| Some(Piece { id, raw_len, location: located.get(&id).copied()? });
        let pieces = before.into_iter().chain([&entry]).flat_map(Entry::chunks).filter_map(piece).collect();
        changes.push(TreeChange::Put(PutEntry { entry, file, pieces }));
    }
    Ok(TreeChanges { changes, skipped })
}
