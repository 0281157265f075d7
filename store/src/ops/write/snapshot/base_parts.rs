//! `BaseParts` learns where the base has chunks, segment by segment, of a tree that is not at hand whole.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream};

use super::plan::CapturePlan;
use crate::{
    Error, Result,
    content::{
        TenantStore,
        meta::{Metadata, NewTree},
        snapshot_tree::SnapshotTree,
    },
    ops::write::SnapshotWriter,
};

/// Segments that are read at once.
const REQUESTS_AT_ONCE: usize = 8;
/// More than these are fetched with all others: that takes fewer requests.
const FEW: usize = 64;

/// The segments of the base whose chunks are known.
#[derive(Debug, Default)]
pub(super) struct BaseParts {
    learnt: HashSet<usize>,
    /// Whether those of all segments are.
    all: bool,
}

impl BaseParts {
    /// Learns the segments that have files which must be read: most of their content is stored already.
    pub async fn learn_touched(
        &mut self,
        store: &TenantStore,
        writer: &SnapshotWriter,
        plan: &CapturePlan,
    ) -> Result<()> {
        let Some(tree) = by_need(writer) else { return Ok(()) };
        let mut touched = BTreeSet::new();
        for file in plan.files() {
            touched.extend(tree.segments_of(&file?.0));
        }
        self.learn(store, writer, &tree, touched).await;
        Ok(())
    }

    /// Learns the segments that a new tree does not have: most of their content is in others of it.
    pub async fn learn_left(&mut self, store: &TenantStore, writer: &SnapshotWriter, new: &NewTree) {
        let Some(tree) = by_need(writer) else { return };
        let kept: HashSet<usize> = new.kept_numbers().collect();
        let left = (0..tree.root().segments.len()).filter(|at| !kept.contains(at));
        self.learn(store, writer, &tree, left.collect()).await;
    }

    /// Learns the chunks of some segments. Chunks of a segment that cannot be read are stored again.
    async fn learn(
        &mut self,
        store: &TenantStore,
        writer: &SnapshotWriter,
        tree: &SnapshotTree,
        wanted: BTreeSet<usize>,
    ) {
        let new: Vec<usize> =
            wanted.into_iter().filter(|at| !self.all && !self.learnt.contains(at)).collect();
        let read = match new.len() {
            0 => return,
            1..=FEW => read(writer, tree, new.clone()).await,
            _ => {
                self.all = true;
                read_all(store, writer).await
            }
        };
        if let Err(error) = read {
            tracing::warn!(%error, "some of the current snapshot cannot be read; more may be stored than needed");
        }
        self.learnt.extend(new);
    }
}

/// The tree of the base, unless all of it is at hand, and known.
fn by_need(writer: &SnapshotWriter) -> Option<Arc<SnapshotTree>> {
    writer.base_tree().filter(|tree| tree.metadata().is_none())
}

async fn read(writer: &SnapshotWriter, tree: &SnapshotTree, segments: Vec<usize>) -> Result<()> {
    let opened = stream::iter(segments).map(|at| async move { tree.opened(at).await });
    let mut opened = opened.buffer_unordered(REQUESTS_AT_ONCE);
    while let Some((segment, locations)) = opened.try_next().await? {
        writer.learn_base(segment.chunks.into_iter().map(|(id, _)| id).zip(locations));
    }
    Ok(())
}

async fn read_all(store: &TenantStore, writer: &SnapshotWriter) -> Result<()> {
    let missing = || Error::Internal { what: "a base without content".to_owned() };
    let base = writer.base().ok_or_else(missing)?;
    let content = base.content.as_ref().ok_or_else(missing)?;
    let metadata = Metadata::load(store, base.record, base.generation, content).await?;
    metadata.read_segments(|_, chunks| {
        writer.learn_base(chunks.into_iter().map(|(id, _, location)| (id, location)));
        Ok(())
    })
}
