//! `Root` lists a snapshot's tree and table segments: where they lie, and which part of the tree each covers.

mod span;
#[cfg(test)]
mod tests;

use span::SpanReader;
pub use span::{PackBytes, Span, packs_of};

use std::collections::HashSet;

use super::{
    FormatError, Result,
    bytes::{Put, Reader},
    frame::Codec,
    pack::{MAX_RAW_LEN, check_place},
    prefix,
    table::{pack_at, put_packs, read_packs},
    tree_limits::{MAX_CHUNKS, MAX_CONTENT_BYTES, MAX_ENTRIES, MAX_METADATA_BYTES},
};
use crate::id::{ChunkId, PackId};

/// The first bytes of a root whose segments have no spans.
pub const PREFIX: &[u8] = b"pstore/root/1\n";
/// The first bytes of a root whose segments have spans.
pub const SPANNED_PREFIX: &[u8] = b"pstore/root/2\n";
/// The latest version of a root.
const SPANNED: u64 = 2;
/// The fewest bytes that a segment takes in a root.
const MIN_SEGMENT_LEN: usize = 75;

/// A metadata blob in a meta pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The id of the blob.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentRef {
    /// The piece of the tree.
    pub tree: Blob,
    /// The locations of that piece's chunks.
    pub table: Blob,
    /// How many chunks the tree segment names.
    pub chunks: u32,
    /// The part of the tree that it covers. A root of version 1 does not say.
    pub span: Option<Span>,
}

/// The list of a snapshot's segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// The segments, in the order of the tree.
    pub segments: Vec<SegmentRef>,
}

impl Root {
    /// The bytes of the root: of version 2 if every segment has a span, else of version 1.
    pub fn encode(&self) -> Vec<u8> {
        let spanned = self.is_spanned();
        let mut packs: Vec<PackId> = self.packs(spanned).collect();
        packs.sort_unstable();
        packs.dedup();
        // Every pack was collected above.
        let place = |pack: &PackId| packs.binary_search(pack).unwrap_or_default() as u64;
        let mut out = if spanned { SPANNED_PREFIX } else { PREFIX }.to_vec();
        put_packs(&mut out, &packs);
        out.put_varint(self.segments.len() as u64);
        let mut before: &[u8] = &[];
        for segment in &self.segments {
            out.put_varint(segment.chunks.into());
            for blob in [&segment.tree, &segment.table] {
                out.extend_from_slice(blob.id.as_bytes());
                out.put_varint(place(&blob.pack));
                out.put_varint(blob.offset);
                out.put_varint(blob.stored_len.into());
                out.put_varint(blob.raw_len.into());
                out.push(blob.codec.to_u8());
            }
            if let Some(span) = segment.span.as_ref().filter(|_| spanned) {
                span.put(&mut out, &mut before, place);
            }
        }
        out
    }

    /// Reads a root. Refuses one that is malformed or has no segment.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (version, mut reader) = prefix::versioned(bytes, "root", SPANNED)?;
        let packs = read_packs(&mut reader)?;
        let count = reader.count(MIN_SEGMENT_LEN, "segments")?;
        if count == 0 {
            return Err(FormatError::malformed("a root without segments"));
        }
        if !packs.is_sorted_by(|a, b| a < b) {
            return Err(FormatError::malformed("packs that are not sorted, or twice in the list"));
        }
        let mut spans = SpanReader::default();
        let mut segments: Vec<SegmentRef> = Vec::with_capacity(count);
        for _ in 0..count {
            let chunks = reader.bounded(u32::MAX.into(), "a number of chunks")? as u32;
            let tree = read_blob(&packs, &mut reader)?;
            let table = read_blob(&packs, &mut reader)?;
            let span = match version {
                SPANNED => Some(spans.read(&mut reader, &packs, tree.raw_len)?),
                _ => None,
            };
            if span.as_ref().is_some_and(|span| span.packs.is_empty() != (chunks == 0)) {
                return Err(FormatError::malformed("a segment with chunks and no packs, or the reverse"));
            }
            segments.push(SegmentRef { tree, table, chunks, span });
        }
        reader.finish()?;
        let root = Self { segments };
        root.check()?;
        let used: HashSet<PackId> = root.packs(true).collect();
        if used.len() != packs.len() {
            return Err(FormatError::malformed("a pack in the list that holds no segment and no chunk"));
        }
        Ok(root)
    }

    /// Whether it says of every segment which part of the tree that covers.
    pub fn is_spanned(&self) -> bool {
        self.segments.iter().all(|segment| segment.span.is_some())
    }

    /// Whether it is no larger than a reader accepts: known before any segment is read.
    pub fn check(&self) -> Result<()> {
        let spans = || self.segments.iter().filter_map(|segment| segment.span.as_ref());
        let sum = |of: fn(&Span) -> u64| spans().map(of).fold(0, u64::saturating_add);
        let chunks: u64 = self.segments.iter().map(|segment| u64::from(segment.chunks)).sum();
        for (found, most, what) in [
            (self.metadata_bytes(), MAX_METADATA_BYTES, "bytes of metadata"),
            (chunks, MAX_CHUNKS, "chunks"),
            (sum(|span| span.entries), MAX_ENTRIES, "entries"),
            (sum(|span| span.content_bytes), MAX_CONTENT_BYTES, "bytes of files"),
        ] {
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

    /// The packs of all blobs and, if `spanned`, of all chunks, some of them often.
    fn packs(&self, spanned: bool) -> impl Iterator<Item = PackId> + '_ {
        let spans = self.segments.iter().filter_map(move |segment| segment.span.as_ref().filter(|_| spanned));
        let of_chunks = spans.flat_map(|span| span.packs.iter().map(|used| used.pack));
        self.blobs().map(|blob| blob.pack).chain(of_chunks)
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
