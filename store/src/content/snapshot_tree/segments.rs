//! `Segments` fetches, verifies and decodes single segments of a tree, and holds those that were read last.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{
    Error, Result,
    content::{
        TenantStore,
        chunk::Piece,
        meta::{Fresh, Metadata, check_span, fetch_blob, table_of},
    },
    format::{
        root::{Root, SegmentRef},
        segment::{Segment, SegmentPart},
        table::Location,
        tree::{Extent, TreePath},
    },
    id::ChunkId,
};

/// How many decoded segments are held: of a few hundred kilobytes at most, most of them far less.
const HELD: usize = 64;

/// How many bytes of segments are held that this host has made.
const MOST_FRESH: usize = 4 << 20;

/// A segment, decoded, with where its chunks lie.
#[derive(Debug)]
pub(crate) struct Part {
    pub tree: SegmentPart,
    /// Of all its chunks, those of `continued` first.
    pub locations: Vec<Location>,
}

impl Part {
    /// The chunks of the entry at this place in the segment, as far as the segment has them.
    pub fn pieces(&self, place: usize) -> Vec<Piece> {
        let before: usize = self.tree.entries[..place].iter().map(|entry| entry.chunks().count()).sum();
        let from = chunks(&self.tree.continued).count() + before;
        let chunks = self.tree.entries[place].chunks();
        chunks
            .zip(&self.locations[from..])
            .map(|((id, raw_len), location)| piece(id, raw_len, location))
            .collect()
    }

    /// The chunks of the file that the segment continues.
    pub fn continued_pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let chunks = chunks(&self.tree.continued).zip(&self.locations);
        chunks.map(|((id, raw_len), location)| piece(id, raw_len, location))
    }
}

/// The segments of one tree.
#[derive(Debug)]
pub(super) struct Segments {
    store: TenantStore,
    root: Root,
    /// All of them as they are stored, if the tree is small.
    whole: Option<Arc<Metadata>>,
    /// Some that this host has made, by number.
    fresh: HashMap<usize, (Bytes, Bytes)>,
    /// The last ones that were read, the latest at the end.
    held: Mutex<Vec<(usize, Arc<Part>)>>,
}

impl Segments {
    /// Of a tree whose segments have been fetched.
    pub fn whole(store: &TenantStore, metadata: Arc<Metadata>) -> Result<Self> {
        let root = metadata.spanned_root()?;
        Ok(Self { whole: Some(metadata), ..Self::by_need(store, root) })
    }

    /// Of a tree whose segments are fetched one by one. Its root has spans.
    pub fn by_need(store: &TenantStore, root: Root) -> Self {
        Self { store: store.clone(), root, whole: None, fresh: HashMap::new(), held: Mutex::default() }
    }

    /// Of a tree of which some segments are at hand. If they are many, they are fetched like the others.
    /// What was read of `base` is at hand as well, where it is the same.
    pub fn with_fresh(store: &TenantStore, root: Root, fresh: Vec<Fresh>, base: Option<&Self>) -> Self {
        let mut room = MOST_FRESH;
        let numbered = fresh.into_iter().enumerate().filter_map(|(at, fresh)| Some((at, fresh?)));
        let within = numbered.map_while(|(at, (tree, table))| {
            room = room.checked_sub(tree.len() + table.len())?;
            Some((at, (tree, table)))
        });
        let fresh = within.collect();
        let held = base.map(|base| base.held_in(&root)).unwrap_or_default();
        Self { fresh, held: Mutex::new(held), ..Self::by_need(store, root) }
    }

    /// Those that are held and that `root` has as well, by their number there.
    fn held_in(&self, root: &Root) -> Vec<(usize, Arc<Part>)> {
        let blobs = |segment: &SegmentRef| (segment.tree.id, segment.table.id);
        let numbers = root.segments.iter().enumerate().map(|(at, segment)| (blobs(segment), at));
        let numbers: HashMap<(ChunkId, ChunkId), usize> = numbers.collect();
        let held = self.held.lock();
        let same = held.iter().filter_map(|(at, part)| {
            Some((*numbers.get(&blobs(&self.root.segments[*at]))?, Arc::clone(part)))
        });
        same.collect()
    }

    /// All segments as they are stored, if they are at hand.
    pub fn metadata(&self) -> Option<&Arc<Metadata>> {
        self.whole.as_ref()
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn len(&self) -> usize {
        self.root.segments.len()
    }

    /// The first entry that begins in a segment.
    pub fn first(&self, at: usize) -> Option<&TreePath> {
        self.root.segments[at].span.as_ref()?.first.as_ref()
    }

    /// The segment at this place.
    pub async fn read(&self, at: usize) -> Result<Arc<Part>> {
        if let Some(part) = self.recall(at) {
            return Ok(part);
        }
        let (tree, table) = self.stored(at).await?;
        let part = Arc::new(self.decode(at, &tree, &table)?);
        self.remember(at, &part);
        Ok(part)
    }

    /// The segment at this place as it is stored, and where its chunks lie.
    pub async fn opened(&self, at: usize) -> Result<(Segment, Vec<Location>)> {
        let (tree, table) = self.stored(at).await?;
        let part = self.decode(at, &tree, &table)?;
        let (chunks, span) = (part.tree.chunks().collect(), part.tree.span);
        Ok((Segment { bytes: tree.into(), chunks, span }, part.locations))
    }

    fn decode(&self, at: usize, tree: &[u8], table: &[u8]) -> Result<Part> {
        let segment = &self.root.segments[at];
        let tree =
            SegmentPart::read(tree).map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
        check_span(segment, &tree.span)?;
        self.check_order(at, &tree)?;
        let locations = table_of(segment, table)?;
        let named = tree.chunks().count();
        if named != locations.len() {
            let reason = format!("{named} chunks, but {} locations", locations.len());
            return Err(Error::damaged(format!("table segment {}", segment.table.id), reason));
        }
        Ok(Part { tree, locations })
    }

    /// The segment at this place and its table, as they are stored but decompressed.
    async fn stored(&self, at: usize) -> Result<(Bytes, Bytes)> {
        if let Some(metadata) = &self.whole {
            return Ok(metadata.segment(at));
        }
        if let Some(fresh) = self.fresh.get(&at) {
            return Ok(fresh.clone());
        }
        let segment = &self.root.segments[at];
        let (tree, table) = (fetch_blob(&self.store, &segment.tree), fetch_blob(&self.store, &segment.table));
        futures::future::try_join(tree, table).await
    }

    /// The segment at this place, which must go on with the file at `path`.
    pub async fn continued(&self, at: usize, path: &TreePath) -> Result<Arc<Part>> {
        let goes_on = self.root.segments.get(at).and_then(|segment| segment.span.as_ref());
        if !goes_on.is_some_and(|span| span.continues) {
            return Err(Error::damaged("the snapshot's tree", format!("{path} is not complete")));
        }
        self.read(at).await
    }

    /// The entries of a segment lie before those of the next.
    fn check_order(&self, at: usize, tree: &SegmentPart) -> Result<()> {
        let next = (at + 1..self.len()).find_map(|next| self.first(next));
        match (tree.entries.last(), next) {
            (Some(last), Some(next)) if last.path >= *next => {
                let segment = self.root.segments[at].tree.id;
                Err(Error::damaged(
                    format!("tree segment {segment}"),
                    format!("{next} comes after {}", last.path),
                ))
            }
            _ => Ok(()),
        }
    }

    fn recall(&self, at: usize) -> Option<Arc<Part>> {
        let mut held = self.held.lock();
        let place = held.iter().rposition(|(of, _)| *of == at)?;
        let found = held.remove(place);
        let part = Arc::clone(&found.1);
        held.push(found);
        Some(part)
    }

    fn remember(&self, at: usize, part: &Arc<Part>) {
        let mut held = self.held.lock();
        if held.len() == HELD {
            held.remove(0);
        }
        held.push((at, Arc::clone(part)));
    }
}

fn chunks(extents: &[Extent]) -> impl Iterator<Item = (ChunkId, u32)> + '_ {
    extents.iter().filter_map(|extent| match extent {
        Extent::Chunk { id, len } => Some((*id, *len)),
        _ => None,
    })
}

fn piece(id: ChunkId, raw_len: u32, location: &Location) -> Piece {
    Piece { id, raw_len, location: *location }
}
