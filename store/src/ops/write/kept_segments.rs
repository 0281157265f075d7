//! Decides which segments of the base a new tree may keep, and opens the others.
//!
//! A root says which packs a segment's chunks lie in. If the write may refer to all of them, it may refer to
//! the segment, without a look at its chunks. Else the segment is read, and its chunks are located one by
//! one, like those of a segment that was cut anew. Nothing here asks earlier than the chunks were asked for:
//! the lease exists, the condemned documents were read, and only then does it ask whether packs are there.

use std::{collections::HashSet, sync::Arc};

use futures::{StreamExt, TryStreamExt, stream};

use super::SnapshotWriter;
use crate::{
    Error, Result,
    content::{chunk::Locations, dedup_index::DedupIndex, meta::NewTree, workers::blocking},
    id::{ChunkId, PackId},
};

/// Segments that are read at once.
const REQUESTS_AT_ONCE: usize = 8;

impl SnapshotWriter {
    /// The chunks of a tree that the write neither stores nor may refer to, and `count`, with the length of each.
    /// Segments that may not stay as they are count with their chunks from now on.
    pub async fn lacking_in(
        &self,
        tree: &mut NewTree,
        count: fn(&DedupIndex, &ChunkId) -> bool,
    ) -> Result<Vec<(ChunkId, u32)>> {
        loop {
            self.lease.make_sure_of(tree.kept_packs()).await?;
            let unfit = tree.kept_in(|pack| !self.known.is_sound(pack));
            self.open_kept(tree, unfit).await?;
            let (known, uploader) = (Arc::clone(&self.known), Arc::clone(&self.uploader));
            let chunks: Vec<(ChunkId, u32)> = tree.chunks().collect();
            let (lacking, packs) = blocking(move || {
                let (mut lacking, mut packs) = (Vec::new(), HashSet::new());
                for (id, raw_len) in chunks {
                    if uploader.locate(&id).is_some() {
                        continue;
                    }
                    match known.locate(&id) {
                        Some(location) => drop(packs.insert(location.pack)),
                        None if count(&known, &id) => lacking.push((id, raw_len)),
                        None => {}
                    }
                }
                Ok((lacking, packs))
            })
            .await?;
            if self.lease.make_sure_of(packs).await? {
                return Ok(lacking);
            }
        }
    }

    /// Opens the segments that are kept but whose own blobs must be stored again.
    pub(super) async fn open_left_behind(&self, tree: &mut NewTree) -> Result<()> {
        let lost = self.known.lost();
        let known = &self.known;
        let unfit = |pack: &PackId| known.is_barred(pack) || known.is_unsure(pack) || lost.has_pack(pack);
        let left = tree.kept_left_behind(unfit);
        self.open_kept(tree, left).await?;
        // The writer that keeps segments has asked for their packs.
        match tree.kept_in(|pack| !self.known.is_sound(pack)).first() {
            None => Ok(()),
            Some((part, _)) => {
                Err(Error::Internal { what: format!("segment {part} was kept, and may not be") })
            }
        }
    }

    /// Reads segments of the base, by number in the tree and in the base.
    async fn open_kept(&self, tree: &mut NewTree, kept: Vec<(usize, usize)>) -> Result<()> {
        if kept.is_empty() {
            return Ok(());
        }
        let missing = || Error::Internal { what: "a segment was kept of no base".to_owned() };
        let base = self.base_tree.as_ref().ok_or_else(missing)?;
        let opened: Vec<_> = stream::iter(kept)
            .map(|(part, at)| async move { Ok::<_, Error>((part, base.opened(at).await?)) })
            .buffer_unordered(REQUESTS_AT_ONCE)
            .try_collect()
            .await?;
        for (part, (segment, locations)) in opened {
            let ids = segment.chunks.iter().map(|(id, _)| *id);
            self.known.learn_base(ids.zip(locations).collect::<Locations>());
            tree.open_part(part, segment);
        }
        Ok(())
    }
}
