//! `carry` takes files of the base over into a snapshot as they are.
//!
//! None of their content is read. So it must be there: a chunk that the write may not refer to, since it is damaged or a
//! collection has condemned its pack, makes the write fail. The caller begins again with a stream that has the file.

use std::collections::HashSet;

use super::{Carried, tree_builder::TreeBuilder};
use crate::{
    Error, Result,
    archive::{
        problem,
        reader::{Member, What},
    },
    content::{snapshot_tree::SnapshotTree, workers::blocking},
    format::tree::{Entry, Kind},
    id::ChunkId,
    ops::write::SnapshotWriter,
};

/// The files of the base that are taken over, each with the path that it has in the snapshot.
pub(super) async fn entries(carried: &[Carried], base: Option<&SnapshotTree>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for Carried { from, path } in carried {
        let found = match base {
            Some(tree) => tree.file(from).await?,
            None => None,
        };
        let lacking = || Error::damaged("the current snapshot", format!("it has no file {from}"));
        entries.push(Entry { path: path.clone(), ..found.ok_or_else(lacking)?.entry });
    }
    Ok(entries)
}

/// Fails with [`Error::Damaged`] unless the write may refer to all of their chunks. The write's lease exists, so what may be
/// referred to now may be until it ends.
pub(super) async fn require_stored(writer: &SnapshotWriter, carried: &[Entry]) -> Result<()> {
    let chunks: HashSet<ChunkId> = carried.iter().flat_map(Entry::chunks).map(|(id, _)| id).collect();
    let known = writer.dedup_index();
    let lacking = blocking(move || Ok(chunks.into_iter().find(|id| known.locate(id).is_none()))).await?;
    match lacking {
        None => Ok(()),
        Some(id) => Err(Error::damaged("the current snapshot", format!("its chunk {id} cannot be built on"))),
    }
}

/// Adds a file that is stored already, with its chunks, to the members of the archive.
pub(super) fn add(members: &mut TreeBuilder, entry: &Entry) -> problem::Result<()> {
    let Kind::File { size, extents } = &entry.kind else { return Ok(()) };
    let what = What::File { size: *size, holes: Vec::new() };
    members.add(Member { path: entry.path.clone(), meta: entry.meta.clone(), what })?;
    members.fill(&entry.path, extents.clone());
    Ok(())
}
