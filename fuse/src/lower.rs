//! `Lower` reads the files of the snapshot below the overlay, when a program asks for them.

use std::{fmt, ops::Range, sync::Arc};

use futures::future::BoxFuture;
use store::{
    Error,
    content::chunk_fetcher::ChunkFetcher,
    format::{
        table::Location,
        tree::{Entry, Extent, Kind},
    },
};

pub use store::content::{
    chunk::{Chunk, Piece},
    chunk_fetcher::{ChunkLookup, FoundChunks},
};

/// Gives chunks, verified.
pub trait Lower: Send + Sync + fmt::Debug {
    /// The chunks, if nothing far away must be asked for them; else those that were found.
    fn now(&self, pieces: &[Piece]) -> ChunkLookup;

    /// The chunks of which some were found, whatever that takes.
    fn fetch(&self, found: FoundChunks) -> BoxFuture<'_, store::Result<Vec<Chunk>>>;

    /// These will be wanted soon.
    fn prefetch(&self, pieces: Vec<Piece>);

    /// These will be wanted next, one after another: whatever can be done about them ahead is.
    fn prepare(&self, pieces: Vec<Piece>);
}

impl Lower for Arc<ChunkFetcher> {
    fn now(&self, pieces: &[Piece]) -> ChunkLookup {
        ChunkFetcher::now(self, pieces)
    }

    fn fetch(&self, found: FoundChunks) -> BoxFuture<'_, store::Result<Vec<Chunk>>> {
        Box::pin(self.fetch_rest(found))
    }

    fn prefetch(&self, pieces: Vec<Piece>) {
        ChunkFetcher::prefetch(self, pieces);
    }

    fn prepare(&self, pieces: Vec<Piece>) {
        ChunkFetcher::prepare(self, pieces);
    }
}

/// Below a mount that began without a snapshot, and without a store to have one in.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Lower for Nothing {
    fn now(&self, pieces: &[Piece]) -> ChunkLookup {
        ChunkLookup::Here(nothing(pieces))
    }

    fn fetch(&self, found: FoundChunks) -> BoxFuture<'_, store::Result<Vec<Chunk>>> {
        Box::pin(std::future::ready(nothing(found.pieces())))
    }

    fn prefetch(&self, _: Vec<Piece>) {}

    fn prepare(&self, _: Vec<Piece>) {}
}

fn nothing(pieces: &[Piece]) -> store::Result<Vec<Chunk>> {
    let missing = |piece: &Piece| Error::Missing { object: format!("chunk {}", piece.id), by: "the mount" };
    pieces.first().map_or(Ok(Vec::new()), |piece| Err(missing(piece)))
}

/// The content of one file of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LowerFile {
    parts: Vec<Part>,
    /// Where it has holes: asked for more often than anything else.
    holes: Vec<Range<u64>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub start: u64,
    pub end: u64,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Hole,
    Chunk(Piece),
    Inline(Arc<[u8]>),
}

impl LowerFile {
    pub fn size(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.end)
    }

    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Its holes, cut to `range`.
    pub fn holes(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.holes.partition_point(|hole| hole.end <= range.start);
        let cut = move |hole: &Range<u64>| hole.start.max(range.start)..hole.end.min(range.end);
        self.holes[first..].iter().map(cut).take_while(|hole| hole.start < hole.end)
    }

    /// The parts that overlap `range`, in order.
    pub fn within(&self, range: Range<u64>) -> impl Iterator<Item = &Part> {
        let first = self.parts.partition_point(|part| part.end <= range.start);
        self.parts[first..].iter().take_while(move |part| part.start < range.end)
    }

    /// The chunks that overlap `range`.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> {
        self.within(range).filter_map(|part| match &part.content {
            Content::Chunk(piece) => Some(*piece),
            _ => None,
        })
    }

    /// The content of `entry`, if it is a file; `locations` gives one for each of its chunks.
    pub fn of(entry: &Entry, locations: &mut impl Iterator<Item = Location>) -> Option<Self> {
        let Kind::File { extents, .. } = &entry.kind else { return None };
        let mut parts = Vec::with_capacity(extents.len());
        let mut holes = Vec::new();
        let mut start = 0;
        for extent in extents {
            let content = match extent {
                Extent::Hole(_) => Content::Hole,
                Extent::Inline(bytes) => Content::Inline(bytes.as_slice().into()),
                Extent::Chunk { id, len } => {
                    Content::Chunk(Piece { id: *id, raw_len: *len, location: locations.next()? })
                }
            };
            let end = start + extent.len();
            if content == Content::Hole {
                holes.push(start..end);
            }
            parts.push(Part { start, end, content });
            start = end;
        }
        Some(Self { parts, holes })
    }
}

impl Part {
    /// As a tree says it.
    pub fn extent(&self) -> Extent {
        match &self.content {
            Content::Hole => Extent::Hole(self.end - self.start),
            Content::Chunk(piece) => Extent::Chunk { id: piece.id, len: piece.raw_len },
            Content::Inline(bytes) => Extent::Inline(bytes.to_vec()),
        }
    }
}

#[cfg(test)]
impl LowerFile {
    /// A file of zeros.
    pub fn of_holes(size: u64) -> Self {
        let holes = std::iter::once(0..size).collect();
        Self { parts: vec![Part { start: 0, end: size, content: Content::Hole }], holes }
    }
}
