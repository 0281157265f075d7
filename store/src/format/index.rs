//! `Index` tells which chunks a write stored, and where. Hints only: a missing, stale or damaged index costs
//! deduplication, never data.

use super::{
    FormatError, MAJOR, MINOR, Result,
    bytes::Reader,
    frame::Codec,
    pack::{HASH_BLAKE3_KEYED, check_place, put_writer, read_writer},
    table::Location,
};
use crate::id::{ChunkId, ChunkKey, PackId, PackSeq, RecordId};

const MAGIC: [u8; 8] = *b"\x89PSTI\r\n\x1a";
const PACK_LEN: usize = 24;
const ENTRY_LEN: usize = 48;
const CHECK_LEN: usize = 32;
const HEADER_LEN: usize = 8 + 4 + 4 + 16 + 32 + 8;

/// The chunks of some packs, grouped by pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The key that the chunk ids were made with.
    pub key: ChunkKey,
    /// The program that wrote it, for messages; cut after 16 bytes.
    pub writer: String,
    /// The packs of the write, each with its chunks.
    pub packs: Vec<IndexPack>,
}

/// A pack, as an index lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexPack {
    /// The pack that holds the chunks.
    pub pack: PackId,
    /// The chunks, in the order in which they lie.
    pub chunks: Vec<IndexEntry>,
}

/// A chunk, as an index lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The chunk's id.
    pub id: ChunkId,
    /// Where in the pack its frame begins.
    pub offset: u64,
    /// How many bytes its frame has.
    pub stored_len: u32,
    /// How its frame is stored.
    pub codec: Codec,
}

impl IndexPack {
    /// Every chunk with where it lies.
    pub fn locations(&self) -> impl Iterator<Item = (ChunkId, Location)> + '_ {
        self.chunks.iter().map(|chunk| {
            let location = Location {
                pack: self.pack,
                offset: chunk.offset,
                stored_len: chunk.stored_len,
                codec: chunk.codec,
            };
            (chunk.id, location)
        })
    }
}

impl Index {
    /// The bytes of the object.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.encoded_len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&MAJOR.to_le_bytes());
        out.extend_from_slice(&MINOR.to_le_bytes());
        out.extend_from_slice(&[HASH_BLAKE3_KEYED, 0, 0, 0]);
        put_writer(&mut out, &self.writer);
        out.extend_from_slice(self.key.as_bytes());
        out.extend_from_slice(&(self.packs.len() as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        for pack in &self.packs {
            out.extend_from_slice(&pack.pack.write.to_bytes());
            out.extend_from_slice(&pack.pack.seq.to_u32().to_le_bytes());
            out.extend_from_slice(&(pack.chunks.len() as u32).to_le_bytes());
        }
        for chunk in self.packs.iter().flat_map(|pack| &pack.chunks) {
            out.extend_from_slice(chunk.id.as_bytes());
            out.extend_from_slice(&chunk.offset.to_le_bytes());
            out.extend_from_slice(&chunk.stored_len.to_le_bytes());
            out.extend_from_slice(&[chunk.codec.to_u8(), 0, 0, 0]);
        }
        let check = blake3::hash(&out);
        out.extend_from_slice(check.as_bytes());
        out
    }

    fn encoded_len(&self) -> usize {
        let chunks: usize = self.packs.iter().map(|pack| pack.chunks.len()).sum();
        HEADER_LEN + self.packs.len() * PACK_LEN + chunks * ENTRY_LEN + CHECK_LEN
    }

    /// The same in as many indexes as it takes for none to have more than `max_bytes` when encoded.
    pub fn parts(self, max_bytes: u64) -> Vec<Self> {
        if self.encoded_len() as u64 <= max_bytes {
            return vec![self];
        }
        let Self { key, writer, packs } = self;
        let room = max_bytes as usize - HEADER_LEN - CHECK_LEN;
        let new = || Self { key, writer: writer.clone(), packs: Vec::new() };
        let (mut parts, mut left) = (vec![new()], room);
        for IndexPack { pack, chunks } in packs {
            let mut rest = &chunks[..];
            loop {
                let fits = left.saturating_sub(PACK_LEN) / ENTRY_LEN;
                if fits == 0 || (rest.len() > fits && left < room) {
                    parts.push(new());
                    left = room;
                    continue;
                }
                let (now, later) = rest.split_at(fits.min(rest.len()));
                left -= PACK_LEN + now.len() * ENTRY_LEN;
                if let Some(part) = parts.last_mut() {
                    part.packs.push(IndexPack { pack, chunks: now.to_vec() });
                }
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
        }
        parts
    }

    /// Reads an index. Refuses one that is damaged: it is only a hint.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let split = bytes
            .len()
            .checked_sub(CHECK_LEN)
            .ok_or_else(|| FormatError::malformed("it is too short for an index"))?;
        let mut reader = Reader::new(&bytes[..split]);
        reader.expect(&MAGIC, "an index")?;
        let major = reader.u16()?;
        reader.u16()?;
        let hash = reader.u8()?;
        reader.take(3)?;
        let writer = read_writer(&mut reader)?;
        if major != MAJOR {
            return Err(FormatError::Version { found: major.into(), writer });
        }
        if blake3::hash(&bytes[..split]).as_bytes()[..] != bytes[split..] {
            return Err(FormatError::malformed("its checksum is wrong"));
        }
        if hash != HASH_BLAKE3_KEYED {
            return Err(FormatError::feature(format!("hash algorithm {hash}"), writer));
        }
        let key = ChunkKey::from_bytes(reader.array()?);
        let pack_count = reader.u32()? as usize;
        reader.take(4)?;
        if pack_count > reader.remaining() / PACK_LEN {
            return Err(FormatError::malformed("more packs than bytes for them"));
        }
        let mut packs = Vec::with_capacity(pack_count);
        let mut total = 0usize;
        for _ in 0..pack_count {
            let write = RecordId::from_bytes(reader.array()?);
            let seq = PackSeq::from_u32(reader.u32()?)
                .ok_or_else(|| FormatError::malformed("an impossible pack number"))?;
            let chunks = reader.u32()? as usize;
            total = total.saturating_add(chunks);
            packs.push((PackId { write, seq }, chunks));
        }
        if total.checked_mul(ENTRY_LEN) != Some(reader.remaining()) {
            return Err(FormatError::malformed("its length does not fit the number of chunks"));
        }
        let packs = packs
            .into_iter()
            .map(|(pack, count)| {
                let chunks = (0..count).map(|_| parse_entry(&mut reader, &writer)).collect::<Result<_>>()?;
                Ok(IndexPack { pack, chunks })
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { key, writer, packs })
    }
}

/// The beginning of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// These are all packs of the index.
    Packs(Vec<PackId>),
    /// So many bytes are needed to tell.
    Needs(u64),
}

/// The packs that an index names, from its beginning alone. What this says is not checked
/// against the checksum, which is at the end.
pub(crate) fn packs_of(bytes: &[u8]) -> Result<Head> {
    let mut reader = Reader::new(bytes);
    if bytes.len() < HEADER_LEN {
        return Ok(Head::Needs(HEADER_LEN as u64));
    }
    reader.expect(&MAGIC, "an index")?;
    let major = reader.u16()?;
    reader.u16()?;
    reader.take(4)?;
    let writer = read_writer(&mut reader)?;
    if major != MAJOR {
        return Err(FormatError::Version { found: major.into(), writer });
    }
    reader.take(32)?;
    let count = reader.u32()? as usize;
    reader.take(4)?;
    if count > reader.remaining() / PACK_LEN {
        return Ok(Head::Needs((HEADER_LEN + count * PACK_LEN) as u64));
    }
    let mut packs = Vec::with_capacity(count);
    for _ in 0..count {
        let write = RecordId::from_bytes(reader.array()?);
        let seq = PackSeq::from_u32(reader.u32()?)
            .ok_or_else(|| FormatError::malformed("an impossible pack number"))?;
        reader.take(4)?;
        packs.push(PackId { write, seq });
    }
    Ok(Head::Packs(packs))
}

fn parse_entry(reader: &mut Reader<'_>, writer: &str) -> Result<IndexEntry> {
    let id = ChunkId::from_bytes(reader.array()?);
    let offset = reader.u64()?;
    let stored_len = reader.u32()?;
    let codec = Codec::from_parts(reader.u8()?, reader.u8()?, writer)?;
    reader.take(2)?;
    check_place(offset, stored_len)?;
    Ok(IndexEntry { id, offset, stored_len, codec })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_and_notices_any_flipped_byte() {
        let key = ChunkKey::from_bytes([3; 32]);
        let write = RecordId::from_parts(5, [1; 10]);
        let chunk = |n: u8| IndexEntry { id: key.id_of(&[n]), offset: 16, stored_len: 9, codec: Codec::Zstd };
        let index = Index {
            key,
            writer: "pstore 0.1.0".to_owned(),
            packs: vec![
                IndexPack { pack: PackId { write, seq: PackSeq::Data(0) }, chunks: vec![chunk(1), chunk(2)] },
                IndexPack { pack: PackId { write, seq: PackSeq::Data(1) }, chunks: vec![chunk(3)] },
            ],
        };
        let bytes = index.encode();
        assert_eq!(Index::decode(&bytes).unwrap(), index);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            Index::decode(&damaged).unwrap_err();
        }
        Index::decode(&bytes[..bytes.len() - 1]).unwrap_err();
        let named = index.packs.iter().map(|pack| pack.pack).collect();
        let needed = HEADER_LEN + 2 * PACK_LEN;
        assert_eq!(packs_of(&bytes[..needed]), Ok(Head::Packs(named)));
        assert_eq!(packs_of(&bytes[..needed - 1]), Ok(Head::Needs(needed as u64)));
        assert_eq!(packs_of(&bytes[..5]), Ok(Head::Needs(HEADER_LEN as u64)));
    }

    #[test]
    fn an_index_is_written_in_parts_that_a_reader_takes() {
        let key = ChunkKey::from_bytes([3; 32]);
        let pack = |number: u32, chunks: u32| IndexPack {
            pack: PackId { write: RecordId::from_parts(5, [1; 10]), seq: PackSeq::from_u32(number).unwrap() },
            chunks: (0..chunks)
                .map(|chunk| IndexEntry {
                    id: key.id_of(&[number.to_le_bytes(), chunk.to_le_bytes()].concat()),
                    offset: 16,
                    stored_len: 9,
                    codec: Codec::Zstd,
                })
                .collect(),
        };
        let packs: Vec<IndexPack> =
            [0, 1, 7, 40, 2, 0, 3].into_iter().zip(0..).map(|(n, at)| pack(at, n)).collect();
        let whole = Index { key, writer: "pstore 0.1.0".to_owned(), packs };
        let chunks = |indexes: &[Index]| -> Vec<(ChunkId, Location)> {
            indexes.iter().flat_map(|index| &index.packs).flat_map(|pack| pack.locations()).collect()
        };
        for room in [1, 2, 3, 10, 100] {
            let max_bytes = HEADER_LEN + PACK_LEN + room * ENTRY_LEN + CHECK_LEN;
            let parts = whole.clone().parts(max_bytes as u64);
            assert!(parts.iter().all(|part| part.encode().len() <= max_bytes), "{room}");
            assert_eq!(chunks(&parts), chunks(std::slice::from_ref(&whole)), "{room}");
            assert!(parts.iter().all(|part| !part.packs.is_empty()), "{room}");
        }
        assert_eq!(whole.clone().parts(1 << 20), [whole]);
    }
}
