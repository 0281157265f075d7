//! `MetaPack` takes the blobs of snapshots that no pack has yet, and makes the contents of their records.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{MAX_GAP, MAX_META_PACKS};
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
        root::{Blob, Root},
        segment::snapshot_id,
    },
    id::{ChunkId, PackId, PackSeq, RecordId},
};

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

    /// Makes room for so many bytes.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.packer.reserve(bytes);
    }

    /// Ends a snapshot whose segments are all in their places: its root is placed as well.
    pub(crate) fn end(&mut self, store: &TenantStore, root: &Root, shared: &SharedBlobs) -> Result<Content> {
        root.check()
            .map_err(|error| Error::InvalidInput { what: format!("it cannot be stored: {error}") })?;
        let bytes = root.encode();
        let root_blob = self.place(shared, store.key().id_of(&bytes), EntryKind::Root, Some(&bytes))?;
        let blobs: Vec<Blob> = root.blobs().copied().chain([root_blob]).collect();
        Ok(Content {
            snapshot_id: snapshot_id(store.key(), root.segments.iter().map(|segment| segment.tree.id)),
            root: root_blob.into(),
            meta_ranges: ranges(&blobs),
            packs: packs_needed(root, &blobs),
            unknown: Unknown::new(),
        })
    }

    /// The pack as it is uploaded.
    pub fn seal(self, store: &TenantStore) -> SealedPack {
        self.packer.seal(self.pack, *store.key())
    }

    /// The place of a blob, which is put into the pack unless it is shared or there already.
    pub(crate) fn place(
        &mut self,
        shared: &SharedBlobs,
        id: ChunkId,
        kind: EntryKind,
        raw: Option<&[u8]>,
    ) -> Result<Blob> {
        if let Some(blob) = shared.0.get(&id).or_else(|| self.placed.get(&id)) {
            return Ok(*blob);
        }
        let missing = || Error::Internal { what: "a segment that was not read".to_owned() };
        let raw = raw.ok_or_else(missing)?;
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

/// The blobs of a snapshot's base that its root will refer to, in few enough packs.
pub(crate) struct SharedBlobs(HashMap<ChunkId, Blob>);

impl SharedBlobs {
    /// Those of `base` that are wanted and not barred.
    pub(crate) fn of(base: &Root, wanted: &HashSet<ChunkId>, barred: impl Fn(&PackId) -> bool) -> Self {
        Self::with(Some(base), wanted, &HashSet::new(), barred)
    }

    /// The same. Those in packs that are `needed` stay.
    pub(super) fn with(
        base: Option<&Root>,
        wanted: &HashSet<ChunkId>,
        needed: &HashSet<PackId>,
        barred: impl Fn(&PackId) -> bool,
    ) -> Self {
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
        let few = few_packs(weight, needed);
        shared.retain(|_, blob| few.contains(&blob.pack));
        Self(shared)
    }

    /// Whether it has the blob with this id.
    pub(crate) fn has(&self, id: &ChunkId) -> bool {
        self.0.contains_key(id)
    }
}

/// The packs that a root may refer to, of packs with the wanted bytes of each: without those that hold least,
/// if there are too many, but with all that are `needed`. The write's own meta pack is one of the few.
pub(super) fn few_packs(weight: BTreeMap<PackId, u64>, needed: &HashSet<PackId>) -> HashSet<PackId> {
    let mut packs: Vec<(u64, PackId)> = weight.into_iter().map(|(pack, bytes)| (bytes, pack)).collect();
    packs.sort_unstable_by(|a, b| b.cmp(a));
    while packs.len() >= MAX_META_PACKS {
        let Some(least) = packs.iter().rposition(|(_, pack)| !needed.contains(pack)) else { break };
        packs.remove(least);
    }
    packs.into_iter().map(|(_, pack)| pack).collect()
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
