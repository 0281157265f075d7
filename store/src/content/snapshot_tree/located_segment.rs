//! `LocatedSegment` is one decoded segment with the locations of its chunks.

use crate::{
    content::chunk::Piece,
    format::{segment::SegmentPart, table::Location, tree::Extent},
    id::ChunkId,
};

/// A decoded segment, with the locations of its chunks.
#[derive(Debug)]
pub(crate) struct LocatedSegment {
    pub tree: SegmentPart,
    /// Of all its chunks, those of `continued` first.
    pub locations: Vec<Location>,
    /// About how much memory it takes.
    pub(super) bytes: usize,
}

impl LocatedSegment {
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

    /// The chunk with this number in the segment.
    pub fn piece(&self, number: usize) -> Option<Piece> {
        let (id, raw_len) = self.tree.chunks().nth(number)?;
        Some(piece(id, raw_len, self.locations.get(number)?))
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
