//! `SnapshotFollower` tells where the segments of one snapshot lie now: a collection may have moved them.

use async_trait::async_trait;

use crate::{
    Error, Result,
    catalog::records,
    content::{TenantStore, snapshot_tree::Follow},
    format::record::Content,
    id::RecordId,
    name::Lineage,
};

/// Looks at one record.
#[derive(Debug)]
pub(in crate::ops) struct SnapshotFollower {
    pub store: TenantStore,
    pub lineage: Lineage,
    pub record: RecordId,
}

#[async_trait]
impl Follow for SnapshotFollower {
    async fn content(&self) -> Result<Content> {
        let Self { store, lineage, record } = self;
        let now = records::current(store, lineage, *record).await?;
        now.content.ok_or_else(|| Error::damaged(format!("record {record}"), "it has no content"))
    }
}
