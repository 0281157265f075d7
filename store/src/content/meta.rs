//! `Metadata` holds a snapshot's tree segments and their tables, as they were read.
//!
//! A write stores only the segments its base does not have, in one meta pack. So that a
//! reader never has to ask many packs, a snapshot's metadata lies in at most
//! [`MAX_META_PACKS`]: when there would be more, the ones that hold least are left behind
//! and their segments stored again.

mod meta_pack;
mod new_tree;

pub use meta_pack::MetaPack;
pub(crate) use meta_pack::SharedBlobs;
pub(crate) use new_tree::TreePart;
pub use new_tree::{NewMetadata, NewTree};

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use super::{TenantStore, cache::CacheKind, reader::Verified};
use crate::{
    Error, Result,
    format::{
        UNNAMED_WRITER,
        bytes::{Put, Reader},
        record::{Content, PackRange},
        root::{Blob, Root, SegmentRef, Span, packs_of},
        segment::{SegmentReader, snapshot_id},
        table::{self, Location},
        tree::Entry,
        tree_limits::MAX_METADATA_BYTES,
    },
    id::{ChunkId, RecordId, SnapshotId},
};

/// How many meta packs one snapshot may be spread over.
pub const MAX_META_PACKS: usize = 8;
const REQUESTS_AT_ONCE: usize = 8;
/// Blobs this close together are fetched with the bytes between.
pub(super) const MAX_GAP: u64 = 32 * 1024;
/// Metadata that takes no more than this is fetched whole: its root alone would take as long.
const SMALL: u64 = 4 << 20;
/// With the bytes between, so many times as many bytes are fetched at most as the segments take.
const FETCHED_FOR_EACH: u64 = 2;

/// A tree segment and its table, if they were made just now.
pub type Fresh = Option<(Bytes, Bytes)>;

/// Verified metadata, decompressed but not decoded.
#[derive(Debug)]
pub struct Metadata {
    /// The list of all segments.
    pub root: Root,
    /// One for each segment of the root.
    trees: Vec<Bytes>,
    tables: Vec<Bytes>,
}

impl Metadata {
    /// From this host's cache, else from the bucket.
    pub async fn load(
        store: &TenantStore,
        record: RecordId,
        generation: u64,
        content: &Content,
    ) -> Result<Self> {
        Self::load_within(store, record, generation, content, MAX_METADATA_BYTES).await
    }

    /// The same, if it takes no more than `most` bytes.
    pub(crate) async fn load_within(
        store: &TenantStore,
        record: RecordId,
        generation: u64,
        content: &Content,
        most: u64,
    ) -> Result<Self> {
        let name = cache_name(record, generation);
        if let Some(cache) = &store.cache
            && let Some(bytes) = cache.read(CacheKind::Meta, &name)
        {
            match Self::from_cached(store, content, &bytes.into(), most) {
                Ok(metadata) => return Ok(metadata),
                Err(error) => tracing::warn!(%record, %error, "cached metadata is useless"),
            }
        }
        let metadata = Self::fetch_within(store, content, most).await?;
        metadata.remember(store, record, generation);
        Ok(metadata)
    }

    /// Whether all of it is fetched as fast as its root alone.
    pub(super) fn is_small(content: &Content) -> bool {
        fetched_bytes(&content.meta_ranges) <= SMALL
    }

    /// The root alone, from the bucket.
    pub(super) async fn fetch_root(store: &TenantStore, content: &Content) -> Result<Root> {
        let of_root = || format!("root {}", content.root.id);
        let blob = content.root.blob(UNNAMED_WRITER).map_err(|error| error.of(of_root()))?;
        let bytes = fetch_blob(store, &blob).await?;
        let root = Root::decode(&bytes).map_err(|error| error.of(of_root()))?;
        check_id(store, &root, content.snapshot_id)?;
        Ok(root)
    }

    /// From the bucket, in one round of requests.
    pub async fn fetch(store: &TenantStore, content: &Content) -> Result<Self> {
        Self::fetch_within(store, content, MAX_METADATA_BYTES).await
    }

    async fn fetch_within(store: &TenantStore, content: &Content, most: u64) -> Result<Self> {
        let of_snapshot = || format!("snapshot {}", content.snapshot_id);
        if fetched_bytes(&content.meta_ranges) > most.saturating_mul(FETCHED_FOR_EACH) {
            return Err(too_much(of_snapshot(), fetched_bytes(&content.meta_ranges), most));
        }
        let mut ranges: Vec<(PackRange, Bytes)> = stream::iter(content.meta_ranges.iter().copied())
            .map(|range| async move {
                let end = range.offset.saturating_add(range.len);
                Ok::<_, Error>((range, store.pack_range(range.pack, range.offset, end).await?))
            })
            .buffer_unordered(REQUESTS_AT_ONCE)
            .try_collect()
            .await?;
        ranges.sort_unstable_by_key(|(range, _)| (range.pack, range.offset));
        // A file of equal chunks has equal segments: they are in memory once.
        let mut read: HashMap<ChunkId, Bytes> = HashMap::new();
        let mut blob = |blob: &Blob| -> Result<Bytes> {
            if let Some(bytes) = read.get(&blob.id).filter(|bytes| bytes.len() == blob.raw_len as usize) {
                return Ok(bytes.clone());
            }
            let after =
                ranges.partition_point(|(range, _)| (range.pack, range.offset) <= (blob.pack, blob.offset));
            let stored = ranges[..after].last().and_then(|(range, bytes)| {
                let start = usize::try_from(blob.offset.checked_sub(range.offset)?).ok()?;
                let end = start.checked_add(blob.stored_len as usize)?;
                bytes.get(start..end).filter(|_| range.pack == blob.pack)
            });
            let stored = stored.ok_or_else(|| {
                Error::damaged(
                    format!("pack {}", blob.pack),
                    format!("its record does not say where segment {} is", blob.id),
                )
            })?;
            let verified = Verified::check(store.key(), &blob.id, blob.codec, stored, blob.raw_len)
                .map_err(|error| Error::damaged(format!("pack {}", blob.pack), error))?;
            let bytes = Bytes::from(verified.into_bytes());
            read.insert(blob.id, bytes.clone());
            Ok(bytes)
        };
        let root = content
            .root
            .blob(UNNAMED_WRITER)
            .map_err(|error| error.of(format!("root {}", content.root.id)))?;
        let bytes = blob(&root)?;
        let root = Root::decode(&bytes).map_err(|error| error.of(format!("root {}", content.root.id)))?;
        if root.metadata_bytes() > most {
            return Err(too_much(of_snapshot(), root.metadata_bytes(), most));
        }
        let trees = root.segments.iter().map(|segment| blob(&segment.tree)).collect::<Result<_>>()?;
        let tables = root.segments.iter().map(|segment| blob(&segment.table)).collect::<Result<_>>()?;
        Self { root, trees, tables }.identified(store, content.snapshot_id)
    }

    /// The metadata of a tree all of whose segments are at hand; `None` if one is not.
    pub(crate) fn of_fresh(root: Root, fresh: Vec<Fresh>) -> Option<Self> {
        let (trees, tables) = fresh.into_iter().collect::<Option<Vec<_>>>()?.into_iter().unzip();
        Some(Self { root, trees, tables })
    }

    /// The segments of a tree, those that are not fresh taken from here, as far as they are the same.
    pub(super) fn fill(&self, root: &Root, fresh: Vec<Fresh>) -> Vec<Fresh> {
        let own = self.root.segments.iter().enumerate().map(|(at, segment)| (blobs_of(segment), at));
        let own: HashMap<(ChunkId, ChunkId), usize> = own.collect();
        let filled = root.segments.iter().zip(fresh).map(|(segment, fresh)| {
            fresh.or_else(|| own.get(&blobs_of(segment)).map(|at| self.segment(*at)))
        });
        filled.collect()
    }

    /// A tree segment and its table, as they are decoded.
    pub(super) fn segment(&self, at: usize) -> (Bytes, Bytes) {
        (self.trees[at].clone(), self.tables[at].clone())
    }

    /// The root, with the span of each segment even if it is of version 1.
    pub(super) fn spanned_root(&self) -> Result<Root> {
        let mut root = self.root.clone();
        if root.is_spanned() {
            return Ok(root);
        }
        let missing = root.segments.iter_mut().zip(self.spans()?.into_iter().zip(self.tables()?));
        for (segment, (span, locations)) in missing {
            segment.span = Some(Span { packs: packs_of(&locations), ..span });
        }
        Ok(root)
    }

    /// Every entry, and the location of every chunk in the order the entries name them.
    pub fn decode(&self) -> Result<(Vec<Entry>, Vec<Location>)> {
        let mut entries = Vec::new();
        let mut reader = SegmentReader::default();
        for (segment, bytes) in self.root.segments.iter().zip(&self.trees) {
            let span = reader
                .read(bytes, |entry| entries.push(entry))
                .map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
            check_span(segment, &span)?;
        }
        reader.finish().map_err(|error| error.of("the snapshot's tree"))?;
        let mut locations = Vec::with_capacity(self.chunks());
        for (segment, bytes) in self.root.segments.iter().zip(&self.tables) {
            locations.extend(table_of(segment, bytes)?);
        }
        let chunks: usize = entries.iter().map(|entry| entry.chunks().count()).sum();
        if chunks != locations.len() {
            let reason = format!("{chunks} chunks, but {} locations", locations.len());
            return Err(Error::damaged("the snapshot's table", reason));
        }
        Ok((entries, locations))
    }

    /// For each segment, where its chunks lie.
    fn tables(&self) -> Result<Vec<Vec<Location>>> {
        let segments = self.root.segments.iter().zip(&self.tables);
        segments.map(|(segment, bytes)| table_of(segment, bytes)).collect()
    }

    /// The part of the tree that each segment covers. A root of version 1 lacks it, so its segments are read.
    fn spans(&self) -> Result<Vec<Span>> {
        if let Some(spans) = self.root.segments.iter().map(|segment| segment.span.clone()).collect() {
            return Ok(spans);
        }
        let mut reader = SegmentReader::default();
        let segments = self.root.segments.iter().zip(&self.trees);
        let spans = segments.map(|(segment, tree)| {
            reader.read(tree, |_| ()).map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))
        });
        spans.collect()
    }

    /// How many chunks its segments say there are; not more than their tables have room for.
    fn chunks(&self) -> usize {
        let segments = self.root.segments.iter().zip(&self.tables);
        segments.map(|(segment, bytes)| bytes.len().min(segment.chunks as usize)).sum()
    }

    /// Keeps this metadata for the next write or read on this host.
    pub(crate) fn remember(&self, store: &TenantStore, record: RecordId, generation: u64) {
        let Some(cache) = &store.cache else { return };
        let mut bytes = Vec::new();
        bytes.put_bytes(&self.root.encode());
        // Equal segments are in memory once, however often the root names them, and here as well.
        let mut put = HashSet::new();
        for (segment, (tree, table)) in self.root.segments.iter().zip(self.trees.iter().zip(&self.tables)) {
            for (id, blob) in [(segment.tree.id, tree), (segment.table.id, table)] {
                if put.insert(id) {
                    bytes.put_bytes(blob);
                }
            }
        }
        cache.write(CacheKind::Meta, &cache_name(record, generation), &bytes);
    }

    fn from_cached(store: &TenantStore, content: &Content, bytes: &Bytes, most: u64) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let mut read: HashMap<ChunkId, Bytes> = HashMap::new();
        let mut next = |id: &ChunkId| -> Result<Bytes> {
            if let Some(blob) = read.get(id) {
                return Ok(blob.clone());
            }
            let blob = reader.bytes(usize::MAX >> 1, "a blob").map_err(|error| error.of("a cache file"))?;
            if store.key().id_of(blob) != *id {
                return Err(Error::damaged("a cache file", "another content"));
            }
            let blob = bytes.slice_ref(blob);
            read.insert(*id, blob.clone());
            Ok(blob)
        };
        let root = Root::decode(&next(&content.root.id)?).map_err(|error| error.of("a cache file"))?;
        if root.metadata_bytes() > most {
            return Err(too_much("a cache file".to_owned(), root.metadata_bytes(), most));
        }
        let (mut trees, mut tables) = (Vec::new(), Vec::new());
        for segment in &root.segments {
            trees.push(next(&segment.tree.id)?);
            tables.push(next(&segment.table.id)?);
        }
        Self { root, trees, tables }.identified(store, content.snapshot_id)
    }

    fn identified(self, store: &TenantStore, expected: SnapshotId) -> Result<Self> {
        check_id(store, &self.root, expected)?;
        Ok(self)
    }
}

/// Fetches one blob and checks it against its id.
pub(super) async fn fetch_blob(store: &TenantStore, blob: &Blob) -> Result<Bytes> {
    let end = blob.offset.saturating_add(blob.stored_len.into());
    let stored = store.pack_range(blob.pack, blob.offset, end).await?;
    check_blob(store, blob, &stored)
}

/// The blob that is stored so, checked against its id.
pub(super) fn check_blob(store: &TenantStore, blob: &Blob, stored: &[u8]) -> Result<Bytes> {
    let verified = Verified::check(store.key(), &blob.id, blob.codec, stored, blob.raw_len)
        .map_err(|error| Error::damaged(format!("pack {}", blob.pack), error))?;
    Ok(verified.into_bytes().into())
}

/// Whether a root is that of the snapshot.
pub(super) fn check_id(store: &TenantStore, root: &Root, expected: SnapshotId) -> Result<()> {
    let found = snapshot_id(store.key(), root.segments.iter().map(|segment| segment.tree.id));
    if found == expected {
        return Ok(());
    }
    Err(Error::damaged(format!("snapshot {expected}"), format!("its tree is that of {found}")))
}

fn blobs_of(segment: &SegmentRef) -> (ChunkId, ChunkId) {
    (segment.tree.id, segment.table.id)
}

/// The length of all ranges together.
fn fetched_bytes(ranges: &[PackRange]) -> u64 {
    ranges.iter().fold(0, |sum, range| sum.saturating_add(range.len))
}

fn too_much(of: String, found: u64, most: u64) -> Error {
    if most >= MAX_METADATA_BYTES {
        return Error::damaged(of, format!("{found} bytes of metadata; {most} are the most"));
    }
    Error::InvalidInput { what: format!("{of} has {found} bytes of metadata; {most} may be taken for it") }
}

/// Where the chunks of one segment lie.
pub(super) fn table_of(segment: &SegmentRef, bytes: &[u8]) -> Result<Vec<Location>> {
    let locations = table::decode(bytes, segment.chunks as usize)
        .map_err(|error| error.of(format!("table segment {}", segment.table.id)))?;
    match &segment.span {
        Some(span) if span.packs != packs_of(&locations) => {
            let reason = "its root says otherwise which packs it needs";
            Err(Error::damaged(format!("table segment {}", segment.table.id), reason))
        }
        _ => Ok(locations),
    }
}

/// Whether a segment has the span that its root says.
pub(super) fn check_span(segment: &SegmentRef, found: &Span) -> Result<()> {
    match &segment.span {
        Some(said) if *said != (Span { packs: said.packs.clone(), ..found.clone() }) => {
            let reason = "its root says otherwise which part of the tree it covers";
            Err(Error::damaged(format!("tree segment {}", segment.tree.id), reason))
        }
        _ => Ok(()),
    }
}

fn cache_name(record: RecordId, generation: u64) -> String {
    format!("{record}-{generation}")
}
