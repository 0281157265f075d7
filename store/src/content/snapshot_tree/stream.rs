//! `TreeStream` reads a whole tree in order, and checks that it is one: memory is bounded, however many entries it has.
//!
//! It holds a few megabytes of segments, the entries of one batch, and the paths of open directories. To check
//! that hard links lead to files, it reads the segments that have links first: then it knows which files
//! matter, and holds a digest for each of those alone.

use std::{collections::VecDeque, sync::Arc};

use super::{
    SnapshotTree,
    windows::{Fetched, Windows},
};
use crate::{
    Error, Result,
    content::{
        chunk::Piece,
        meta::{check_span, table_of},
        workers::blocking,
    },
    format::{
        segment::{SegmentPart, SegmentReader},
        table::Location,
        tree::{Entry, Extent, Kind, Linked},
    },
};

/// How much of a tree is decoded at a time: the raw bytes of its segments.
const BATCH_BYTES: u64 = 512 << 10;
/// The approximate memory of an entry without its path and extents, and of a chunk.
const ENTRY_BYTES: usize = 256;
const CHUNK_BYTES: usize = 128;

/// An entry with where its chunks lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedEntry {
    /// The entry, with all its extents.
    pub entry: Entry,
    /// Of its chunks, in order.
    pub locations: Vec<Location>,
}

impl LocatedEntry {
    /// Its chunks, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let chunks = self.entry.chunks().zip(&self.locations);
        chunks.map(|((id, raw_len), location)| Piece { id, raw_len, location: *location })
    }

    /// How much memory it takes, about.
    pub fn memory_bytes(&self) -> usize {
        let Entry { path, meta, kind } = &self.entry;
        let content = match kind {
            Kind::File { extents, .. } => extents.iter().map(inline_bytes).sum(),
            Kind::Symlink { target } => target.len(),
            _ => 0,
        };
        let xattrs: usize = meta.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
        ENTRY_BYTES + path.as_bytes().len() + content + xattrs + self.locations.len() * CHUNK_BYTES
    }
}

fn inline_bytes(extent: &Extent) -> usize {
    match extent {
        Extent::Inline(bytes) => bytes.len(),
        _ => 0,
    }
}

/// All entries of a tree, in order.
#[derive(Debug)]
pub struct TreeStream {
    tree: Arc<SnapshotTree>,
    windows: Windows,
    /// Segments that were fetched and are not decoded yet.
    waiting: VecDeque<Fetched>,
    decoder: Option<Decoder>,
    linked: Arc<Linked>,
}

impl TreeStream {
    /// Starts at the root of a tree. Its segments with hard links are read.
    pub async fn new(tree: Arc<SnapshotTree>) -> Result<Self> {
        let linked = Arc::new(linked(&tree).await?);
        let segments = (0..tree.root().segments.len()).collect();
        let reader = SegmentReader::knowing(Arc::clone(&linked));
        Ok(Self { linked, ..Self::with(tree, segments, reader) })
    }

    /// Some segments of a tree, in order. A file that begins or ends in one of them does so in another of them, too.
    /// Whether the whole is a tree is not checked.
    pub fn over(tree: Arc<SnapshotTree>, segments: Vec<usize>) -> Self {
        Self::with(tree, segments, SegmentReader::of_parts())
    }

    fn with(tree: Arc<SnapshotTree>, segments: Vec<usize>, reader: SegmentReader) -> Self {
        let windows = Windows::new(&tree, segments.into_iter());
        let decoder = Some(Decoder { reader, locations: VecDeque::new() });
        Self { tree, windows, waiting: VecDeque::new(), decoder, linked: Arc::default() }
    }

    /// The next entries, as many as take about so much memory; `None` after the last one.
    pub async fn next_within(&mut self, memory_bytes: usize) -> Result<Option<Vec<LocatedEntry>>> {
        let (mut found, mut bytes) = (Vec::new(), 0);
        while bytes < memory_bytes
            && let Some(more) = self.next().await?
        {
            bytes += more.iter().map(LocatedEntry::memory_bytes).sum::<usize>();
            found.extend(more);
        }
        Ok((!found.is_empty()).then_some(found))
    }

    /// The next entries; `None` after the last one. After an error there are no more.
    pub async fn next(&mut self) -> Result<Option<Vec<LocatedEntry>>> {
        while let Some(mut decoder) = self.decoder.take() {
            let batch = self.batch().await?;
            if batch.is_empty() {
                decoder.finish()?;
                break;
            }
            let tree = Arc::clone(&self.tree);
            let (decoder, entries) = blocking(move || {
                let entries = decoder.read(&tree, batch)?;
                Ok((decoder, entries))
            })
            .await?;
            self.decoder = Some(decoder);
            if !entries.is_empty() {
                return Ok(Some(entries));
            }
        }
        Ok(None)
    }

    /// The files that hard links lead to.
    pub(crate) fn linked(&self) -> Arc<Linked> {
        Arc::clone(&self.linked)
    }

    /// Some segments; none at the end.
    async fn batch(&mut self) -> Result<Vec<Fetched>> {
        if self.waiting.is_empty() {
            self.waiting.extend(self.windows.next().await?.unwrap_or_default());
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < BATCH_BYTES
            && let Some(next) = self.waiting.pop_front()
        {
            bytes += u64::from(self.tree.root().segments[next.at].tree.raw_len);
            batch.push(next);
        }
        Ok(batch)
    }
}

/// The files that hard links of a tree lead to.
async fn linked(tree: &Arc<SnapshotTree>) -> Result<Linked> {
    let has_links = |at: &usize| {
        let span = tree.root().segments[*at].span.as_ref();
        span.is_none_or(|span| span.links > 0)
    };
    let mut linked = Linked::default();
    let mut windows = Windows::new(tree, (0..tree.root().segments.len()).filter(has_links));
    while let Some(window) = windows.next().await? {
        let tree = Arc::clone(tree);
        linked = blocking(move || {
            for fetched in window {
                let segment = &tree.root().segments[fetched.at];
                let (bytes, _) = fetched.verified(tree.segments.store().key(), segment)?;
                let part = SegmentPart::read(&bytes)
                    .map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
                for entry in &part.entries {
                    if let Kind::HardLink { target } = &entry.kind {
                        linked.add(target);
                    }
                }
            }
            Ok(linked)
        })
        .await?;
    }
    Ok(linked)
}

/// Decodes segments one after another.
#[derive(Debug)]
struct Decoder {
    reader: SegmentReader,
    /// Of the chunks of the entry that is not complete yet.
    locations: VecDeque<Location>,
}

impl Decoder {
    /// The entries that are complete with these segments.
    fn read(&mut self, tree: &SnapshotTree, batch: Vec<Fetched>) -> Result<Vec<LocatedEntry>> {
        let mut found = Vec::new();
        for fetched in batch {
            let segment = &tree.root().segments[fetched.at];
            let (bytes, table) = fetched.verified(tree.segments.store().key(), segment)?;
            let mut entries = Vec::new();
            let span = self
                .reader
                .read(&bytes, |entry| entries.push(entry))
                .map_err(|error| error.of(format!("tree segment {}", segment.tree.id)))?;
            check_span(segment, &span)?;
            self.locations.extend(table_of(segment, &table)?);
            for entry in entries {
                let chunks = entry.chunks().count();
                if self.locations.len() < chunks {
                    let reason = format!("{chunks} chunks of {}, but fewer locations", entry.path);
                    return Err(Error::damaged(format!("table segment {}", segment.table.id), reason));
                }
                found.push(LocatedEntry { entry, locations: self.locations.drain(..chunks).collect() });
            }
        }
        Ok(found)
    }

    fn finish(self) -> Result<()> {
        self.reader.finish().map_err(|error| error.of("the snapshot's tree"))?;
        match self.locations.len() {
            0 => Ok(()),
            more => {
                Err(Error::damaged("the snapshot's table", format!("{more} locations that are of no chunk")))
            }
        }
    }
}
