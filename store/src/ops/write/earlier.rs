//! Refers to the chunks that an earlier snapshot of the same changes has stored.
//!
//! Work in progress is stored again and again, and most of it is the same as the last time. The earlier
//! snapshot is no base: the tree is not compared with it, and it may be deleted as soon as this one is
//! stored. So its chunks are looked up before the lease exists, and once it does, the snapshot is looked at
//! again, after the condemned documents and with the same consequences as the base. If it does not stand as
//! it was read, the files that need its chunks are stored again.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};

use super::SnapshotWriter;
use crate::{
    Result,
    content::snapshot_tree::SnapshotTree,
    format::{record::Record, tree::TreePath},
    id::ChunkId,
};

/// Segments that are read at once.
const REQUESTS_AT_ONCE: usize = 8;

impl SnapshotWriter {
    /// Learns where an earlier state has the chunks of these files. What cannot be read is stored again.
    pub async fn learn_earlier<'a>(&self, tree: &SnapshotTree, files: impl Iterator<Item = &'a TreePath>) {
        let segments: BTreeSet<usize> = files.flat_map(|path| tree.segments_of(path)).collect();
        let opened = stream::iter(segments).map(|at| async move { tree.opened(at).await });
        let mut opened = opened.buffer_unordered(REQUESTS_AT_ONCE);
        loop {
            match opened.try_next().await {
                Ok(Some((segment, locations))) => {
                    let ids = segment.chunks.into_iter().map(|(id, _)| id);
                    self.known.learn_earlier(ids.zip(locations).collect());
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "what was saved before cannot be read; more is stored than needed");
                    return;
                }
            }
        }
    }

    /// Makes sure of the chunks found in the earlier snapshot, now that the lease exists.
    pub async fn follow_earlier(&self, earlier: &Record) -> Result<()> {
        if self.known.uses_earlier() {
            self.lease.look_at_packs().await?;
            self.lease.look_at_earlier(earlier).await?;
        }
        Ok(())
    }

    /// Whether the write neither stores this chunk, nor may refer to it anywhere, and the base never had it.
    pub fn lacks(&self, id: &ChunkId) -> bool {
        self.uploader.locate(id).is_none()
            && self.known.locate(id).is_none()
            && self.known.in_base(id).is_none()
    }
}
