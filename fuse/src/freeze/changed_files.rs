//! `ChangedFiles` feeds the files of a frozen tree to the chunk pipeline.

use std::{ops::Range, os::unix::fs::FileExt, sync::Arc};

use store::{
    Error, Result,
    content::{
        ingest::{Cutter, Files},
        rechunk::{Before, RechunkSource, recut},
    },
};
use tokio::runtime::Handle;

use crate::{
    fs::Fs,
    lower::{ChunkLookup, Content, Piece},
    overlay::node::{FileNode, Ino, Segment},
};

/// Files as they were when the epoch ended. Nothing that they consist of changes any more.
#[derive(Debug)]
pub struct ChangedFiles {
    fs: Arc<Fs>,
    files: Vec<(Ino, FileNode)>,
    /// Where the bytes of each are, if that is not where its changes say.
    contents: Option<Vec<FileNode>>,
    runtime: Handle,
}

impl ChangedFiles {
    pub fn new(fs: Arc<Fs>, files: Vec<(Ino, FileNode)>, runtime: Handle) -> Self {
        Self { fs, files, contents: None, runtime }
    }

    /// Files whose bytes are read by `contents`, which has the same ones.
    pub fn read_from(
        fs: Arc<Fs>,
        files: Vec<(Ino, FileNode)>,
        contents: Vec<FileNode>,
        runtime: Handle,
    ) -> Self {
        Self { contents: Some(contents), ..Self::new(fs, files, runtime) }
    }

    pub fn numbers(&self) -> impl Iterator<Item = Ino> {
        self.files.iter().map(|(ino, _)| *ino)
    }

    pub fn size(&self, at: usize) -> u64 {
        self.files[at].1.size
    }

    /// How many bytes of the file at this place are still those of the snapshot.
    pub fn far_bytes(&self, at: usize) -> u64 {
        let (_, file) = &self.files[at];
        let segments = file.segments(0..file.size);
        let below = segments.iter().filter(|(_, segment)| *segment == Segment::Lower);
        below.map(|(range, _)| range.end - range.start).sum()
    }

    /// Where its bytes are.
    fn content(&self, at: usize) -> &FileNode {
        self.contents.as_ref().map_or(&self.files[at].1, |contents| &contents[at])
    }

    /// Reads what is at `offset` of the file at this place, as long as `into`. Blocks.
    pub fn read_at(&self, at: usize, offset: u64, into: &mut [u8]) -> Result<()> {
        let ino = &self.files[at].0;
        let file = self.content(at);
        let range = offset..offset + into.len() as u64;
        into.fill(0);
        let mut pieces: Vec<Piece> = Vec::new();
        let mut places = Vec::new();
        let place = |range: &Range<u64>| (range.start - offset) as usize..(range.end - offset) as usize;
        for (range, segment) in file.segments(range) {
            match segment {
                Segment::Zeros => {}
                Segment::Upper { generation } => {
                    let upper = &self.fs.upper;
                    let read = upper
                        .existing(*ino, generation)
                        .and_then(|data| data.read_exact_at(&mut into[place(&range)], range.start));
                    read.map_err(|error| Error::io("cannot read changes in", upper.folder(), error))?;
                }
                Segment::Lower => {
                    for part in file.lower.iter().flat_map(|lower| lower.within(range.clone())) {
                        let cut = part.start.max(range.start)..part.end.min(range.end);
                        let skip = (cut.start - part.start) as usize;
                        match &part.content {
                            Content::Hole => {}
                            Content::Inline(bytes) => {
                                let to = place(&cut);
                                into[to.clone()].copy_from_slice(&bytes[skip..skip + to.len()]);
                            }
                            Content::Chunk(piece) => {
                                places.push((place(&cut), skip));
                                pieces.push(*piece);
                            }
                        }
                    }
                }
            }
        }
        if pieces.is_empty() {
            return Ok(());
        }
        let lower = &self.fs.lower;
        let chunks = match lower.now(&pieces) {
            ChunkLookup::Here(chunks) => chunks?,
            ChunkLookup::Away(found) => self.runtime.block_on(lower.fetch(found))?,
        };
        for ((to, skip), chunk) in places.into_iter().zip(chunks) {
            let len = to.len();
            into[to].copy_from_slice(&chunk[skip..skip + len]);
        }
        Ok(())
    }
}

impl Files for ChangedFiles {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn read(&self, at: usize, cutter: &mut Cutter<'_>) -> Result<()> {
        let (_, file) = &self.files[at];
        let parts = file.lower.iter().flat_map(|lower| lower.parts());
        let before = parts.map(|part| Before { start: part.start, extent: part.extent() }).collect();
        // A hole is in whole blocks: of one whose parts came before and after a snapshot, that snapshot has less.
        let holes = self.content(at).holes();
        let changed = ChangedFile { files: self, at, file, holes, before };
        recut(&changed, cutter)
    }
}

struct ChangedFile<'a> {
    files: &'a ChangedFiles,
    at: usize,
    file: &'a FileNode,
    holes: Vec<Range<u64>>,
    before: Vec<Before>,
}

impl RechunkSource for ChangedFile<'_> {
    fn size(&self) -> u64 {
        self.file.size
    }

    fn holes(&self) -> &[Range<u64>] {
        &self.holes
    }

    fn before(&self) -> &[Before] {
        &self.before
    }

    fn is_unchanged(&self, range: Range<u64>) -> bool {
        range.end <= self.file.limit && self.file.spans.within(range).next().is_none()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.files.read_at(self.at, offset, into)
    }
}
