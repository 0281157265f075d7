//! `NewTree` and `MetaPack` write the metadata of a snapshot: the segments that its base does not have, in one pack.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::{MAX_GAP, MAX_META_PACKS, Metadata};
use crate::{
    Error, Result,
    content::{
        TenantStore,
        compress::Compressor,
        packer::{Packer, SealedPack},
    },
    format::{
        Unknown,
        pack::{EntryKind, MAX_RAW_LEN},
        record::{Content, PackRange, PackUse},
        root::{Blob, Root, SegmentRef, Span, packs_of},
        segment::{Segment, SegmentWriter, snapshot_id},
        table::{self, Location},
    },
    id::{ChunkId, PackId, PackSeq, RecordId, SnapshotId},
};

/// A tree cut into segments, each with its id.
#[derive(Debug)]
pub struct NewTree {
    /// The digest of the tree.
    pub id: SnapshotId,
    /// The sizes of all files.
    pub content_bytes: u64,
    segments: Vec<(ChunkId, Segment)>,
}

impl NewTree {
    /// The tree of all entries that were pushed.
    pub fn new(store: &TenantStore, writer: SegmentWriter) -> Self {
        let content_bytes = writer.content_bytes();
        let segments = writer.finish().into_iter();
        let segments: Vec<_> = segments.map(|segment| (store.key().id_of(&segment.bytes), segment)).collect();
        Self { id: snapshot_id(store.key(), segments.iter().map(|(id, _)| *id)), content_bytes, segments }
    }

    /// Every chunk of the tree, repeated as often as it occurs.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, u32)> + '_ {
        self.segments.iter().flat_map(|(_, segment)| segment.chunks.iter().copied())
    }

    /// Writes the metadata of this tree, sharing with `base` what is the same and not barred.
    pub fn seal(
        self,
        store: &TenantStore,
        write: RecordId,
        base: Option<&Metadata>,
        locate: impl Fn(&ChunkId) -> Option<Location>,
        barred: impl Fn(&PackId) -> bool,
    ) -> Result<NewMetadata> {
        let mut parts = Vec::with_capacity(self.segments.len());
        for (id, segment) in self.segments {
            let locations = segment
                .chunks
                .iter()
                .map(|(id, _)| {
                    locate(id).ok_or_else(|| Error::Internal { what: format!("chunk {id} has no location") })
                })
                .collect::<Result<Vec<_>>>()?;
            parts.push(Part { id, tree: segment.bytes.into(), span: segment.span, locations });
        }
        let mut pack = MetaPack::new(store, write)?;
        let (content, metadata) = pack.add(store, self.id, base, parts, barred)?;
        Ok(NewMetadata { content, pack: pack.seal(store), metadata })
    }
}

/// Metadata that is not stored yet.
#[derive(Debug)]
pub struct NewMetadata {
    /// What the record says of the snapshot.
    pub content: Content,
    /// The pack to upload.
    pub pack: SealedPack,
    /// What was encoded, as if it had been read.
    pub metadata: Metadata,
}

/// One segment of a tree, with where its chunks lie.
struct Part {
    id: ChunkId,
    tree: Bytes,
    span: Span,
    locations: Vec<Location>,
}

/// The meta pack of a write that is being filled, with the metadata of one snapshot or more.
#[derive(Debug)]
pub struct MetaPack {
    pack: PackId,
    packer: Packer,
    compressor: Compressor,
    placed: HashMap<ChunkId, Blob>,
}

impl MetaPack {
    /// An empty pack for the metadata of `write`.
    pub fn new(store: &TenantStore, write: RecordId) -> Result<Self> {
        Ok(Self {
            pack: PackId { write, seq: PackSeq::Meta },
            packer: Packer::with_capacity(64 << 10),
            compressor: Compressor::new(store.chunking().zstd_level)?,
            placed: HashMap::new(),
        })
    }

    /// Adds a snapshot that is stored already and of which some chunks lie elsewhere by now:
    /// `moved` says where. What lies in a `barred` pack is stored again.
    pub fn add_moved(
        &mut self,
        store: &TenantStore,
        snapshot: &Metadata,
        moved: impl Fn(&Location) -> Option<Location>,
        barred: impl Fn(&PackId) -> bool,
    ) -> Result<(Content, Metadata)> {
        let (spans, tables) = (snapshot.spans()?, snapshot.tables()?);
        let parts = snapshot.root.segments.iter().zip(&snapshot.trees).zip(spans.into_iter().zip(tables));
        let parts = parts.map(|((segment, tree), (span, mut locations))| {
            locations.iter_mut().for_each(|location| *location = moved(location).unwrap_or(*location));
            Part { id: segment.tree.id, tree: tree.clone(), span, locations }
        });
        let id = snapshot_id(store.key(), snapshot.root.segments.iter().map(|segment| segment.tree.id));
        self.add(store, id, Some(snapshot), parts.collect(), barred)
    }

    fn add(
        &mut self,
        store: &TenantStore,
        id: SnapshotId,
        base: Option<&Metadata>,
        parts: Vec<Part>,
        barred: impl Fn(&PackId) -> bool,
    ) -> Result<(Content, Metadata)> {
        let (mut trees, mut tables): (Vec<Bytes>, Vec<Bytes>) = (Vec::new(), Vec::new());
        let (mut ids, mut spans) = (Vec::new(), Vec::new());
        for Part { id, tree, span, locations } in parts {
            spans.push(Span { packs: packs_of(&locations), ..span });
            let table = table::encode(&locations);
            ids.push((id, store.key().id_of(&table), locations.len() as u32));
            trees.push(tree);
            tables.push(Bytes::from(table));
        }
        let shared = shared_blobs(base, &ids, barred);
        let mut segments = Vec::with_capacity(ids.len());
        for (at, ((tree, table, chunks), span)) in ids.into_iter().zip(spans).enumerate() {
            segments.push(SegmentRef {
                tree: self.place(&shared, tree, EntryKind::Tree, &trees[at])?,
                table: self.place(&shared, table, EntryKind::Table, &tables[at])?,
                chunks,
                span: Some(span),
            });
        }
        let root = Root { segments };
        root.check()
            .map_err(|error| Error::InvalidInput { what: format!("it cannot be stored: {error}") })?;
        let bytes = root.encode();
        let root_blob = self.place(&shared, store.key().id_of(&bytes), EntryKind::Root, &bytes)?;
        let blobs: Vec<Blob> = root.blobs().copied().chain([root_blob]).collect();
        let content = Content {
            snapshot_id: id,
            root: root_blob.into(),
            meta_ranges: ranges(&blobs),
            packs: packs_needed(&root, &blobs),
            unknown: Unknown::new(),
        };
        Ok((content, Metadata { root, trees, tables }))
    }

    /// The pack as it is uploaded.
    pub fn seal(self, store: &TenantStore) -> SealedPack {
        self.packer.seal(self.pack, *store.key())
    }

    fn place(
        &mut self,
        shared: &HashMap<ChunkId, Blob>,
        id: ChunkId,
        kind: EntryKind,
        raw: &[u8],
    ) -> Result<Blob> {
        if let Some(blob) = shared.get(&id).or_else(|| self.placed.get(&id)) {
            return Ok(*blob);
        }
        if raw.len() > MAX_RAW_LEN as usize {
            let what = format!("the tree is too large: a {kind:?} segment takes {} bytes", raw.len());
            return Err(Error::InvalidInput { what });
        }
        let entry = self.packer.push(id, kind, raw.len() as u32, self.compressor.frame(raw)?);
        let blob = Blob {
            id,
            pack: self.pack,
            offset: entry.offset,
            stored_len: entry.stored_len,
            raw_len: entry.raw_len,
            codec: entry.codec,
        };
        self.placed.insert(id, blob);
        Ok(blob)
    }
}

/// The blobs of `base` that the new root will refer to, in few enough packs.
fn shared_blobs(
    base: Option<&Metadata>,
    ids: &[(ChunkId, ChunkId, u32)],
    barred: impl Fn(&PackId) -> bool,
) -> HashMap<ChunkId, Blob> {
    let wanted: HashSet<ChunkId> = ids.iter().flat_map(|(tree, table, _)| [*tree, *table]).collect();
    let mut shared: HashMap<ChunkId, Blob> = base
        .into_iter()
        .flat_map(|base| base.root.blobs())
        .filter(|blob| wanted.contains(&blob.id) && !barred(&blob.pack))
        .map(|blob| (blob.id, *blob))
        .collect();
    let mut weight: BTreeMap<PackId, u64> = BTreeMap::new();
    for blob in shared.values() {
        *weight.entry(blob.pack).or_default() += u64::from(blob.stored_len);
    }
    let mut packs: Vec<(u64, PackId)> = weight.into_iter().map(|(pack, bytes)| (bytes, pack)).collect();
    // The write's own meta pack is one of the few.
    while packs.len() >= MAX_META_PACKS {
        packs.sort_unstable_by(|a, b| b.cmp(a));
        if let Some((_, least)) = packs.pop() {
            shared.retain(|_, blob| blob.pack != least);
        }
    }
    shared
}

/// The fewest ranges that hold all blobs, without fetching much in between.
fn ranges(blobs: &[Blob]) -> Vec<PackRange> {
    let mut blobs = blobs.to_vec();
    blobs.sort_unstable_by_key(|blob| (blob.pack, blob.offset));
    let mut ranges: Vec<PackRange> = Vec::new();
    for blob in blobs {
        let end = blob.offset + u64::from(blob.stored_len);
        match ranges.last_mut() {
            Some(last) if last.pack == blob.pack && blob.offset <= last.offset + last.len + MAX_GAP => {
                last.len = last.len.max(end - last.offset);
            }
            _ => ranges.push(PackRange { pack: blob.pack, offset: blob.offset, len: blob.stored_len.into() }),
        }
    }
    ranges
}

/// How many bytes of each pack a snapshot needs: each segment counts the frames of its chunks once, and each
/// blob is counted once.
fn packs_needed(root: &Root, blobs: &[Blob]) -> Vec<PackUse> {
    // Equal segments are one blob.
    let mut frames: Vec<_> = blobs.iter().map(|blob| (blob.pack, blob.offset, blob.stored_len)).collect();
    frames.sort_unstable();
    frames.dedup();
    let of_blobs = frames.into_iter().map(|(pack, _, stored_len)| (pack, u64::from(stored_len)));
    let spans = root.segments.iter().filter_map(|segment| segment.span.as_ref());
    let of_chunks = spans.flat_map(|span| span.packs.iter().map(|used| (used.pack, used.bytes)));
    let mut needed: BTreeMap<PackId, u64> = BTreeMap::new();
    for (pack, bytes) in of_blobs.chain(of_chunks) {
        *needed.entry(pack).or_default() += bytes;
    }
    needed.into_iter().map(|(pack, live_bytes)| PackUse { pack, live_bytes }).collect()
}
