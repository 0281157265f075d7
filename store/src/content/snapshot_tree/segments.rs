//! `Segments` fetches, verifies and decodes single segments of a tree, and holds those that were read last.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    Error, Result,
    content::{
        TenantStore,
        chunk::Piece,
        meta::{Metadata, check_span, fetch_blob, table_of},
    },
    format::{
        root::Root,
        segment::SegmentPart,
        table::Location,
        tree::{Entry, Extent, TreePath},
    },
    id::ChunkId,
};

/// How many decoded segments are held: of a few hundred kilobytes at most, most of them far less.
const HELD: usize = 64;

/// A segment, decoded, with where its chunks lie.
#[derive(Debug)]
pub(super) struct Part {
    pub tree: SegmentPart,
    /// Of all its chunks, those of `continued` first.
    locations: Vec<Location>,
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
    whole: Option<Metadata>,
    /// The last ones that were read, the latest at the end.
    held: Mutex<Vec<(usize, Arc<Part>)>>,
}

impl Segments {
    /// Of a tree whose segments have been fetched.
    pub fn whole(store: &TenantStore, metadata: Metadata) -> Result<Self> {
        let root = metadata.spanned_root()?;
        Ok(Self { store: store.clone(), root, whole: Some(metadata), held: Mutex::default() })
    }

    /// Of a tree whose segments are fetched one by one. Its root has spans.
    pub fn by_need(store: &TenantStore, root: Root) -> Self {
        Self { store: store.clone(), root, whole: None, held: Mutex::default() }
    }

    pub fn root(&self) -> &Root {
        &self.root
    }

    pub fn store(&self) -> &TenantStore {
        &self.store
    }

    /// All of them as they are stored, if the tree is small.
    pub fn in_memory(&self) -> Option<&Metadata> {
        self.whole.as_ref()
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
        let segment = &self.root.segments[at];
        let (tree, table) = match &self.whole {
            Some(metadata) => metadata.segment(at),
            None => {
                let (tree, table) =
                    (fetch_blob(&self.store, &segment.tree), fetch_blob(&self.store, &segment.table));
                futures::future::try_join(tree, table).await?
            }
        };
        let tree = SegmentPart::read(&tree)
            .map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
        check_span(segment, &tree.span)?;
        self.check_order(at, &tree)?;
        let locations = table_of(segment, &table)?;
        let named = chunks(&tree.continued).count() + tree.entries.iter().flat_map(Entry::chunks).count();
        if named != locations.len() {
            let reason = format!("{named} chunks, but {} locations", locations.len());
            return Err(Error::damaged(format!("table segment {}", segment.table.id), reason));
        }
        let part = Arc::new(Part { tree, locations });
        self.remember(at, &part);
        Ok(part)
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
