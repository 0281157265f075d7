//! Encodes and decodes packs: frames, then a directory of them, then a trailer that checks the directory.
//!
//! The directory is at the end so that a pack streams out, and complete in itself so
//! that an index can be rebuilt from packs alone.

use super::{FormatError, MAJOR, MINOR, Result, UNNAMED_WRITER, bytes::Reader, frame::Codec};
use crate::id::{ChunkId, ChunkKey, PackId, PackSeq, RecordId};

/// The first bytes of a pack; line ends and a high bit show text-mode damage.
pub const MAGIC: [u8; 8] = *b"\x89PSTP\r\n\x1a";
const END_MAGIC: [u8; 8] = *b"PSTPEND\n";
/// Every pack begins with so many bytes that are no frame.
pub const HEADER_LEN: usize = 16;
pub(crate) const ENTRY_LEN: usize = 64;
/// Every pack ends with so many bytes that check its directory.
pub const TRAILER_LEN: usize = 128;
const CHECKED_TRAILER_LEN: usize = 96;
const CHECK_LEN: usize = 24;
pub(super) const WRITER_LEN: usize = 16;
pub(super) const HASH_BLAKE3_KEYED: u8 = 1;
/// No chunk or segment is longer, so no reader allocates more for one.
pub(crate) const MAX_RAW_LEN: u32 = 16 << 20;
/// The longest frame of a chunk.
pub(crate) const MAX_STORED_LEN: u32 = MAX_RAW_LEN + MAX_RAW_LEN / 64;
/// No frame begins later.
pub(crate) const MAX_OFFSET: u64 = 1 << 48;

/// Whether a frame can lie there in any pack.
pub(super) fn check_place(offset: u64, stored_len: u32) -> Result<()> {
    if !(HEADER_LEN as u64..=MAX_OFFSET).contains(&offset) {
        return Err(FormatError::malformed(format!("a frame at the impossible offset {offset}")));
    }
    if stored_len == 0 || stored_len > MAX_STORED_LEN {
        return Err(FormatError::malformed(format!("a frame of the impossible length {stored_len}")));
    }
    Ok(())
}

/// The content of a pack's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A chunk of a file.
    Data,
    /// A tree segment.
    Tree,
    /// A table segment.
    Table,
    /// A root.
    Root,
}

impl EntryKind {
    const fn to_u8(self) -> u8 {
        match self {
            Self::Data => 1,
            Self::Tree => 2,
            Self::Table => 3,
            Self::Root => 4,
        }
    }

    fn from_u8(value: u8, writer: &str) -> Result<Self> {
        match value {
            1 => Ok(Self::Data),
            2 => Ok(Self::Tree),
            3 => Ok(Self::Table),
            4 => Ok(Self::Root),
            other => Err(FormatError::feature(format!("entry kind {other}"), writer)),
        }
    }
}

/// One frame of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackEntry {
    /// The id of the chunk or blob.
    pub id: ChunkId,
    /// Chunk or blob, and which.
    pub kind: EntryKind,
    /// How the frame is stored.
    pub codec: Codec,
    /// Where in the pack the frame begins.
    pub offset: u64,
    /// How many bytes the frame has.
    pub stored_len: u32,
    /// How many bytes it has uncompressed.
    pub raw_len: u32,
    /// CRC-32C of the stored bytes, so that they can be scrubbed without decoding.
    pub crc: u32,
}

/// A pack's directory and the facts beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    /// The pack it is the directory of.
    pub pack: PackId,
    /// The key that the ids were made with.
    pub key: ChunkKey,
    /// The program that wrote it, for messages; cut after 16 bytes.
    pub writer: String,
    /// The frames, in the order in which they lie.
    pub entries: Vec<PackEntry>,
}

/// The first bytes of every pack.
pub fn header() -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&MAGIC);
    header[8..10].copy_from_slice(&MAJOR.to_le_bytes());
    header[10..12].copy_from_slice(&MINOR.to_le_bytes());
    header
}

/// Whether these are the first bytes of a pack we can read; later minor versions may have
/// put something where this one writes zeros.
pub fn check_header(bytes: &[u8]) -> Result<()> {
    let mut reader = Reader::new(bytes);
    if bytes.len() != HEADER_LEN || reader.expect(&MAGIC, "a pack").is_err() {
        return Err(FormatError::malformed("it does not begin as a pack does"));
    }
    match reader.u16()? {
        MAJOR => Ok(()),
        found => Err(FormatError::Version { found: found.into(), writer: UNNAMED_WRITER.to_owned() }),
    }
}

/// A writer's name in the 16 bytes that binary objects have for it.
pub(super) fn put_writer(out: &mut Vec<u8>, writer: &str) {
    let mut field = [0; WRITER_LEN];
    let len = writer.floor_char_boundary(WRITER_LEN);
    field[..len].copy_from_slice(&writer.as_bytes()[..len]);
    out.extend_from_slice(&field);
}

pub(super) fn read_writer(reader: &mut Reader<'_>) -> Result<String> {
    Ok(String::from_utf8_lossy(reader.take(WRITER_LEN)?).trim_end_matches('\0').to_owned())
}

/// Appends directory and trailer to a pack whose frames end at `out`'s end.
pub fn append_directory(out: &mut Vec<u8>, directory: &Directory) {
    let offset = out.len();
    out.reserve(directory.entries.len() * ENTRY_LEN + TRAILER_LEN);
    for entry in &directory.entries {
        out.extend_from_slice(entry.id.as_bytes());
        out.extend_from_slice(&[entry.kind.to_u8(), entry.codec.to_u8(), 0, 0]);
        out.extend_from_slice(&entry.stored_len.to_le_bytes());
        out.extend_from_slice(&entry.raw_len.to_le_bytes());
        out.extend_from_slice(&entry.crc.to_le_bytes());
        out.extend_from_slice(&entry.offset.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
    }
    out.extend_from_slice(directory.key.as_bytes());
    out.extend_from_slice(&directory.pack.write.to_bytes());
    out.extend_from_slice(&directory.pack.seq.to_u32().to_le_bytes());
    out.extend_from_slice(&(directory.entries.len() as u32).to_le_bytes());
    out.extend_from_slice(&(offset as u64).to_le_bytes());
    out.extend_from_slice(&[HASH_BLAKE3_KEYED, 0, 0, 0, 0, 0, 0, 0]);
    put_writer(out, &directory.writer);
    out.extend_from_slice(&MAJOR.to_le_bytes());
    out.extend_from_slice(&MINOR.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let check = blake3::hash(&out[offset..]);
    out.extend_from_slice(&check.as_bytes()[..CHECK_LEN]);
    out.extend_from_slice(&END_MAGIC);
}

/// Where the directory of a pack of `pack_len` bytes starts, from its trailer.
pub fn directory_offset(trailer: &[u8], pack_len: u64) -> Result<u64> {
    Ok(parse_trailer(trailer, pack_len)?.offset)
}

/// Decodes the tail of a pack of `pack_len` bytes: directory and trailer.
pub fn decode_directory(tail: &[u8], pack_len: u64) -> Result<Directory> {
    let split = tail
        .len()
        .checked_sub(TRAILER_LEN)
        .ok_or_else(|| FormatError::malformed("it is too short for a pack"))?;
    let trailer = parse_trailer(&tail[split..], pack_len)?;
    let len = trailer.count as usize * ENTRY_LEN;
    let start = split.checked_sub(len).ok_or_else(|| FormatError::malformed("its directory is cut short"))?;
    let checked = &tail[start..split + CHECKED_TRAILER_LEN];
    if blake3::hash(checked).as_bytes()[..CHECK_LEN] != trailer.check {
        return Err(FormatError::malformed("the checksum of its directory is wrong"));
    }
    let mut reader = Reader::new(&tail[start..split]);
    let mut entries = Vec::with_capacity(trailer.count as usize);
    let mut end = HEADER_LEN as u64;
    while !reader.is_empty() {
        let entry = parse_entry(&mut reader, &trailer.writer)?;
        if entry.offset < end
            || entry.offset.checked_add(entry.stored_len.into()).is_none_or(|e| e > trailer.offset)
        {
            return Err(FormatError::malformed(format!("entry {} lies outside the pack's frames", entry.id)));
        }
        end = entry.offset + u64::from(entry.stored_len);
        entries.push(entry);
    }
    Ok(Directory { pack: trailer.pack, key: trailer.key, writer: trailer.writer, entries })
}

struct Trailer {
    key: ChunkKey,
    pack: PackId,
    count: u32,
    offset: u64,
    writer: String,
    check: [u8; CHECK_LEN],
}

fn parse_trailer(trailer: &[u8], pack_len: u64) -> Result<Trailer> {
    let mut reader = Reader::new(trailer);
    if trailer.len() != TRAILER_LEN || !trailer.ends_with(&END_MAGIC) {
        return Err(FormatError::malformed("it does not end as a pack does"));
    }
    let key = ChunkKey::from_bytes(reader.array()?);
    let write = RecordId::from_bytes(reader.array()?);
    let seq = reader.u32()?;
    let count = reader.u32()?;
    let offset = reader.u64()?;
    let hash = reader.u8()?;
    reader.take(7)?;
    let writer = read_writer(&mut reader)?;
    let major = reader.u16()?;
    reader.take(6)?;
    if major != MAJOR {
        return Err(FormatError::Version { found: major.into(), writer });
    }
    if hash != HASH_BLAKE3_KEYED {
        return Err(FormatError::Feature { feature: format!("hash algorithm {hash}"), writer });
    }
    let seq = PackSeq::from_u32(seq).ok_or_else(|| FormatError::malformed("an impossible pack number"))?;
    let len = u64::from(count) * ENTRY_LEN as u64 + TRAILER_LEN as u64;
    if offset < HEADER_LEN as u64 || offset.checked_add(len) != Some(pack_len) {
        return Err(FormatError::malformed(format!("its length {pack_len} does not fit its directory")));
    }
    Ok(Trailer { key, pack: PackId { write, seq }, count, offset, writer, check: reader.array()? })
}

fn parse_entry(reader: &mut Reader<'_>, writer: &str) -> Result<PackEntry> {
    let id = ChunkId::from_bytes(reader.array()?);
    let kind = EntryKind::from_u8(reader.u8()?, writer)?;
    let codec = Codec::from_parts(reader.u8()?, reader.u8()?, writer)?;
    reader.u8()?;
    let stored_len = reader.u32()?;
    let raw_len = reader.u32()?;
    let crc = reader.u32()?;
    let offset = reader.u64()?;
    reader.take(8)?;
    if raw_len == 0 || raw_len > MAX_RAW_LEN {
        return Err(FormatError::malformed(format!("entry {id} has the impossible length {raw_len}")));
    }
    check_place(offset, stored_len)?;
    Ok(PackEntry { id, kind, codec, offset, stored_len, raw_len, crc })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let key = ChunkKey::from_bytes([3; 32]);
        let mut out = header().to_vec();
        out.extend_from_slice(b"frame one");
        let entry = PackEntry {
            id: key.id_of(b"x"),
            kind: EntryKind::Data,
            codec: Codec::Raw,
            offset: HEADER_LEN as u64,
            stored_len: 9,
            raw_len: 9,
            crc: crc32c::crc32c(b"frame one"),
        };
        let pack = PackId { write: RecordId::from_parts(5, [1; 10]), seq: PackSeq::Data(2) };
        append_directory(
            &mut out,
            &Directory { pack, key, writer: "pstore".to_owned(), entries: vec![entry] },
        );
        out
    }

    #[test]
    fn directory_round_trips() {
        let pack = sample();
        let len = pack.len() as u64;
        let offset = directory_offset(&pack[pack.len() - TRAILER_LEN..], len).unwrap();
        assert_eq!(offset, (HEADER_LEN + 9) as u64);
        let directory = decode_directory(&pack[offset as usize..], len).unwrap();
        assert_eq!(directory.entries.len(), 1);
        assert_eq!(directory.pack.seq, PackSeq::Data(2));
    }

    #[test]
    fn every_flipped_bit_of_the_directory_is_found() {
        let pack = sample();
        let start = HEADER_LEN + 9;
        for bit in 0..(pack.len() - start) * 8 {
            let mut damaged = pack.clone();
            damaged[start + bit / 8] ^= 1 << (bit % 8);
            assert!(
                decode_directory(&damaged[start..], pack.len() as u64).is_err(),
                "bit {bit} went unnoticed"
            );
        }
        decode_directory(&pack[start..], pack.len() as u64 + 1).unwrap_err();
        decode_directory(&pack[start + 1..], pack.len() as u64).unwrap_err();
    }

    #[test]
    fn a_header_may_have_another_minor_version() {
        let mut bytes = header();
        check_header(&bytes).unwrap();
        bytes[10..].copy_from_slice(&[7; 6]);
        check_header(&bytes).unwrap();
        bytes[8] = 2;
        assert!(matches!(check_header(&bytes), Err(FormatError::Version { found: 2, .. })));
        bytes[0] = 0;
        assert!(matches!(check_header(&bytes), Err(FormatError::Malformed(_))));
        check_header(&header()[..15]).unwrap_err();
    }
}
