//! `ChunkPlaces` finds chunks in the packs of one write, with a few bytes for each and the packs' own lists.

use std::collections::HashMap;

use super::chunk::Locations;
use crate::{
    format::{index::IndexPack, table::Location},
    id::ChunkId,
};

/// Where chunks are in a list of packs, to which others may be added behind.
#[derive(Debug, Default)]
pub(crate) struct ChunkPlaces {
    /// By the first bytes of the id: the place of the pack, and that of the chunk in it.
    places: HashMap<u64, (u32, u32)>,
    /// Those whose first bytes are those of another.
    others: Locations,
}

impl ChunkPlaces {
    /// Learns the last of `packs`.
    pub fn learn_last(&mut self, packs: &[IndexPack]) {
        let Some((pack, at)) = packs.last().zip((packs.len() as u32).checked_sub(1)) else { return };
        for ((id, location), chunk) in pack.locations().zip(0..) {
            let place = *self.places.entry(first_bytes(&id)).or_insert((at, chunk));
            if id_at(packs, place) != Some(id) {
                self.others.insert(id, location);
            }
        }
    }

    /// Where a chunk lies, if one of `packs` holds it.
    pub fn locate(&self, packs: &[IndexPack], id: &ChunkId) -> Option<Location> {
        let place = *self.places.get(&first_bytes(id))?;
        if id_at(packs, place) != Some(*id) {
            return self.others.get(id).copied();
        }
        let pack = packs.get(place.0 as usize)?;
        let chunk = pack.chunks.get(place.1 as usize)?;
        let (offset, stored_len, codec) = (chunk.offset, chunk.stored_len, chunk.codec);
        Some(Location { pack: pack.pack, offset, stored_len, codec })
    }
}

fn id_at(packs: &[IndexPack], (pack, chunk): (u32, u32)) -> Option<ChunkId> {
    Some(packs.get(pack as usize)?.chunks.get(chunk as usize)?.id)
}

fn first_bytes(id: &ChunkId) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&id.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        format::{frame::Codec, index::IndexEntry},
        id::{PackId, PackSeq, RecordId},
    };

    #[test]
    fn every_chunk_is_found_also_if_it_begins_like_another() {
        let id = |first: u8, last: u8| {
            let mut bytes = [first; 32];
            bytes[31] = last;
            ChunkId::from_bytes(bytes)
        };
        let pack = |seq: u32, ids: &[ChunkId]| IndexPack {
            pack: PackId { write: RecordId::from_parts(1, [1; 10]), seq: PackSeq::Data(seq) },
            chunks: ids
                .iter()
                .zip(1..)
                .map(|(id, offset)| IndexEntry { id: *id, offset, stored_len: 5, codec: Codec::Zstd })
                .collect(),
        };
        let (mut packs, mut places) = (Vec::new(), ChunkPlaces::default());
        for (seq, ids) in [(0, vec![id(1, 1), id(1, 2), id(2, 1)]), (1, vec![id(2, 2), id(3, 1), id(2, 1)])] {
            packs.push(pack(seq, &ids));
            places.learn_last(&packs);
        }
        let found =
            |id: ChunkId| places.locate(&packs, &id).map(|location| (location.pack.seq, location.offset));
        assert_eq!(found(id(1, 1)), Some((PackSeq::Data(0), 1)));
        assert_eq!(found(id(1, 2)), Some((PackSeq::Data(0), 2)));
        assert_eq!(found(id(2, 1)), Some((PackSeq::Data(0), 3)));
        assert_eq!(found(id(2, 2)), Some((PackSeq::Data(1), 1)));
        assert_eq!(found(id(3, 1)), Some((PackSeq::Data(1), 2)));
        assert_eq!((found(id(3, 2)), found(id(4, 1))), (None, None));
    }
}
