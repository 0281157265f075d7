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

/// One segment of a new tree.
#[derive(Debug)]
pub(crate) enum TreePart {
    /// The base has it at this place: nothing of it was changed.
    Kept {
        /// Its number among the segments of the base.
        at: usize,
        segment: SegmentRef,
    },
    /// It was cut anew.
    New { id: ChunkId, segment: Segment },
}

impl TreePart {
    /// A segment that was cut anew.
    pub fn new(store: &TenantStore, segment: Segment) -> Self {
        Self::New { id: store.key().id_of(&segment.bytes), segment }
    }

    /// The id of its tree segment.
    pub fn id(&self) -> ChunkId {
        match self {
            Self::Kept { segment, .. } => segment.tree.id,
            Self::New { id, .. } => *id,
        }
    }

    /// Which part of the tree it covers; the packs of a new one are not known.
    pub fn span(&self) -> Option<&Span> {
        match self {
            Self::Kept { segment, .. } => segment.span.as_ref(),
            Self::New { segment, .. } => Some(&segment.span),
        }
    }
}

/// A tree cut into segments, each with its id.
#[derive(Debug)]
pub struct NewTree {
    /// The digest of the tree.
    pub id: SnapshotId,
    /// The sizes of all files.
    pub content_bytes: u64,
    parts: Vec<TreePart>,
}

impl NewTree {
    /// The tree of all entries that were pushed.
    pub fn new(store: &TenantStore, writer: SegmentWriter) -> Self {
        let content_bytes = writer.content_bytes();
        let parts = writer.finish().into_iter().map(|segment| TreePart::new(store, segment)).collect();
        Self::of_parts(store, parts, content_bytes)
    }

    /// The tree of these segments, whose files have `content_bytes`.
    pub(crate) fn of_parts(store: &TenantStore, parts: Vec<TreePart>, content_bytes: u64) -> Self {
        let id = snapshot_id(store.key(), parts.iter().map(TreePart::id));
        Self { id, content_bytes, parts }
    }

    /// Its segments, in order.
    pub(crate) fn parts(&self) -> &[TreePart] {
        &self.parts
    }

    /// Every chunk of the segments that were cut anew, repeated as often as it occurs.
    pub fn chunks(&self) -> impl Iterator<Item = (ChunkId, u32)> + '_ {
        let new = self.parts.iter().filter_map(|part| match part {
            TreePart::New { segment, .. } => Some(&segment.chunks),
            TreePart::Kept { .. } => None,
        });
        new.flatten().copied()
    }

    /// Writes the metadata of this tree, sharing with the root `base` what is the same and not barred.
    pub fn seal(
        self,
        store: &TenantStore,
        write: RecordId,
        base: Option<&Root>,
        locate: impl Fn(&ChunkId) -> Option<Location>,
        barred: impl Fn(&PackId) -> bool,
    ) -> Result<NewMetadata> {
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let (id, segment) = match part {
                TreePart::Kept { segment, .. } => {
                    parts.push(Part::Kept(segment));
                    continue;
                }
                TreePart::New { id, segment } => (id, segment),
            };
            let locations = segment
                .chunks
                .iter()
                .map(|(id, _)| {
                    locate(id).ok_or_else(|| Error::Internal { what: format!("chunk {id} has no location") })
                })
                .collect::<Result<Vec<_>>>()?;
            let span = Span { packs: packs_of(&locations), ..segment.span };
            parts.push(Part::Fresh { id, tree: segment.bytes.into(), span, locations });
        }
        let mut pack = MetaPack::new(store, write)?;
        let (content, root, fresh) = pack.add(store, self.id, base, parts, barred)?;
        Ok(NewMetadata { content, pack: pack.seal(store), root, fresh })
    }
}

/// Metadata that is not stored yet.
#[derive(Debug)]
pub struct NewMetadata {
    /// What the record says of the snapshot.
    pub content: Content,
    /// The pack to upload.
    pub pack: SealedPack,
    /// The list of all segments.
    pub root: Root,
    /// Segment by segment, its tree and its table, unless it was kept.
    pub fresh: Vec<Option<(Bytes, Bytes)>>,
}

/// One segment of a tree.
enum Part {
    /// As the base has it.
    Kept(SegmentRef),
    /// With where its chunks lie now.
    Fresh { id: ChunkId, tree: Bytes, span: Span, locations: Vec<Location> },
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
            let span = Span { packs: packs_of(&locations), ..span };
            Part::Fresh { id: segment.tree.id, tree: tree.clone(), span, locations }
        });
        let id = snapshot_id(store.key(), snapshot.root.segments.iter().map(|segment| segment.tree.id));
        let (content, root, fresh) = self.add(store, id, Some(&snapshot.root), parts.collect(), barred)?;
        let metadata = Metadata::of_fresh(root, fresh);
        Ok((
            content,
            metadata.ok_or_else(|| Error::Internal { what: "a segment that was not read".to_owned() })?,
        ))
    }

    fn add(
        &mut self,
        store: &TenantStore,
        id: SnapshotId,
        base: Option<&Root>,
        parts: Vec<Part>,
        barred: impl Fn(&PackId) -> bool,
    ) -> Result<(Content, Root, Vec<Option<(Bytes, Bytes)>>)> {
        let mut tables = Vec::with_capacity(parts.len());
        let mut wanted = HashSet::new();
        for part in &parts {
            let (ids, table) = match part {
                Part::Kept(segment) => ([segment.tree.id, segment.table.id], None),
                Part::Fresh { id, locations, .. } => {
                    let table = Bytes::from(table::encode(locations));
                    let table_id = store.key().id_of(&table);
                    ([*id, table_id], Some((table_id, table)))
                }
            };
            wanted.extend(ids);
            tables.push(table);
        }
        let shared = shared_blobs(base, &wanted, barred);
        let (mut segments, mut fresh) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
        for (part, table) in parts.into_iter().zip(tables) {
            let ((id, tree, span, locations), (table_id, table)) = match (part, table) {
                (Part::Fresh { id, tree, span, locations }, Some(table)) => {
                    ((id, tree, span, locations), table)
                }
                (Part::Kept(segment), _) => {
                    check_kept(&segment, &shared)?;
                    segments.push(segment);
                    fresh.push(None);
                    continue;
                }
                (Part::Fresh { id, .. }, None) => {
                    return Err(Error::Internal { what: format!("segment {id} has no table") });
                }
            };
            segments.push(SegmentRef {
                tree: self.place(&shared, id, EntryKind::Tree, &tree)?,
                table: self.place(&shared, table_id, EntryKind::Table, &table)?,
                chunks: locations.len() as u32,
                span: Some(span),
            });
            fresh.push(Some((tree, table)));
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
        Ok((content, root, fresh))
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

/// A segment that is kept may not refer to blobs that the new root must not: whoever kept it had to read it.
fn check_kept(segment: &SegmentRef, shared: &HashMap<ChunkId, Blob>) -> Result<()> {
    if [&segment.tree, &segment.table].into_iter().all(|blob| shared.contains_key(&blob.id)) {
        return Ok(());
    }
    Err(Error::Internal {
        what: format!("segment {} was kept in a pack that is left behind", segment.tree.id),
    })
}

/// The blobs of `base` that the new root will refer to, in few enough packs.
fn shared_blobs(
    base: Option<&Root>,
    wanted: &HashSet<ChunkId>,
    barred: impl Fn(&PackId) -> bool,
) -> HashMap<ChunkId, Blob> {
    let mut shared: HashMap<ChunkId, Blob> = base
        .into_iter()
        .flat_map(Root::blobs)
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
