//! `OpenedTree` is a snapshot whose tree is read by need.

use std::sync::Arc;

use super::as_it_is_now;
use crate::{
    Error, Result,
    content::{TenantStore, snapshot_tree::SnapshotTree, workers::blocking},
    format::record::Record,
    ops::read::follow::SnapshotFollower,
};

/// A snapshot of which the root is known, and of a small one the tree.
#[derive(Clone, Debug)]
pub struct OpenedTree {
    /// The record of the snapshot.
    pub record: Record,
    /// Its tree.
    pub tree: Arc<SnapshotTree>,
}

impl OpenedTree {
    /// Reads the root of `record`, and of a small tree all of it, which is then checked. Of a large one each segment
    /// is checked when it is read.
    pub async fn load(store: &TenantStore, record: Record) -> Result<Self> {
        let open = |record: Record| async move { SnapshotTree::open(store, &record).await };
        let (record, tree) = as_it_is_now(store, record, open).await?;
        let found = tree.content_bytes();
        if found != record.uncompressed_size_bytes {
            let reason =
                format!("its files have {found} bytes, and {} in it", record.uncompressed_size_bytes);
            return Err(Error::damaged(format!("record {}", record.record), reason));
        }
        let follower =
            SnapshotFollower { store: store.clone(), lineage: record.lineage(), record: record.record };
        let tree = Arc::new(tree.following(Arc::new(follower)));
        let checked = Arc::clone(&tree);
        blocking(move || checked.check_whole()).await?;
        Ok(Self { record, tree })
    }
}
