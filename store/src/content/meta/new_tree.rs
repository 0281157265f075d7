//! `NewTree` is a tree that is about to be stored: segments of its base, and segments that were cut anew.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{
    Fresh,
    meta_pack::{MetaPack, SharedBlobs, few_packs},
};
use crate::{
    Error, Result,
    content::{TenantStore, packer::SealedPack},
    format::{
        pack::EntryKind,
        record::Content,
        root::{Blob, Root, SegmentRef, Span, packs_of},
        segment::{Segment, SegmentPart, snapshot_id},
        table::{self, Location},
        tree::{Entry, TreePath},
    },
    id::{ChunkId, PackId, RecordId, SnapshotId},
};

/// New segments that take no more are all handed out: compressed, so much is read at once.
const WHOLE_BYTES: usize = 8 << 20;
/// Of more, so many bytes are.
const HANDED_OUT_BYTES: usize = 4 << 20;

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

    /// The part of the tree that it covers; the packs of a new one are not known.
    #[cfg(test)]
    pub fn span(&self) -> Option<&crate::format::root::Span> {
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

    /// How many chunks all segments name.
    pub(crate) fn chunk_count(&self) -> u64 {
        let count = |part: &TreePart| match part {
            TreePart::Kept { segment, .. } => u64::from(segment.chunks),
            TreePart::New { segment, .. } => segment.chunks.len() as u64,
        };
        self.parts.iter().map(count).sum()
    }

    /// The packs that hold the chunks of the segments that are kept.
    pub(crate) fn kept_packs(&self) -> BTreeSet<PackId> {
        self.kept().flat_map(|(_, _, segment)| packs_of_chunks(segment)).collect()
    }

    /// The segments that are kept, by number here and in the base, of which some chunk lies in a pack that is `unfit`.
    pub(crate) fn kept_in(&self, unfit: impl Fn(&PackId) -> bool) -> Vec<(usize, usize)> {
        let unfit = self.kept().filter(|(_, _, segment)| packs_of_chunks(segment).any(|pack| unfit(&pack)));
        unfit.map(|(part, at, _)| (part, at)).collect()
    }

    /// The segments that are kept, by number here and in the base, whose own blobs must be stored again: they lie in
    /// a pack that is `unfit`, or in one of those that hold least of too many.
    pub(crate) fn kept_left_behind(&self, unfit: impl Fn(&PackId) -> bool) -> Vec<(usize, usize)> {
        let mut weight: BTreeMap<PackId, u64> = BTreeMap::new();
        for blob in self.kept().flat_map(|(_, _, segment)| blobs(segment)).filter(|blob| !unfit(&blob.pack)) {
            *weight.entry(blob.pack).or_default() += u64::from(blob.stored_len);
        }
        let few = few_packs(weight, &HashSet::new());
        let is_left = |segment: &SegmentRef| blobs(segment).iter().any(|blob| !few.contains(&blob.pack));
        let left = self.kept().filter(|(_, _, segment)| is_left(segment));
        left.map(|(part, at, _)| (part, at)).collect()
    }

    /// The segments that are kept, by number in the base.
    pub(crate) fn kept_numbers(&self) -> impl Iterator<Item = usize> {
        self.kept().map(|(_, at, _)| at)
    }

    /// A path that needs a chunk of a new segment.
    pub(crate) fn path_of(&self, chunk: &ChunkId) -> Option<TreePath> {
        let mut before = None;
        for part in &self.parts {
            let TreePart::New { segment, .. } = part else { continue };
            let read = SegmentPart::read(&segment.bytes).ok()?;
            let has = |entry: &&Entry| entry.chunks().any(|(id, _)| id == *chunk);
            if let Some(entry) = read.entries.iter().find(has) {
                return Some(entry.path.clone());
            }
            if read.chunks().any(|(id, _)| id == *chunk) {
                return before;
            }
            before = read.entries.last().map(|entry| entry.path.clone()).or(before);
        }
        None
    }

    /// The segment at this place was read, and its chunks are located one by one.
    pub(crate) fn open_part(&mut self, part: usize, segment: Segment) {
        let id = self.parts[part].id();
        self.parts[part] = TreePart::New { id, segment };
    }

    /// The base's chunks were moved: its root, which has the same tree, is this one now.
    pub(crate) fn follow(&mut self, base: &Root) -> Result<()> {
        for part in &mut self.parts {
            let TreePart::Kept { at, segment } = part else { continue };
            match base.segments.get(*at) {
                Some(now) if now.tree.id == segment.tree.id && now.span.is_some() => *segment = now.clone(),
                _ => return Err(Error::Internal { what: "a base that has become another".to_owned() }),
            }
        }
        Ok(())
    }

    fn kept(&self) -> impl Iterator<Item = (usize, usize, &SegmentRef)> {
        self.parts.iter().enumerate().filter_map(|(part, kept)| match kept {
            TreePart::Kept { at, segment } => Some((part, *at, segment)),
            TreePart::New { .. } => None,
        })
    }

    /// Writes the metadata of this tree, sharing with the root `base` equal segments that are not barred. Of a large tree a
    /// segment is let go when it is in the pack, but for a few, and those with chunks in packs that are `held`.
    pub fn seal(
        self,
        store: &TenantStore,
        write: RecordId,
        base: Option<&Root>,
        locate: impl Fn(&ChunkId) -> Option<Location>,
        barred: impl Fn(&PackId) -> bool,
        held: impl Fn(&PackId) -> bool,
    ) -> Result<NewMetadata> {
        let table_of = |segment: &Segment| {
            let missing = |id| Error::Internal { what: format!("chunk {id} has no location") };
            let locate = |(id, _): &(ChunkId, u32)| locate(id).ok_or_else(|| missing(*id));
            let locations = segment.chunks.iter().map(locate).collect::<Result<Vec<_>>>()?;
            Ok::<_, Error>((packs_of(&locations), table::encode(&locations)))
        };
        let (mut wanted, mut needed, mut raw_bytes) = (HashSet::new(), HashSet::new(), 0);
        for part in &self.parts {
            wanted.extend(match part {
                TreePart::Kept { segment, .. } => {
                    needed.extend([segment.tree.pack, segment.table.pack]);
                    [segment.tree.id, segment.table.id]
                }
                TreePart::New { id, segment } => {
                    let (_, table) = table_of(segment)?;
                    raw_bytes += segment.bytes.len() + table.len();
                    [*id, store.key().id_of(&table)]
                }
            });
        }
        // Whoever has kept a segment has made sure of it.
        if let Some(pack) = needed.iter().find(|pack| barred(pack)) {
            return Err(Error::Internal {
                what: format!("a segment was kept in pack {pack}, which is barred"),
            });
        }
        let shared = SharedBlobs::with(base, &wanted, &needed, barred);
        let mut pack = MetaPack::new(store, write)?;
        pack.reserve(raw_bytes);
        let mut room = if raw_bytes <= WHOLE_BYTES { WHOLE_BYTES } else { HANDED_OUT_BYTES };
        let mut root = Root { segments: Vec::with_capacity(self.parts.len()) };
        let mut fresh = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let (id, segment) = match part {
                TreePart::New { id, segment } => (id, segment),
                TreePart::Kept { segment, .. } => {
                    root.segments.push(segment);
                    fresh.push(None);
                    continue;
                }
            };
            let (packs, table) = table_of(&segment)?;
            let is_held = packs.iter().any(|used| held(&used.pack));
            root.segments.push(SegmentRef {
                tree: pack.place(&shared, id, EntryKind::Tree, Some(&segment.bytes))?,
                table: pack.place(&shared, store.key().id_of(&table), EntryKind::Table, Some(&table))?,
                chunks: segment.chunks.len() as u32,
                span: Some(Span { packs, ..segment.span }),
            });
            let left = room.checked_sub(segment.bytes.len() + table.len());
            room = left.unwrap_or(room);
            fresh.push((is_held || left.is_some()).then(|| (segment.bytes.into(), table.into())));
        }
        let content = pack.end(store, &root, &shared)?;
        Ok(NewMetadata { content, pack: pack.seal(store), root, fresh })
    }
}

/// Metadata that is not stored yet.
#[derive(Debug)]
pub struct NewMetadata {
    /// The record's description of the snapshot's content.
    pub content: Content,
    /// The pack to upload.
    pub pack: SealedPack,
    /// The list of all segments.
    pub root: Root,
    /// Segment by segment, its tree and its table, unless it was kept or let go.
    pub fresh: Vec<Fresh>,
}

fn blobs(segment: &SegmentRef) -> [&Blob; 2] {
    [&segment.tree, &segment.table]
}

fn packs_of_chunks(segment: &SegmentRef) -> impl Iterator<Item = PackId> + '_ {
    segment.span.iter().flat_map(|span| span.packs.iter().map(|used| used.pack))
}
