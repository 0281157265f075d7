//! Copies chunks out of condemned packs into a commit: a mount's base is the only copy of its files.
//!
//! A commit that a collection ran beside may have published references to packs which that
//! collection had just emptied. They are pardoned in time; until then nothing may refer to
//! them anew, so a write that builds on that commit takes their frames into packs of its own.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use futures::StreamExt;

use super::{SnapshotWriter, base::is_same, lost_of};
use crate::{
    Error, ErrorKind, Result,
    catalog::records,
    content::{
        TenantStore,
        chunk::Locations,
        dedup_index::DedupIndex,
        ingest::Ingested,
        meta::NewTree,
        packer::Packer,
        reader::{Verified, Want},
        snapshot_tree::SnapshotTree,
        upload::Uploader,
        workers::blocking,
    },
    format::tree::TreePath,
    id::ChunkId,
    ops::read::open::as_it_is_now,
};

impl SnapshotWriter {
    /// As [`follow_base`](Self::follow_base), for a source that has the chunks of `tree` from nowhere but the
    /// base. The root of the base is read anew if it is another by now: chunks were moved since, by a
    /// collection or by a repair that had a good copy, or the packs that hold them are about to go. Chunks
    /// that are there, but may not be referred to even at their new place, are copied.
    pub async fn follow_base_or_copy(&mut self, tree: &mut NewTree) -> Result<Ingested> {
        let Some(before) = self.base.clone() else {
            self.lease.look_at_packs().await?;
            return match self.not_in_base(tree).await?.into_iter().next() {
                Some((id, _)) => Err(gone(tree, &id)),
                None => Ok(Ingested::default()),
            };
        };
        let now = self.base_now(&before).await?;
        let is_moved = matches!(&now, Ok(now) if !is_same(&before, now));
        // Where it was, it need not be read any more.
        let is_whole = !is_moved
            && match self.not_in_base(tree).await {
                Err(Error::Missing { .. }) if now.is_ok() => false,
                lacking => lacking?.is_empty(),
            };
        let now = match now {
            // It was deleted since. All that is needed of it is there, and nothing may take it.
            Err(error) if error.kind() == ErrorKind::NotFound && is_whole => return Ok(Ingested::default()),
            now => now?,
        };
        // Even if it is the same, what was read of it may be that of an earlier generation.
        if is_whole {
            return Ok(Ingested::default());
        }
        let (this, new) = (&*self, &*tree);
        let (now, (moved, places)) = as_it_is_now(&this.store, now, |record| async move {
            let moved = SnapshotTree::open(&this.store, &record).await?;
            let places = this.moved_to(new, &moved).await?;
            Ok((moved, places))
        })
        .await?;
        self.known.note_existing(now.packs());
        tree.follow(moved.root())?;
        // In this order: what is no longer lost is found where it is now.
        self.known.learn_moved(places);
        self.known.learn_lost(lost_of(&now));
        self.base_tree = Some(Arc::new(moved));
        let mut wants = Vec::new();
        for (id, raw_len) in self.not_in_base(tree).await? {
            let location = self.known.locate_barred(&id).ok_or_else(|| gone(tree, &id))?;
            wants.push(Want { id, raw_len, location, purpose: () });
        }
        match copy_frames(&self.store, &self.uploader, wants).await {
            Err(missing @ Error::Missing { .. }) => {
                // If it was moved once more, the next attempt finds it.
                let lineage = before.lineage();
                let later = records::current(&self.store, &lineage, before.record).await?;
                let moved = later.generation != now.generation;
                let what = format!("record {} of {lineage}", before.record);
                Err(if moved { Error::Conflict { what } } else { missing })
            }
            copied => copied,
        }
    }

    /// Where the base has the chunks of a tree's new segments by now. Its segments are read until all are found
    /// that the base had: most of them are in segments that the new ones were cut from.
    async fn moved_to(&self, tree: &NewTree, base: &SnapshotTree) -> Result<Locations> {
        let mut wanted: HashSet<ChunkId> =
            tree.chunks().map(|(id, _)| id).filter(|id| self.known.in_base(id).is_some()).collect();
        let mut moved = Locations::new();
        let (kept, mut order): (HashSet<usize>, Vec<usize>) =
            (tree.kept_numbers().collect(), (0..base.root().segments.len()).collect());
        order.sort_by_key(|at| kept.contains(at));
        for at in order {
            if wanted.is_empty() {
                break;
            }
            let part = base.read(at).await?;
            for ((id, _), location) in part.tree.chunks().zip(&part.locations) {
                if wanted.remove(&id) {
                    moved.insert(id, *location);
                }
            }
        }
        Ok(moved)
    }

    /// The chunks that this write neither stores nor may refer to, once each, with their length. A damaged
    /// chunk stays so: a write that builds on it has no other.
    pub(super) async fn not_in_base(&self, tree: &mut NewTree) -> Result<BTreeMap<ChunkId, u32>> {
        let is_not_lost = |known: &DedupIndex, id: &ChunkId| known.locate_lost(id).is_none();
        Ok(self.lacking_in(tree, is_not_lost).await?.into_iter().collect())
    }
}

fn gone(tree: &NewTree, id: &ChunkId) -> Error {
    let path = tree.path_of(id).unwrap_or_else(TreePath::root);
    let reason = format!("chunk {id} is gone, or about to be collected");
    Error::damaged(format!("the snapshot {path} is built on"), reason)
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
