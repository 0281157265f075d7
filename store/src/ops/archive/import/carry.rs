//! `carry` takes files of the base over into a snapshot as they are.
//!
//! None of their content is read. So it must be there: a chunk that the write may not refer to, since it is damaged or a
//! collection has condemned its pack, makes the write fail. Whoever asked for it begins again with a stream that has the file.

use std::collections::HashSet;

use super::Carried;
use crate::{
    Error, Result,
    content::workers::blocking,
    format::tree::{Entry, Kind},
    id::ChunkId,
    ops::write::SnapshotWriter,
};

/// The files of the base that are taken over, each with the path that it has in the snapshot.
pub(super) fn entries(carried: &[Carried], base: &[Entry]) -> Result<Vec<Entry>> {
    let taken = carried.iter().map(|carried| {
        let found = base.binary_search_by(|entry| entry.path.cmp(&carried.from)).ok().map(|at| &base[at]);
        match found.filter(|entry| matches!(entry.kind, Kind::File { .. })) {
            Some(entry) => Ok(Entry { path: carried.path.clone(), ..entry.clone() }),
            None => Err(Error::damaged("the current snapshot", format!("it has no file {}", carried.from))),
        }
    });
    taken.collect()
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
