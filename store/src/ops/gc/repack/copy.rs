//! Copies frames from old packs into new ones, as they are.
//!
//! Some parts of packs are read ahead and two packs are on their way, so memory is bounded by the
//! pack size.
//! Frames that are the same are stored once, and the others go with their packs. One id is not enough for
//! that: of two that differ, one may be wrong, and a snapshot that needs the other must not suffer for it.

use std::collections::HashMap;

use futures::{FutureExt, StreamExt, future::ready, stream, stream::FuturesUnordered};

use super::{Failed, FrameBatch, RepackPlan, Source};
use crate::{
    Error, Result,
    bucket::{Buffers, put_unique},
    content::{
        TenantStore,
        chunk_places::ChunkPlaces,
        packer::Packer,
        upload::{DurablePacks, WriteSession},
    },
    format::{frame::Codec, layout, pack::PackEntry, table::Location},
    id::{ChunkId, PackId, PackSeq, RecordId},
};

/// Their directories are read before their turn comes.
const PACKS_OPENED_AHEAD: usize = 2;
const PACKS_IN_FLIGHT: usize = 2;

/// The properties that two equal frames share.
#[derive(PartialEq, Eq, Hash)]
struct Same {
    id: ChunkId,
    codec: Codec,
    stored_len: u32,
    raw_len: u32,
    crc: u32,
}

pub(super) struct Copied {
    /// From where a frame lay to where it lies.
    pub places: HashMap<(PackId, u64), Location>,
    pub packs: DurablePacks,
}

pub(super) async fn copy(
    store: &TenantStore,
    gate: &dyn WriteSession,
    write: RecordId,
    survey: &RepackPlan,
    source: &dyn Source,
) -> Result<Copied, Failed> {
    let target = store.chunking().pack_bytes as usize;
    let packs = DurablePacks { places: ChunkPlaces::default(), index: Vec::new(), stored_bytes: 0 };
    let mut copied = Copied { places: HashMap::new(), packs };
    let mut stored_once: HashMap<Same, Location> = HashMap::new();
    let buffers = Buffers::new(PACKS_IN_FLIGHT);
    let room = target.min(largest(survey)) + target / 16;
    let mut packer = Packer::recycling(room, &buffers);
    let mut next = 0;
    let mut sources = stream::iter(&survey.frames)
        .map(|(pack, frames)| async move { (*pack, source.frames(*pack, frames).await) })
        .buffered(PACKS_OPENED_AHEAD)
        .flat_map(|(pack, opened)| {
            let parts: Vec<FrameBatch<'_>> = opened.unwrap_or_else(|error| vec![ready(Err(error)).boxed()]);
            stream::iter(parts).map(move |part| part.map(move |read| (pack, read)))
        })
        .buffered(source.parts_ahead());
    let mut uploads = FuturesUnordered::new();
    let mut read_all = false;
    loop {
        tokio::select! {
            biased;
            Some(uploaded) = uploads.next(), if !uploads.is_empty() => { uploaded?; }
            read = sources.next(), if !read_all && uploads.len() < PACKS_IN_FLIGHT => {
                let mut full = Vec::new();
                match read {
                    Some((pack, read)) => {
                        let read = read.map_err(|error| Failed { pack: Some(pack), ..error.into() })?;
                        for (from, entry, stored) in read {
                            let PackEntry { id, codec, stored_len, raw_len, crc, .. } = entry;
                            let same = Same { id, codec, stored_len, raw_len, crc };
                            let location = *stored_once.entry(same).or_insert_with(|| {
                                let copy = packer.copy(&entry, &stored);
                                let pack = PackId { write, seq: PackSeq::Data(next) };
                                let PackEntry { offset, stored_len, codec, .. } = copy;
                                Location { pack, offset, stored_len, codec }
                            });
                            copied.places.insert(from, location);
                            if packer.len() >= target {
                                let empty = Packer::recycling(room, &buffers);
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
fn largest(survey: &RepackPlan) -> usize {
    survey.frames.keys().map(|pack| survey.kept_bytes(*pack) as usize).sum()
}
