//! Finds other copies of damaged frames.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{FutureExt, StreamExt};

use super::metadata_source::MetadataSource;
use crate::{
    Result,
    bucket::{BucketError, Depth, Key},
    catalog::{condemned, records::list_all},
    content::{
        TenantStore,
        chunk_cache::{ChunkCache, Limits},
        compress::Compressor,
        damage::DamagedFrames,
        moved_tree::MovedTree,
        reader::{Verified, Want},
        workers::blocking,
    },
    format::{frame::Codec, index::Index, layout, limits, pack::PackEntry, record::Record, table::Location},
    id::{ChunkId, PackId, PackSeq},
    ops::{
        gc::repack::{Frame, FrameBatch, Needed, RepackPlan, Source},
        verify::findings::is_damage,
    },
};

/// This host's cache, and other packs. Nothing is believed: every frame found is checked
/// against its id, and copied. So it does not matter if a pack is condemned.
pub(super) struct Copies<'a> {
    store: &'a TenantStore,
    cache: Option<Arc<ChunkCache>>,
    /// Where packs and indexes say the chunks are, without places that are lost.
    places: HashMap<ChunkId, Vec<Location>>,
    /// Packs that are there, though not all of them can be relied on.
    existing: HashSet<PackId>,
    metadata_source: MetadataSource<'a>,
}

impl<'a> Copies<'a> {
    pub(super) async fn find(
        store: &'a TenantStore,
        lost: &DamagedFrames,
        survey: &RepackPlan,
        sizes: &HashMap<PackId, u64>,
        metadata_source: MetadataSource<'a>,
    ) -> Result<Self> {
        let cache = store.cache.as_ref().map(|cache| Arc::new(ChunkCache::new(cache, Limits::default())));
        let existing = sizes.keys().copied().collect();
        let mut copies = Self { store, cache, places: HashMap::new(), existing, metadata_source };
        let ids: HashSet<ChunkId> = survey.frames().map(|needed| needed.id).collect();
        if ids.is_empty() {
            return Ok(copies);
        }
        let mut add = |id: ChunkId, location: Location| {
            if ids.contains(&id) && sizes.contains_key(&location.pack) && !lost.holds(&location) {
                copies.places.entry(id).or_default().push(location);
            }
        };
        let mut unlisted: HashSet<PackId> = sizes.keys().copied().collect();
        unlisted.retain(|pack| pack.seq != PackSeq::Meta);
        // One at a time: together they name every chunk of the tenant.
        let (indexes, _) = list_all(&*store.bucket, &layout::indexes(&store.tenant), Depth::All).await?;
        for entry in indexes {
            for pack in read_index(store, &entry.key).await?.into_iter().flat_map(|index| index.packs) {
                unlisted.remove(&pack.pack);
                pack.locations().for_each(|(id, location)| add(id, location));
            }
        }
        // What no index names may be in a pack all the same.
        for pack in unlisted {
            let directory = match store.pack_directory(pack, sizes.get(&pack).copied().unwrap_or(0)).await {
                Err(error) if is_damage(&error) => continue,
                directory => directory?.0,
            };
            for PackEntry { id, offset, stored_len, codec, .. } in directory.entries {
                add(id, Location { pack, offset, stored_len, codec });
            }
        }
        Ok(copies)
    }

    /// Whether there is anything to be gained.
    pub(super) fn help(&self, survey: &RepackPlan) -> bool {
        let cached = |id: &ChunkId| self.cache.as_ref().is_some_and(|cache| cache.has(id));
        let is_had = |Needed { location, id, .. }: &Needed| {
            self.existing.contains(&location.pack) || self.places.contains_key(id) || cached(id)
        };
        let moves_metadata = survey.packs.keys().any(|pack| pack.seq == PackSeq::Meta);
        survey.records().next().is_some() && (moves_metadata || survey.frames().any(is_had))
    }

    /// From the cache: a chunk there was fetched from a pack, and is compressed anew.
    async fn cached(&self, wants: Vec<Want<u64>>, found: &mut Vec<(u64, PackEntry, Bytes)>) -> Result<Rest> {
        let Some(cache) = self.cache.clone() else { return Ok(wants) };
        let (key, level) = (*self.store.key(), self.store.chunking().zstd_level);
        let (rest, more) = blocking(move || {
            let mut compressor = Compressor::new(level)?;
            let (mut rest, mut found) = (Vec::new(), Vec::new());
            for want in wants {
                let chunk = if cache.has(&want.id) { cache.read(&key, &want.id, want.raw_len) } else { None };
                let Some(chunk) = chunk else {
                    rest.push(want);
                    continue;
                };
                let frame = compressor.frame(&chunk)?;
                let stored = Bytes::from([frame.head, frame.rest].concat());
                found.push((want.purpose, want.entry(Codec::Zstd, &stored), stored));
            }
            Ok((rest, found))
        })
        .await?;
        found.extend(more);
        Ok(rest)
    }

    /// Reads each where it is said to be. What is not there, or is something else, is left over.
    async fn read(&self, wants: Vec<Want<u64>>, found: &mut Vec<(u64, PackEntry, Bytes)>) -> Result<()> {
        let store = self.store;
        let mut alone = Vec::new();
        let mut fetched = store.fetched(wants);
        while let Some((fetch, bytes)) = fetched.next().await {
            let bytes = match bytes {
                // The pack may be too short for some of them.
                Err(error) if is_damage(&error) && fetch.wants.len() > 1 => {
                    alone.extend(fetch.wants);
                    continue;
                }
                Err(error) if is_damage(&error) => continue,
                bytes => bytes?,
            };
            for want in &fetch.wants {
                let (stored, codec) = (fetch.stored(want, &bytes), want.location.codec);
                if Verified::check(store.key(), &want.id, codec, stored, want.raw_len).is_ok() {
                    found.push((want.purpose, want.entry(codec, stored), bytes.slice_ref(stored)));
                }
            }
        }
        drop(fetched);
        for want in alone {
            Box::pin(self.read(vec![want], found)).await?;
        }
        Ok(())
    }
}

/// Frames that are still to be found.
type Rest = Vec<Want<u64>>;

impl Copies<'_> {
    /// Those of `frames` that are anywhere.
    async fn found(&self, pack: PackId, frames: &BTreeMap<u64, Needed>) -> Result<Vec<Frame>> {
        let want = |(offset, needed): (&u64, &Needed)| {
            let Needed { location, id, raw_len } = *needed;
            Want { id, raw_len, location, purpose: *offset }
        };
        let mut found = Vec::new();
        let mut rest = self.cached(frames.iter().map(want).collect(), &mut found).await?;
        // First where it should be: a pack whose directory is lost may have all its frames.
        for turn in 0.. {
            let place = |want: &Want<u64>| match turn {
                0 => Some(want.location).filter(|place| self.existing.contains(&place.pack)),
                turn => self.places.get(&want.id)?.get(turn - 1).copied(),
            };
            let placed = rest.iter().filter_map(|want| Some(Want { location: place(want)?, ..*want }));
            let placed: Vec<Want<u64>> = placed.collect();
            if placed.is_empty() && turn > 0 {
                break;
            }
            self.read(placed, &mut found).await?;
            let done: HashSet<u64> = found.iter().map(|(offset, ..)| *offset).collect();
            rest.retain(|want| !done.contains(&want.purpose));
        }
        found.sort_by_key(|(offset, ..)| *offset);
        Ok(found.into_iter().map(|(offset, entry, stored)| ((pack, offset), entry, stored)).collect())
    }
}

#[async_trait]
impl Source for Copies<'_> {
    /// All in one part: where a frame is to be had shows only when the others were looked for.
    async fn frames<'a>(
        &'a self,
        pack: PackId,
        frames: &'a BTreeMap<u64, Needed>,
    ) -> Result<Vec<FrameBatch<'a>>> {
        Ok(vec![self.found(pack, frames).boxed()])
    }

    /// Each may be all of a pack.
    fn parts_ahead(&self) -> usize {
        2
    }

    async fn tree(&self, record: &Record) -> Result<Option<MovedTree>> {
        let tree = self.metadata_source.tree(record, &condemned::barred(self.store).await?).await?;
        Ok(tree.map(MovedTree::new))
    }

    /// A frame that no copy replaces stays where it was, as lost as before.
    fn is_complete(&self) -> bool {
        false
    }
}

/// An index, if it is still there and can be read.
async fn read_index(store: &TenantStore, key: &Key) -> Result<Option<Index>> {
    match store.bucket.get(key, limits::INDEX).await {
        Ok(object) => Ok(Index::decode(&object.bytes).ok()),
        Err(BucketError::NotFound { .. } | BucketError::TooLarge { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
