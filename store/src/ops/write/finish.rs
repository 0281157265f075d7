//! `SnapshotWriter::finish` ends a write: metadata, index, and the record that makes it a snapshot.

use std::sync::Arc;

use super::SnapshotWriter;
use crate::{
    Result,
    catalog::{clock, lock::Hold, pointer::VerifiedFlip},
    content::{
        chunk_fetcher::startup::StartupRanges,
        damage::{DamagedFrames, Marking},
        meta::{Fresh, NewMetadata, NewTree},
        snapshot_tree::SnapshotTree,
        unfinished::{self, TakenOver},
        upload::{DurablePacks, WriteSession},
        workers::blocking,
    },
    format::{
        FormatError,
        record::{Content, Record},
        root::Root,
        segment::SegmentPart,
        startup::Startup,
        table::{self, Location},
        tree::{Entry, Kind, Meta, TreePath},
    },
    id::{ChunkId, PackId},
    ops::read::follow::SnapshotFollower,
};

/// A snapshot that was stored.
pub(in crate::ops) struct Finished {
    pub record: Record,
    pub tree: Arc<SnapshotTree>,
    pub taken_over: TakenOver,
}

/// The work that goes on beside the end of a write.
pub(super) struct Beside<'a, F> {
    /// The lock whose flip is verified while the record becomes live.
    pub hold: Option<&'a Hold>,
    /// Runs while the metadata is uploaded. Unless it succeeds, the record does not become live.
    pub uploading: F,
}

impl SnapshotWriter {
    /// Stores the metadata once all packs are durable, then makes the record live. `describe`
    /// fills in the facts that only the source knows.
    pub async fn finish(&mut self, tree: NewTree, describe: impl FnOnce(&mut Record)) -> Result<Finished> {
        Box::pin(self.finish_planned(tree, None, describe)).await
    }

    /// The same, with a plan for these `places`, which are read first.
    pub async fn finish_planned(
        &mut self,
        tree: NewTree,
        places: Option<&StartupRanges>,
        describe: impl FnOnce(&mut Record),
    ) -> Result<Finished> {
        let beside = Beside { hold: None, uploading: std::future::ready(Ok(())) };
        self.finish_beside(tree, places, beside, describe).await.map(|(finished, _)| finished)
    }

    /// The same, with other work meanwhile, so that nobody waits for it by itself.
    pub(super) async fn finish_beside(
        &mut self,
        mut tree: NewTree,
        places: Option<&StartupRanges>,
        beside: Beside<'_, impl Future<Output = Result<()>>>,
        describe: impl FnOnce(&mut Record),
    ) -> Result<(Finished, Option<VerifiedFlip>)> {
        let packs = self.uploader.finish().await?;
        let write = self.lease.open().await?;
        self.open_left_behind(&mut tree).await?;
        let base = self.base_tree.take();
        let (chunks, content_bytes) = (tree.chunk_count(), tree.content_bytes);
        let (store, known) = (self.store.clone(), Arc::clone(&self.known));
        // The tree may be read long after this: its segments are found where a collection has moved them.
        let follower =
            SnapshotFollower { store: store.clone(), lineage: self.lease.lineage().clone(), record: write };
        let (mut packs, content, pack, tree, inherited) = blocking(move || {
            let sure = |id: &ChunkId| known.locate(id).filter(|found| !known.is_unsure(&found.pack));
            let stored = |id: &ChunkId| packs.locate(id).or_else(|| sure(id));
            let locate = |id: &ChunkId| stored(id).or_else(|| known.locate_lost(id));
            let lost = known.lost();
            let unfit = |pack: &PackId| known.is_barred(pack) || known.is_unsure(pack) || lost.has_pack(pack);
            let root = base.as_deref().map(SnapshotTree::root);
            let NewMetadata { content, pack, root, fresh } = {
                let held = |pack: &PackId| lost.touches(pack);
                tree.seal(&store, write, root, locate, unfit, held)?
            };
            let inherited = inherited(&lost, &root, &fresh)?;
            let tree = SnapshotTree::of_new(&store, base.as_deref(), root, fresh)?;
            Ok((packs, content, pack, Arc::new(tree.following(Arc::new(follower))), inherited))
        })
        .await?;
        self.lease.allow(packs.stored_bytes + pack.bytes.len() as u64)?;
        let taken_over = self.take_over(&mut packs, &content);
        let indexed: Vec<PackId> = packs.index.iter().map(|pack| pack.pack).collect();
        let uploading = Box::pin(self.lease.upload_metadata(packs, &pack));
        // All are waited for, whatever becomes of the others: what is intended may be taken back.
        let (durable, startup, allowed) =
            futures::future::join3(uploading, Box::pin(planned(places, &tree)), beside.uploading).await;
        let durable = durable?;
        allowed?;
        self.forget(indexed);
        let complete = |record: &mut Record| {
            record.content = Some(content);
            record.damage = inherited.and_then(|(entries, locations)| {
                let (lost, mut locations) = (self.known.lost(), &locations[..]);
                let mut marking = Marking::of(&lost);
                for entry in &entries {
                    let (own, rest) = locations.split_at(entry.chunks().count().min(locations.len()));
                    marking.add(entry, own);
                    locations = rest;
                }
                marking.end(record, clock::unix_ms())
            });
            record.counts.chunks = chunks;
            record.counts.stored_bytes = durable.stored_bytes;
            record.startup = startup;
            describe(record);
            // What was found before the files were read may have grown since.
            record.uncompressed_size_bytes = content_bytes;
        };
        let tell = async |record: &Record| {
            if let Some((handle, reason)) = &self.held_back {
                handle.tell_held_back(record, reason).await;
            }
        };
        let living = Box::pin(self.lease.make_live_after(&durable, complete, tell));
        let (record, verified) = match beside.hold {
            // Before anything is sent: what is seen of the pointer is older than the live record.
            Some(hold) => {
                let seen = hold.seen().await;
                Box::pin(hold.verified(seen, living)).await?
            }
            None => (living.await?, None),
        };
        Ok((Finished { record, tree, taken_over }, verified))
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

    /// The index in the store names these packs from now on. Chunks that may not be referred to are no use
    /// to anybody. All before the record is live: a note about a snapshot's packs would outlive
    /// the findings of a check about them.
    fn forget(&self, indexed: Vec<PackId>) {
        let useless = self.known.unfinished().packs().filter(|pack| self.known.is_barred(pack));
        unfinished::forget(&self.store, indexed.into_iter().chain(useless));
    }
}

/// The plan of first reads. It is a hint: a tree that cannot be read for it has none.
async fn planned(places: Option<&StartupRanges>, tree: &SnapshotTree) -> Startup {
    let Some(places) = places else { return Startup::default() };
    places.plan_in(tree).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "what is read first cannot be told");
        Startup::default()
    })
}

/// The entries, and the places of their chunks, of all segments that need packs of which something is lost. Such
/// segments are never kept. A file that goes on in one whose beginning does not count there is an entry of its own.
fn inherited(
    lost: &DamagedFrames,
    root: &Root,
    fresh: &[Fresh],
) -> Result<Option<(Vec<Entry>, Vec<Location>)>> {
    if lost.is_empty() {
        return Ok(None);
    }
    let (mut entries, mut locations): (Vec<Entry>, Vec<Location>) = Default::default();
    let mut follows = false;
    for (segment, fresh) in root.segments.iter().zip(fresh) {
        let is_hit = segment.span.iter().flat_map(|span| &span.packs).any(|used| lost.touches(&used.pack));
        let Some((tree, table)) = fresh.as_ref().filter(|_| is_hit) else {
            follows = false;
            continue;
        };
        let damaged = |error: FormatError| error.of(format!("tree segment {}", segment.tree.id));
        let part = SegmentPart::read(tree).map_err(damaged)?;
        locations.extend(table::decode(table, segment.chunks as usize).map_err(damaged)?);
        match entries.last_mut().map(|entry| &mut entry.kind) {
            Some(Kind::File { extents, .. }) if follows => extents.extend(part.continued),
            _ => {
                let kind = Kind::File { size: 0, extents: part.continued };
                entries.push(Entry { path: TreePath::root(), meta: Meta::default(), kind });
            }
        }
        entries.extend(part.entries);
        follows = true;
    }
    Ok(Some((entries, locations)))
}
