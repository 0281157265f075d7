//! `Source` reads and checks the frames that a repack moves.

use std::collections::{BTreeMap, HashMap, HashSet};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};

use super::{Needed, RepackPlan};
use crate::{
    Error, Result,
    content::{
        TenantStore,
        moved_tree::MovedTree,
        reader::{Fetch, Verified, Want, plan_over},
        workers::{beside, blocking},
    },
    format::{layout, pack::PackEntry, record::Record, tree_limits::MAX_METADATA_BYTES},
    id::{ChunkKey, PackId},
};

const RANGES_READ_AHEAD: usize = 4;
/// The longest run of unneeded bytes that is read along. Reading it costs less than leaving it out, for the
/// ranges are large; and never more than the whole pack is read.
const MAX_GAP: u64 = 512 << 10;

/// A frame: its old place, its directory entry, and its bytes.
pub type Frame = ((PackId, u64), PackEntry, Bytes);

/// Some frames of a pack, when it is awaited.
pub type FrameBatch<'a> = BoxFuture<'a, Result<Vec<Frame>>>;

/// Gives the frames to move, each checked: it is as it was written, at least.
#[async_trait]
pub trait Source: Sync {
    /// Those of `frames` that can be had, of a pack or of the place where one should have been, in parts that
    /// are read one by one or side by side. A frame that is not among them stays where it is.
    async fn frames<'a>(
        &'a self,
        pack: PackId,
        frames: &'a BTreeMap<u64, Needed>,
    ) -> Result<Vec<FrameBatch<'a>>>;

    /// How many parts may be read ahead: all of them are in memory.
    fn parts_ahead(&self) -> usize;

    /// Of a snapshot that is to be moved. Called when the lease is there: packs of others that the
    /// snapshot refers to must not be condemned. Without it, the snapshot is left alone.
    async fn tree(&self, record: &Record) -> Result<Option<MovedTree>>;

    /// Whether it is a defect if something is still needed of a pack that was to be emptied.
    fn is_complete(&self) -> bool;
}

/// The packs themselves: all needed frames of each, or the repack is given up.
///
/// A frame is copied if the snapshots and the pack agree about it, and its checksum is right.
/// Decoding it would show no more, unless it was wrong when it was written: a reader would find
/// that in the old pack as in the new. Once one has found it, its pack is marked, and of such
/// packs every frame is decoded: known damage is not stored again as if it were good.
pub(super) struct Packs<'a> {
    store: &'a TenantStore,
    survey: &'a RepackPlan,
    marked: HashSet<PackId>,
}

impl<'a> Packs<'a> {
    pub(super) fn new(store: &'a TenantStore, survey: &'a RepackPlan) -> Self {
        Self { store, survey, marked: survey.marked() }
    }
}

#[async_trait]
impl Source for Packs<'_> {
    async fn frames<'a>(
        &'a self,
        pack: PackId,
        frames: &'a BTreeMap<u64, Needed>,
    ) -> Result<Vec<FrameBatch<'a>>> {
        let len = self.survey.packs.get(&pack).copied().unwrap_or_default();
        let fetches = plan_over(MAX_GAP, self.wanted(pack, len, frames).await?);
        let decodes = self.marked.contains(&pack);
        let part = |fetch| beside(read(self.store.clone(), fetch, decodes)).boxed();
        Ok(fetches.into_iter().map(part).collect())
    }

    /// Each is one range.
    fn parts_ahead(&self) -> usize {
        RANGES_READ_AHEAD
    }

    async fn tree(&self, record: &Record) -> Result<Option<MovedTree>> {
        let Some(content) = &record.content else { return Ok(None) };
        let read = (record.record, record.generation);
        MovedTree::open(self.store, read, content, MAX_METADATA_BYTES).await.map(Some)
    }

    fn is_complete(&self) -> bool {
        true
    }
}

impl Packs<'_> {
    /// The needed frames of one pack, each with its entry in the pack's directory.
    async fn wanted(
        &self,
        pack: PackId,
        len: u64,
        frames: &BTreeMap<u64, Needed>,
    ) -> Result<Vec<Want<PackEntry>>> {
        let (directory, _) = self.store.pack_directory(pack, len).await?;
        let entries: HashMap<u64, PackEntry> =
            directory.entries.into_iter().map(|entry| (entry.offset, entry)).collect();
        let want = |needed: &Needed| {
            let Needed { location, id, raw_len } = *needed;
            let is_it = |entry: &&PackEntry| {
                (entry.id, entry.raw_len, entry.stored_len, entry.codec)
                    == (id, raw_len, location.stored_len, location.codec)
            };
            let Some(entry) = entries.get(&location.offset).filter(is_it) else {
                let reason = format!("it has not the frame at {} that a snapshot needs", location.offset);
                return Err(Error::damaged(layout::pack(&self.store.tenant, pack), reason));
            };
            Ok(Want { id, raw_len, location, purpose: *entry })
        };
        frames.values().map(want).collect()
    }
}

/// One range of a pack.
async fn read(store: TenantStore, fetch: Fetch<PackEntry>, decodes: bool) -> Result<Vec<Frame>> {
    let bytes = store.pack_range(fetch.pack, fetch.start, fetch.end).await?;
    let (chunk_key, key) = (*store.key(), layout::pack(&store.tenant, fetch.pack));
    let chunk_key = decodes.then_some(chunk_key);
    blocking(move || {
        checked(chunk_key.as_ref(), &fetch, &bytes).map_err(|reason| Error::damaged(key, reason))
    })
    .await
}

/// The frames of a range that was fetched, if all of them are as they were written; with the key, if they
/// match the pack's directory.
fn checked(key: Option<&ChunkKey>, fetch: &Fetch<PackEntry>, bytes: &Bytes) -> Result<Vec<Frame>, String> {
    let mut read = Vec::with_capacity(fetch.wants.len());
    for want in &fetch.wants {
        let (stored, Want { location, purpose: entry, .. }) = (fetch.stored(want, bytes), want);
        if crc32c::crc32c(stored) != entry.crc {
            return Err(format!("its frame at {} is not as it was written", location.offset));
        }
        if let Some(key) = key {
            Verified::check(key, &entry.id, entry.codec, stored, entry.raw_len)
                .map_err(|error| format!("its frame at {}: {error}", location.offset))?;
        }
        read.push(((fetch.pack, location.offset), *entry, bytes.slice_ref(stored)));
    }
    Ok(read)
}
