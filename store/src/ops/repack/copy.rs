//! Frames from old packs into new ones, as they are.
//!
//! Two packs are read ahead and two are on their way, so memory is bounded by the pack size.
//! Every frame is checked against the id by which it is known, and not only by its checksum: those
//! of one id are stored once, and the others go with their packs.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream, stream::FuturesUnordered};

use super::{Failed, Survey};
use crate::{
    Error, Result,
    bucket::put_unique,
    content::{
        TenantStore,
        known::Locations,
        packer::Packer,
        reader::{Fetch, Verified, Want, plan},
        upload::{DurablePacks, Gate},
    },
    format::{layout, pack::PackEntry, table::Location},
    id::{ChunkId, ChunkKey, PackId, PackSeq, RecordId},
};

const PACKS_READ_AHEAD: usize = 2;
const PACKS_IN_FLIGHT: usize = 2;
const REQUESTS_AT_ONCE: usize = 4;

pub(super) struct Copied {
    /// From where a frame lay to where it lies.
    pub places: HashMap<(PackId, u64), Location>,
    pub packs: DurablePacks,
}

pub(super) async fn copy(
    store: &TenantStore,
    gate: &dyn Gate,
    write: RecordId,
    survey: &Survey,
) -> Result<Copied, Failed> {
    let target = store.chunking().pack_bytes as usize;
    let packs = DurablePacks { locations: Locations::new(), index: Vec::new(), stored_bytes: 0 };
    let mut copied = Copied { places: HashMap::new(), packs };
    let mut by_id: HashMap<ChunkId, Location> = HashMap::new();
    let mut packer = Packer::with_capacity(target.min(largest(survey)) + target / 16);
    let mut next = 0;
    let mut sources = stream::iter(&survey.frames)
        .map(|(pack, frames)| async move {
            let len = survey.packs.get(pack).copied().unwrap_or_default();
            let read = read(store, *pack, len, frames).await;
            read.map_err(|error| Failed { pack: Some(*pack), ..error.into() })
        })
        .buffered(PACKS_READ_AHEAD);
    let mut uploads = FuturesUnordered::new();
    let mut read_all = false;
    loop {
        tokio::select! {
            biased;
            Some(uploaded) = uploads.next(), if !uploads.is_empty() => { uploaded?; }
            source = sources.next(), if !read_all && uploads.len() < PACKS_IN_FLIGHT => {
                let mut full = Vec::new();
                match source {
                    Some(source) => {
                        for (from, entry, stored) in source? {
                            let location = *by_id.entry(entry.id).or_insert_with(|| {
                                let copy = packer.copy(&entry, &stored);
                                let pack = PackId { write, seq: PackSeq::Data(next) };
                                let PackEntry { offset, stored_len, codec, .. } = copy;
                                Location { pack, offset, stored_len, codec }
                            });
                            copied.places.insert(from, location);
                            if packer.len() >= target {
                                let empty = Packer::with_capacity(target + target / 16);
                                full.push((std::mem::replace(&mut packer, empty), next));
                                next += 1;
                            }
                        }
                    }
                    None => {
                        read_all = true;
                        if !packer.is_empty() {
                            full.push((std::mem::replace(&mut packer, Packer::with_capacity(0)), next));
                        }
                    }
                }
                for (packer, number) in full {
                    let pack = packer.seal(PackId { write, seq: PackSeq::Data(number) }, *store.key());
                    copied.packs.index.push(pack.index());
                    copied.packs.stored_bytes += pack.bytes.len() as u64;
                    uploads.push(async move {
                        gate.open().await?;
                        let key = layout::pack(&store.tenant, pack.id);
                        Ok::<_, Error>(put_unique(&*store.bucket, &key, pack.bytes.into()).await?)
                    });
                }
            }
            else => break,
        }
    }
    drop(uploads);
    drop(sources);
    Ok(copied)
}

/// No more is reserved than is needed.
fn largest(survey: &Survey) -> usize {
    survey.frames.keys().map(|pack| survey.kept_bytes(*pack) as usize).sum()
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
    let fetched: Vec<_> = stream::iter(plan(wants))
        .map(|fetch| async move {
            let bytes = store.pack_range(fetch.pack, fetch.start, fetch.end).await?;
            Ok::<_, Error>((fetch, bytes))
        })
        .buffered(REQUESTS_AT_ONCE)
        .try_collect()
        .await?;
    checked(store.key(), pack, &fetched).map_err(|reason| Error::damaged(key, reason))
}

type Frame = ((PackId, u64), PackEntry, Bytes);

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
