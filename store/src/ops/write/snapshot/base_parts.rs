//! `BaseParts` learns where the base has chunks, segment by segment, of a tree that is not at hand whole.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use super::plan::CapturePlan;
use crate::{
    Result,
    content::{
        meta::NewTree,
        snapshot_tree::{SnapshotTree, stored_segments::StoredSegments},
    },
    ops::write::SnapshotWriter,
};

/// The segments of the base whose chunks are known.
#[derive(Debug, Default)]
pub(super) struct BaseParts {
    learnt: HashSet<usize>,
}

impl BaseParts {
    /// Learns the segments that have files which must be read: most of their content is stored already.
    pub async fn learn_touched(&mut self, writer: &SnapshotWriter, plan: &CapturePlan) -> Result<()> {
        let Some(tree) = by_need(writer) else { return Ok(()) };
        let mut touched = BTreeSet::new();
        for file in plan.files() {
            touched.extend(tree.segments_of(&file?.0));
        }
        self.learn(writer, &tree, touched).await;
        Ok(())
    }

    /// Learns the segments that a new tree does not have: most of their content is in others of it.
    pub async fn learn_left(&mut self, writer: &SnapshotWriter, new: &NewTree) {
        let Some(tree) = by_need(writer) else { return };
        let kept: HashSet<usize> = new.kept_numbers().collect();
        let left = (0..tree.root().segments.len()).filter(|at| !kept.contains(at));
        self.learn(writer, &tree, left.collect()).await;
    }

    /// Learns the chunks of some segments. Chunks of a segment that cannot be read are stored again.
    async fn learn(&mut self, writer: &SnapshotWriter, tree: &Arc<SnapshotTree>, wanted: BTreeSet<usize>) {
        let new: Vec<usize> = wanted.into_iter().filter(|at| !self.learnt.contains(at)).collect();
        if let Err(error) = read(writer, tree, new.clone()).await {
            tracing::warn!(%error, "some of the current snapshot cannot be read; more may be stored than needed");
        }
        self.learnt.extend(new);
    }
}

/// The tree of the base, unless all of it is at hand, and known.
fn by_need(writer: &SnapshotWriter) -> Option<Arc<SnapshotTree>> {
    writer.base_tree().filter(|tree| tree.metadata().is_none())
}

async fn read(writer: &SnapshotWriter, tree: &Arc<SnapshotTree>, segments: Vec<usize>) -> Result<()> {
    let mut stored = StoredSegments::of(tree, segments);
    while let Some(found) = stored.next().await? {
        let chunks = found.chunks(&tree.root().segments[found.at])?;
        writer.learn_base(chunks.into_iter().map(|(id, _, location)| (id, location)));
    }
    Ok(())
}
