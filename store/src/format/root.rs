//! `Root` lists a snapshot's tree and table segments, and where they lie.

use std::collections::HashSet;

use super::{
    FormatError, Result,
    bytes::{Put, Reader},
    frame::Codec,
    pack::{MAX_RAW_LEN, check_place},
    prefix,
    table::{pack_at, put_packs, read_packs},
    tree_limits::{MAX_CHUNKS, MAX_METADATA_BYTES},
};
use crate::id::{ChunkId, PackId};

/// The first bytes of every root.
pub const PREFIX: &[u8] = b"pstore/root/1\n";

/// A metadata blob in a meta pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// What names the blob.
    pub id: ChunkId,
    /// The meta pack that holds it.
    pub pack: PackId,
    /// Where in the pack its frame begins.
    pub offset: u64,
    /// How many bytes its frame has.
    pub stored_len: u32,
    /// How many bytes it has uncompressed.
    pub raw_len: u32,
    /// How its frame is stored.
    pub codec: Codec,
}

impl Blob {
    pub(super) fn check(&self) -> Result<()> {
        if self.raw_len == 0 || self.raw_len > MAX_RAW_LEN {
            return Err(FormatError::malformed(format!("a segment of {} bytes", self.raw_len)));
        }
        check_place(self.offset, self.stored_len)
    }
}

/// A tree segment with the table of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The piece of the tree.
    pub tree: Blob,
    /// The locations of that piece's chunks.
    pub table: Blob,
    /// How many chunks the tree segment names.
    pub chunks: u32,
}

/// What a snapshot's metadata consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The segments, in the order of the tree.
    pub segments: Vec<SegmentRef>,
}

impl Root {
    /// The bytes of the root.
    pub fn encode(&self) -> Vec<u8> {
        let mut packs: Vec<PackId> = self.blobs().map(|blob| blob.pack).collect();
        packs.sort_unstable();
        packs.dedup();
        let mut out = PREFIX.to_vec();
        put_packs(&mut out, &packs);
        out.put_varint(self.segments.len() as u64);
        for segment in &self.segments {
            out.put_varint(segment.chunks.into());
            for blob in [&segment.tree, &segment.table] {
                out.extend_from_slice(blob.id.as_bytes());
                // Every blob's pack was collected above.
                out.put_varint(packs.binary_search(&blob.pack).unwrap_or_default() as u64);
                out.put_varint(blob.offset);
                out.put_varint(blob.stored_len.into());
                out.put_varint(blob.raw_len.into());
                out.push(blob.codec.to_u8());
            }
        }
        out
    }

    /// Reads a root. Refuses one that is malformed or has no segment.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = prefix::strip(bytes, "root")?;
        let packs = read_packs(&mut reader)?;
        let count = reader.count(75, "segments")?;
        if count == 0 {
            return Err(FormatError::malformed("a root without segments"));
        }
        if !packs.is_sorted_by(|a, b| a < b) {
            return Err(FormatError::malformed("packs that are not sorted, or twice in the list"));
        }
        let segments = (0..count)
            .map(|_| {
                let chunks = reader.bounded(u32::MAX.into(), "a number of chunks")? as u32;
                let tree = read_blob(&packs, &mut reader)?;
                let table = read_blob(&packs, &mut reader)?;
                Ok(SegmentRef { tree, table, chunks })
            })
            .collect::<Result<Vec<_>>>()?;
        reader.finish()?;
        let root = Self { segments };
        root.check()?;
        let used: HashSet<PackId> = root.blobs().map(|blob| blob.pack).collect();
        if used.len() != packs.len() {
            return Err(FormatError::malformed("a pack in the list that holds no segment"));
        }
        Ok(root)
    }

    /// Whether it is no larger than a reader accepts: known before any segment is read.
    pub fn check(&self) -> Result<()> {
        let chunks: u64 = self.segments.iter().map(|segment| u64::from(segment.chunks)).sum();
        for (found, most, what) in
            [(self.metadata_bytes(), MAX_METADATA_BYTES, "bytes of metadata"), (chunks, MAX_CHUNKS, "chunks")]
        {
            if found > most {
                return Err(FormatError::malformed(format!(
                    "a tree with {found} {what}; {most} are the most"
                )));
            }
        }
        Ok(())
    }

    /// How long all segments are together.
    pub fn metadata_bytes(&self) -> u64 {
        self.blobs().map(|blob| u64::from(blob.raw_len)).sum()
    }

    pub(crate) fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.segments.iter().flat_map(|segment| [&segment.tree, &segment.table])
    }
}

fn read_blob(packs: &[PackId], reader: &mut Reader<'_>) -> Result<Blob> {
    let id = ChunkId::from_bytes(reader.array()?);
    let pack = packs[pack_at(packs, reader)?];
    let offset = reader.varint()?;
    let stored_len = reader.bounded(u32::MAX.into(), "a stored length")? as u32;
    let raw_len = reader.bounded(u32::MAX.into(), "a length")? as u32;
    let blob = Blob { id, pack, offset, stored_len, raw_len, codec: Codec::from_byte(reader.u8()?)? };
    blob.check()?;
    Ok(blob)
}
