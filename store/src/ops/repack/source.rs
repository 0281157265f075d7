//! Where what is moved comes from.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};

use super::Survey;
use crate::{
    Error, Result,
    content::{
        TenantStore,
        meta::Metadata,
        reader::{Fetch, Verified, Want},
        workers::blocking,
    },
    format::{layout, pack::PackEntry, record::Record, table::Location},
    id::{ChunkKey, PackId},
};

/// A frame: where it lay, what it is, and its bytes.
pub type Frame = ((PackId, u64), PackEntry, Bytes);

/// Gives what is to be moved, each frame checked against its id.
#[async_trait]
pub trait Source: Sync {
    /// Those of `frames` that can be had, of a pack or of what should have been one. What is
    /// not among them stays where it is.
    async fn frames(&self, pack: PackId, frames: &BTreeMap<u64, Location>) -> Result<Vec<Frame>>;

    /// Of a snapshot that is to be moved. Called when the lease is there: what else than the
    /// snapshot's own it refers to must not be condemned. Without it, the snapshot is left alone.
    async fn metadata(&self, record: &Record) -> Result<Option<Metadata>>;

    /// Whether it is a defect if something is still needed of a pack that was to be emptied.
    fn is_complete(&self) -> bool;
}

/// The packs themselves: all of what is needed of each, or none of it.
pub(super) struct Packs<'a> {
    pub store: &'a TenantStore,
    pub survey: &'a Survey,
}

#[async_trait]
impl Source for Packs<'_> {
    async fn frames(&self, pack: PackId, frames: &BTreeMap<u64, Location>) -> Result<Vec<Frame>> {
        let len = self.survey.packs.get(&pack).copied().unwrap_or_default();
        read(self.store, pack, len, frames).await
    }

    async fn metadata(&self, record: &Record) -> Result<Option<Metadata>> {
        let Some(content) = &record.content else { return Ok(None) };
        Metadata::load(self.store, record.record, record.generation, content).await.map(Some)
    }

    fn is_complete(&self) -> bool {
        true
    }
}

/// The frames that are needed of one pack, in the order in which they lie.
async fn read(
    store: &TenantStore,
    pack: PackId,
    len: u64,
    frames: &BTreeMap<u64, Location>,
) -> Result<Vec<Frame>> {
    let key = layout::pack(&store.tenant, pack);
    let (directory, _) = store.pack_directory(pack, len).await?;
    let entries: HashMap<u64, PackEntry> =
        directory.entries.into_iter().map(|entry| (entry.offset, entry)).collect();
    let mut wants = Vec::with_capacity(frames.len());
    for location in frames.values() {
        let entry = entries
            .get(&location.offset)
            .filter(|entry| entry.stored_len == location.stored_len && entry.codec == location.codec);
        let Some(entry) = entry else {
            let reason = format!("it has no frame at {}, where a snapshot needs one", location.offset);
            return Err(Error::damaged(key, reason));
        };
        wants.push(Want { id: entry.id, raw_len: entry.raw_len, location: *location, purpose: *entry });
    }
    let fetched = store.fetched(wants).map(|(fetch, bytes)| Ok::<_, Error>((fetch, bytes?)));
    let fetched: Vec<_> = fetched.try_collect().await?;
    let chunk_key = *store.key();
    blocking(move || checked(&chunk_key, pack, &fetched).map_err(|reason| Error::damaged(key, reason))).await
}

/// The frames that were fetched, if all of them are what the pack says.
fn checked(
    key: &ChunkKey,
    pack: PackId,
    fetched: &[(Fetch<PackEntry>, Bytes)],
) -> Result<Vec<Frame>, String> {
    let mut read = Vec::new();
    for (fetch, bytes) in fetched {
        for want in &fetch.wants {
            let (stored, Want { location, purpose: entry, .. }) = (fetch.stored(want, bytes), want);
            if crc32c::crc32c(stored) != entry.crc {
                return Err(format!("its frame at {} is not as it was written", location.offset));
            }
            Verified::check(key, &entry.id, entry.codec, stored, entry.raw_len)
                .map_err(|error| format!("its frame at {}: {error}", location.offset))?;
            read.push(((pack, location.offset), *entry, bytes.slice_ref(stored)));
        }
    }
    Ok(read)
}
