//! Copies chunks out of condemned packs into a commit: a mount's base is the only copy of its files.
//!
//! A commit that a collection ran beside may have published references to packs which that
//! collection had just emptied. They are pardoned in time; until then nothing may refer to
//! them anew, so whoever builds on that commit takes their frames into packs of its own.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt;

use super::{SnapshotWriter, base::is_same, lost_of};
use crate::{
    Error, ErrorKind, Result,
    catalog::records,
    content::{
        TenantStore,
        chunk::locations_by_id,
        dedup_index::DedupIndex,
        ingest::Ingested,
        packer::Packer,
        reader::{Verified, Want},
        upload::Uploader,
        workers::blocking,
    },
    format::tree::Entry,
    id::ChunkId,
    ops::read::open::Opened,
};

impl SnapshotWriter {
    /// As [`follow_base`](Self::follow_base), for a source that has the chunks of `entries` from
    /// nowhere but the base. The metadata of the base is read anew if it is not what it was: chunks
    /// were moved since, by a collection or by a repair that had a good copy, or the packs that hold
    /// them are about to go. The chunks that may not be referred to even where they are now, but are
    /// still there, are copied.
    pub async fn follow_base_or_copy(&mut self, entries: &Arc<Vec<Entry>>) -> Result<Ingested> {
        let gone = |id: &ChunkId, entry: usize| {
            let path = &entries[entry].path;
            let reason = format!("chunk {id} is gone, or about to be collected");
            Error::damaged(format!("the snapshot {path} is built on"), reason)
        };
        let Some(before) = self.base.clone() else {
            self.lease.look_at_packs().await?;
            return match self.not_in_base(entries).await?.into_iter().next() {
                Some((id, (_, entry))) => Err(gone(&id, entry)),
                None => Ok(Ingested::default()),
            };
        };
        let now = self.base_now(&before).await?;
        let is_whole = self.not_in_base(entries).await?.is_empty();
        let now = match now {
            // It was deleted since. All that is needed of it is there, and nothing may take it.
            Err(error) if error.kind() == ErrorKind::NotFound && is_whole => return Ok(Ingested::default()),
            now => now?,
        };
        // Even if it is the same, the metadata may be that of an earlier generation.
        if is_same(&before, &now) && is_whole {
            return Ok(Ingested::default());
        }
        let opened = Opened::load(&self.store, now).await?;
        // In this order: what is no longer lost is found where it is now.
        self.known.learn_moved(locations_by_id(&opened.entries, opened.locations));
        self.known.learn_lost(lost_of(&opened.record));
        let mut wants = Vec::new();
        for (id, (raw_len, entry)) in self.not_in_base(entries).await? {
            let location = self.known.locate_barred(&id).ok_or_else(|| gone(&id, entry))?;
            wants.push(Want { id, raw_len, location, purpose: () });
        }
        let copied = match copy_frames(&self.store, &self.uploader, wants).await {
            Err(missing @ Error::Missing { .. }) => {
                // If it was moved once more, the next attempt finds it.
                let lineage = before.lineage();
                let later = records::current(&self.store, &lineage, before.record).await?;
                let moved = later.generation != opened.record.generation;
                let what = format!("record {} of {lineage}", before.record);
                return Err(if moved { Error::Conflict { what } } else { missing });
            }
            copied => copied?,
        };
        self.base_metadata = Some(Arc::new(opened.metadata));
        Ok(copied)
    }

    /// The chunks that this write neither stores nor may refer to, with their length and an
    /// entry that needs them. A damaged chunk stays so: whoever builds on it has no other.
    async fn not_in_base(&self, entries: &Arc<Vec<Entry>>) -> Result<HashMap<ChunkId, (u32, usize)>> {
        let is_not_lost = |known: &DedupIndex, id: &ChunkId| known.locate_lost(id).is_none();
        let lacking = self.lacking(entries, is_not_lost).await?;
        Ok(lacking.into_iter().map(|lacks| (lacks.id, (lacks.raw_len, lacks.entry))).collect())
    }
}

/// Copies the frames of `wants`, each checked against its id, into packs of this write.
async fn copy_frames(
    store: &TenantStore,
    uploader: &Arc<Uploader>,
    wants: Vec<Want<()>>,
) -> Result<Ingested> {
    let mut stored = Ingested::default();
    let target = store.chunking().pack_bytes as usize;
    let mut packer = Packer::with_capacity(0);
    let mut fetched = store.fetched(wants);
    while let Some((fetch, bytes)) = fetched.next().await {
        let bytes = bytes?;
        for want in &fetch.wants {
            stored.new_chunks += 1;
            stored.new_bytes += u64::from(want.raw_len);
        }
        let (key, uploader) = (*store.key(), Arc::clone(uploader));
        packer = blocking(move || {
            for want in &fetch.wants {
                let frame = fetch.stored(want, &bytes);
                let codec = want.location.codec;
                Verified::check(&key, &want.id, codec, frame, want.raw_len)?;
                packer.copy(&want.entry(codec, frame), frame);
            }
            if packer.len() < target {
                return Ok(packer);
            }
            uploader.submit(packer, uploader.wait_for_slot()?)?;
            Ok(Packer::with_capacity(target + target / 16))
        })
        .await?;
    }
    if !packer.is_empty() {
        let uploader = Arc::clone(uploader);
        blocking(move || uploader.submit(packer, uploader.wait_for_slot()?)).await?;
    }
    Ok(stored)
}
