//! Encodes and decodes table segments: where the chunks of one tree segment lie, in the tree's order.
//!
//! No ids are repeated, and a chunk that follows the one before it in the same pack costs
//! a few bytes. Tables are not part of a snapshot's identity: a collector may move chunks.

use super::{
    FormatError, Result,
    bytes::{Put, Reader},
    frame::Codec,
    pack::check_place,
    prefix,
};
use crate::id::{PackId, PackSeq, RecordId};

/// The first bytes of every table segment.
pub const PREFIX: &[u8] = b"pstore/table/1\n";
const PACK_LEN: usize = 20;

/// Where one chunk lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The pack that holds the frame.
    pub pack: PackId,
    /// Where in the pack the frame begins.
    pub offset: u64,
    /// How many bytes the frame has.
    pub stored_len: u32,
    /// How the frame is stored.
    pub codec: Codec,
}

impl Location {
    /// Where in the pack the frame ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.stored_len.into())
    }
}

/// The bytes of a table segment.
pub fn encode(locations: &[Location]) -> Vec<u8> {
    let mut packs: Vec<PackId> = Vec::new();
    let mut body = Vec::new();
    let mut next: Option<(usize, u64)> = None;
    for location in locations {
        let pack = match packs.iter().rposition(|pack| *pack == location.pack) {
            Some(pack) => pack,
            None => {
                packs.push(location.pack);
                packs.len() - 1
            }
        };
        let follows = next == Some((pack, location.offset));
        body.put_varint(u64::from(location.stored_len) << 1 | u64::from(follows));
        body.push(location.codec.to_u8());
        if !follows {
            body.put_varint(pack as u64);
            body.put_varint(location.offset);
        }
        next = Some((pack, location.end()));
    }
    let mut out = PREFIX.to_vec();
    put_packs(&mut out, &packs);
    out.put_varint(locations.len() as u64);
    out.extend_from_slice(&body);
    out
}

/// Decodes the table of a tree segment that names `expected` chunks.
pub fn decode(bytes: &[u8], expected: usize) -> Result<Vec<Location>> {
    let mut reader = prefix::strip(bytes, "table")?;
    let packs = read_packs(&mut reader)?;
    let count = reader.count(2, "locations")?;
    if count != expected {
        return Err(FormatError::malformed(format!("{count} locations for {expected} chunks")));
    }
    let mut sorted = packs.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(FormatError::malformed("a pack twice in the list"));
    }
    let mut locations: Vec<Location> = Vec::with_capacity(count);
    let mut used = 0;
    for _ in 0..count {
        let head = reader.varint()?;
        let codec = Codec::from_byte(reader.u8()?)?;
        let stored_len =
            u32::try_from(head >> 1).map_err(|_| FormatError::malformed("a stored chunk longer than any"))?;
        let (pack, offset) = if head & 1 == 1 {
            let before = locations
                .last()
                .ok_or_else(|| FormatError::malformed("a first location that follows none"))?;
            (before.pack, before.end())
        } else {
            let at = pack_at(&packs, &mut reader)?;
            if at > used {
                return Err(FormatError::malformed("packs that are not in the order of their first use"));
            }
            used = used.max(at + 1);
            let (pack, offset) = (packs[at], reader.varint()?);
            if locations.last().is_some_and(|before| (before.pack, before.end()) == (pack, offset)) {
                return Err(FormatError::malformed("a location that follows and does not say so"));
            }
            (pack, offset)
        };
        check_place(offset, stored_len)?;
        locations.push(Location { pack, offset, stored_len, codec });
    }
    reader.finish()?;
    if used != packs.len() {
        return Err(FormatError::malformed("a pack in the list that holds no chunk"));
    }
    Ok(locations)
}

pub(super) fn put_packs(out: &mut Vec<u8>, packs: &[PackId]) {
    out.put_varint(packs.len() as u64);
    for pack in packs {
        out.extend_from_slice(&pack.write.to_bytes());
        out.extend_from_slice(&pack.seq.to_u32().to_le_bytes());
    }
}

pub(super) fn read_packs(reader: &mut Reader<'_>) -> Result<Vec<PackId>> {
    let count = reader.count(PACK_LEN, "packs")?;
    (0..count)
        .map(|_| {
            let write = RecordId::from_bytes(reader.array()?);
            let seq = PackSeq::from_u32(reader.u32()?)
                .ok_or_else(|| FormatError::malformed("an impossible pack number"))?;
            Ok(PackId { write, seq })
        })
        .collect()
}

/// A place in the list of packs.
pub(super) fn pack_at(packs: &[PackId], reader: &mut Reader<'_>) -> Result<usize> {
    let at = reader.varint()?;
    usize::try_from(at)
        .ok()
        .filter(|at| *at < packs.len())
        .ok_or_else(|| FormatError::malformed(format!("pack {at} is not in the list")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_cost_a_few_bytes() {
        let pack = |seq| PackId { write: RecordId::from_parts(5, [1; 10]), seq: PackSeq::Data(seq) };
        let mut locations = Vec::new();
        for n in 0..100u64 {
            locations.push(Location {
                pack: pack(0),
                offset: 16 + n * 1000,
                stored_len: 1000,
                codec: Codec::Zstd,
            });
        }
        let run = encode(&locations).len();
        assert!(run < PREFIX.len() + 40 + 100 * 3, "{run} bytes");
        locations.push(Location { pack: pack(1), offset: 17, stored_len: 1, codec: Codec::Raw });
        locations.push(locations[3]);
        let bytes = encode(&locations);
        assert_eq!(decode(&bytes, locations.len()).unwrap(), locations);
        decode(&bytes, locations.len() + 1).unwrap_err();
        for len in 0..bytes.len() {
            decode(&bytes[..len], locations.len()).unwrap_err();
        }
    }
}
