//! `SnapshotWriter::finish` ends a write: metadata, index, and the record that makes it a snapshot.

use std::sync::Arc;

use super::SnapshotWriter;
use crate::{
    Error, Result,
    catalog::clock,
    content::{
        meta::{Metadata, NewTree},
        unfinished::{self, TakenOver},
        upload::{DurablePacks, WriteSession},
        workers::blocking,
    },
    format::{
        record::{Content, Record},
        table::Location,
        tree::Entry,
    },
    id::{ChunkId, PackId},
};

/// A snapshot that was stored.
pub(in crate::ops) struct Finished {
    pub record: Record,
    pub metadata: Metadata,
    pub taken_over: TakenOver,
}

impl SnapshotWriter {
    /// Stores the metadata once all packs are durable, then makes the record live. `describe`
    /// fills in what only the source knows.
    pub async fn finish(&mut self, tree: NewTree, describe: impl FnOnce(&mut Record)) -> Result<Finished> {
        let packs = self.uploader.finish().await?;
        let (write, base) = (self.lease.open().await?, self.base_metadata.take());
        let (chunks, content_bytes) = (tree.chunks().count() as u64, tree.content_bytes);
        let (store, known) = (self.store.clone(), Arc::clone(&self.known));
        let (mut packs, meta) = blocking(move || {
            let sure = |id: &ChunkId| known.locate(id).filter(|found| !known.is_unsure(&found.pack));
            let stored = |id: &ChunkId| packs.locate(id).or_else(|| sure(id));
            let locate = |id: &ChunkId| stored(id).or_else(|| known.locate_lost(id));
            let lost = known.lost();
            let unfit = |pack: &PackId| known.is_barred(pack) || known.is_unsure(pack) || lost.has_pack(pack);
            let root = base.as_deref().map(|base| &base.root);
            let meta = tree.seal(&store, write, root, locate, unfit)?;
            Ok((packs, meta))
        })
        .await?;
        self.lease.allow(packs.stored_bytes + meta.pack.bytes.len() as u64)?;
        let taken_over = self.take_over(&mut packs, &meta.content);
        let indexed: Vec<PackId> = packs.index.iter().map(|pack| pack.pack).collect();
        let durable = self.lease.upload_metadata(packs, &meta.pack).await?;
        self.forget(indexed);
        let content = meta.content.clone();
        let metadata = Metadata::of_fresh(meta.root, meta.fresh);
        let metadata =
            metadata.ok_or_else(|| Error::Internal { what: "a segment that was not read".to_owned() })?;
        let inherited = self.inherited(&metadata)?;
        let complete = |record: &mut Record| {
            record.content = Some(content);
            record.damage = inherited.and_then(|(entries, locations)| {
                self.known.lost().mark(record, &entries, &locations, clock::unix_ms())
            });
            record.counts.chunks = chunks;
            record.counts.stored_bytes = durable.stored_bytes;
            describe(record);
            // What was found before the files were read may have grown since.
            record.uncompressed_size_bytes = content_bytes;
        };
        let tell = async |record: &Record| {
            if let Some((handle, reason)) = &self.held_back {
                handle.tell_held_back(record, reason).await;
            }
        };
        let record = self.lease.make_live_after(&durable, complete, tell).await?;
        Ok(Finished { record, metadata, taken_over })
    }

    /// Of the packs that earlier writes have left, those that the snapshot needs go into its index.
    fn take_over(&self, packs: &mut DurablePacks, content: &Content) -> TakenOver {
        let mut taken_over = TakenOver::default();
        for used in &content.packs {
            let Some(left) = self.known.unfinished().get(&used.pack) else { continue };
            packs.index.push(left.clone());
            taken_over.packs += 1;
            taken_over.bytes += used.live_bytes;
        }
        taken_over
    }

    /// The index in the store names these packs from now on. What may not be referred to is no use
    /// to anybody. All before the record is live: a note about a snapshot's packs would outlive
    /// what a check finds out about them.
    fn forget(&self, indexed: Vec<PackId>) {
        let useless = self.known.unfinished().packs().filter(|pack| self.known.is_barred(pack));
        unfinished::forget(&self.store, indexed.into_iter().chain(useless));
    }

    /// What the snapshot consists of, if some of that may be damaged.
    fn inherited(&self, metadata: &Metadata) -> Result<Option<(Vec<Entry>, Vec<Location>)>> {
        if self.known.lost().is_empty() { Ok(None) } else { metadata.decode().map(Some) }
    }
}
