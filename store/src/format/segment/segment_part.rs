//! `SegmentPart` is one segment read without the others: its entries, and extents of files that it does not have whole.

use super::{MORE, note, read_entry, read_extents};
use crate::{
    format::{
        FormatError, Result, prefix,
        root::Span,
        tree::{Entry, Extent, Kind},
    },
    id::ChunkId,
};

/// One segment's part of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentPart {
    /// More extents of the file that the segments before ended with.
    pub continued: Vec<Extent>,
    /// The entries that begin in it, in order. The last may be a file that goes on in the next segment: then its
    /// extents cover less than its size.
    pub entries: Vec<Entry>,
    /// The part of the tree that it covers; its packs are not known here.
    pub span: Span,
}

impl SegmentPart {
    /// Decodes a segment. Whether its entries fit those of other segments is not known here.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut reader = prefix::strip(bytes, "tree")?;
        if reader.is_empty() {
            return Err(FormatError::malformed("a segment without items"));
        }
        let mut part = Self { continued: Vec::new(), entries: Vec::new(), span: Span::default() };
        let mut previous = Vec::new();
        while !reader.is_empty() {
            let tag = reader.u8()?;
            if tag != MORE {
                let (entry, _) = read_entry(tag, &mut reader, &mut previous)?;
                part.begin(entry)?;
                continue;
            }
            let extents = match part.entries.last_mut() {
                None => &mut part.continued,
                Some(Entry { kind: Kind::File { extents, .. }, .. }) => extents,
                Some(_) => return Err(FormatError::malformed("extents that belong to no file")),
            };
            if read_extents(&mut reader, extents)? == 0 {
                return Err(FormatError::malformed("an item without extents"));
            }
            part.span.continues |= part.entries.is_empty();
        }
        match part.entries.last() {
            Some(last) if covered(last) > last.size() => Err(too_long(last)),
            _ => Ok(part),
        }
    }

    /// The chunks that it names, in order, and how long each is.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = (ChunkId, u32)> + '_ {
        let continued = self.continued.iter().filter_map(|extent| match extent {
            Extent::Chunk { id, len } => Some((*id, *len)),
            Extent::Hole(_) | Extent::Inline(_) => None,
        });
        continued.chain(self.entries.iter().flat_map(Entry::chunks))
    }

    fn begin(&mut self, entry: Entry) -> Result<()> {
        if let Some(before) = self.entries.last() {
            if before.path >= entry.path {
                let reason = format!("{} does not come after {}", entry.path, before.path);
                return Err(FormatError::malformed(reason));
            }
            if covered(before) != before.size() {
                return Err(FormatError::malformed(format!("{} is not complete", before.path)));
            }
        }
        note(&mut self.span, &entry);
        self.entries.push(entry);
        Ok(())
    }
}

/// How many bytes the extents of an entry cover.
pub fn covered(entry: &Entry) -> u64 {
    match &entry.kind {
        Kind::File { extents, .. } => extents.iter().map(Extent::len).fold(0, u64::saturating_add),
        _ => 0,
    }
}

fn too_long(entry: &Entry) -> FormatError {
    FormatError::malformed(format!("{} has more bytes than its size", entry.path))
}
