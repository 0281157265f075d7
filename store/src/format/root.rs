//! The root of a snapshot's metadata: its tree and table segments, and where they lie.

use super::{
    FormatError, Result,
    bytes::{Put, Reader},
    pack::MAX_RAW_LEN,
    table::{pack_at, put_packs, read_packs},
};
use crate::id::{ChunkId, PackId};

pub const PREFIX: &[u8] = b"pstore/root/1\n";

/// A metadata blob in a meta pack, stored as one zstd frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    pub id: ChunkId,
    pub pack: PackId,
    pub offset: u64,
    pub stored_len: u32,
    pub raw_len: u32,
}

/// A tree segment with the table of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    pub tree: Blob,
    pub table: Blob,
    /// How many chunks the tree segment names.
    pub chunks: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub segments: Vec<SegmentRef>,
}

impl Root {
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
            }
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        reader.expect(PREFIX, "a snapshot's root")?;
        let packs = read_packs(&mut reader)?;
        let count = reader.count(73, "segments")?;
        let segments = (0..count)
            .map(|_| {
                let chunks = reader.bounded(u32::MAX.into(), "a number of chunks")? as u32;
                let tree = read_blob(&packs, &mut reader)?;
                let table = read_blob(&packs, &mut reader)?;
                Ok(SegmentRef { tree, table, chunks })
            })
            .collect::<Result<_>>()?;
        reader.finish()?;
        Ok(Self { segments })
    }

    pub fn blobs(&self) -> impl Iterator<Item = &Blob> {
        self.segments.iter().flat_map(|segment| [&segment.tree, &segment.table])
    }
}

fn read_blob(packs: &[PackId], reader: &mut Reader<'_>) -> Result<Blob> {
    let id = ChunkId::from_bytes(reader.array()?);
    let pack = pack_at(packs, reader)?;
    let offset = reader.bounded(1 << 48, "an offset")?;
    let stored_len = reader.bounded((MAX_RAW_LEN + MAX_RAW_LEN / 64).into(), "a stored length")? as u32;
    let raw_len = reader.bounded(MAX_RAW_LEN.into(), "a length")? as u32;
    if raw_len == 0 {
        return Err(FormatError::malformed("an empty segment"));
    }
    Ok(Blob { id, pack, offset, stored_len, raw_len })
}
