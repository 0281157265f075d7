//! The end of every write: metadata, index, and the record that makes it a snapshot.

use std::sync::Arc;

use crate::{
    Result,
    catalog::lease::WriteLease,
    content::{
        TenantStore,
        known::Known,
        meta::{Metadata, NewTree},
        upload::{Gate, Uploader},
        workers::blocking,
    },
    format::record::Record,
    id::ChunkId,
};

/// A write of which every chunk is on its way.
pub(super) struct Written<'a> {
    pub store: &'a TenantStore,
    pub lease: &'a WriteLease,
    pub uploader: &'a Uploader,
    pub known: &'a Arc<Known>,
}

impl Written<'_> {
    /// Stores the metadata once all packs are durable, then makes the record live. `finish`
    /// fills in what only the caller knows.
    pub async fn publish(
        &self,
        tree: NewTree,
        base: Option<Arc<Metadata>>,
        finish: impl FnOnce(&mut Record),
    ) -> Result<(Record, Metadata)> {
        let packs = self.uploader.finish().await?;
        let write = self.lease.open().await?;
        let chunks = tree.chunks().count() as u64;
        let (store, known) = (self.store.clone(), Arc::clone(self.known));
        let (packs, meta) = blocking(move || {
            let locate = |id: &ChunkId| packs.locations.get(id).copied().or_else(|| known.locate(id));
            let meta = tree.seal(&store, write, base.as_deref(), locate, |pack| known.is_barred(pack))?;
            Ok((packs, meta))
        })
        .await?;
        self.lease.allow(packs.stored_bytes + meta.pack.bytes.len() as u64)?;
        let durable = self.lease.upload_metadata(packs, &meta.pack).await?;
        let content = meta.content.clone();
        let finish = |record: &mut Record| {
            record.content = Some(content);
            record.counts.chunks = chunks;
            record.counts.stored_bytes = durable.stored_bytes;
            finish(record);
        };
        let record = self.lease.publish(&durable, finish).await?;
        Ok((record, meta.metadata))
    }
}
