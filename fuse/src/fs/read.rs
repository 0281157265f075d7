//! `read` finds out where the bytes of a range are, and then reads them.

use std::{fs::File, ops::Range, os::unix::fs::FileExt, sync::Arc};

use super::{Answer, Fs, State, answer, errno, handles::What};
use crate::{
    Errno, Result,
    lower::{Chunk, ChunkLookup, Content, FoundChunks, Lower, Piece},
    overlay::node::{Ino, Segment},
};

/// How many files are looked at to find those that will be read next.
const MOST_FILES: usize = 256;

/// Where the bytes of a read are. It stays right whatever happens to the file meanwhile: a
/// data file is removed only when nobody has the file open.
#[derive(Debug)]
pub struct Plan {
    len: usize,
    /// In order; between them are zeros.
    sources: Vec<(Range<usize>, Source)>,
    pieces: Vec<Piece>,
}

/// A read that waits for nothing: done, or with what it has found so far.
#[derive(Debug)]
pub enum Reading {
    Done(Result<Vec<u8>>),
    Waiting(FoundChunks),
}

/// What has some of the bytes, and from where on.
#[derive(Debug)]
enum Source {
    Upper {
        data: Arc<File>,
        offset: u64,
    },
    Inline {
        bytes: Arc<[u8]>,
        skip: usize,
    },
    /// The chunk of the piece with this number.
    Chunk {
        at: usize,
        skip: usize,
    },
}

impl Fs {
    /// Finds out where the bytes are; asks ahead for what a sequential reader wants next.
    pub fn plan(&self, ino: Ino, handle: Option<u64>, offset: u64, len: u32) -> Answer<Plan> {
        let state = self.read_state();
        let node = state.node(ino)?;
        let file = node.file().ok_or(Errno::INVAL)?;
        let end = offset.saturating_add(len.into()).min(file.size);
        let start = offset.min(end);
        let mut plan = Plan { len: (end - start) as usize, sources: Vec::new(), pieces: Vec::new() };
        let place = |range: &Range<u64>| (range.start - start) as usize..(range.end - start) as usize;
        for (range, segment) in file.segments(start..end) {
            match segment {
                Segment::Zeros => {}
                Segment::Upper { generation } => {
                    let data = self.upper.existing(ino, generation).map_err(errno)?;
                    plan.sources.push((place(&range), Source::Upper { data, offset: range.start }));
                }
                Segment::Lower => {
                    for part in file.lower.iter().flat_map(|lower| lower.within(range.clone())) {
                        let cut = part.start.max(range.start)..part.end.min(range.end);
                        let skip = (cut.start - part.start) as usize;
                        let source = match &part.content {
                            Content::Hole => continue,
                            Content::Inline(bytes) => Source::Inline { bytes: Arc::clone(bytes), skip },
                            Content::Chunk(piece) => {
                                plan.pieces.push(*piece);
                                Source::Chunk { at: plan.pieces.len() - 1, skip }
                            }
                        };
                        plan.sources.push((place(&cut), source));
                    }
                }
            }
        }
        if offset == 0 && handle.is_some() {
            self.prepare_after(&state, ino);
        }
        let ahead = self.ahead(handle, offset, len, file.size);
        if let (Some(ahead), Some(lower)) = (ahead, &file.lower) {
            let limit = file.limit;
            let wanted: Vec<Piece> = lower.pieces(ahead.start..ahead.end.min(limit)).collect();
            if !wanted.is_empty() {
                self.lower.prefetch(wanted);
            }
        }
        Ok(plan)
    }

    /// Has the files prepared that follow `ino`, if somebody reads file after file.
    fn prepare_after(&self, state: &State, ino: Ino) {
        let mut scan = self.scan.lock();
        let Some((from, mut room)) = scan.next(ino) else { return };
        let mut pieces = Vec::new();
        for number in (from.0..).take(MOST_FILES) {
            let Some(Some(node)) = answer::known(state.nodes.node(Ino(number))) else { break };
            let Some(lower) = node.file().and_then(|file| file.lower.as_ref()) else { continue };
            let size = lower.size();
            if size > room {
                break;
            }
            room -= size;
            scan.named(Ino(number), size);
            pieces.extend(lower.pieces(0..size));
        }
        drop(scan);
        if !pieces.is_empty() {
            self.lower.prepare(pieces);
        }
    }

    fn ahead(&self, handle: Option<u64>, offset: u64, len: u32, size: u64) -> Option<Range<u64>> {
        let handle = self.handles.get(handle?)?;
        let What::File { read_ahead } = &handle.what else { return None };
        read_ahead.lock().next(offset, len, size)
    }

    /// Reads at once, if nothing far away is needed.
    pub fn read_now(&self, plan: &Plan) -> Reading {
        plan.now(&*self.lower)
    }

    /// Reads the rest, whatever that takes.
    pub async fn read_later(&self, plan: Plan, found: FoundChunks) -> Result<Vec<u8>> {
        plan.later(&*self.lower, found).await
    }

    /// Reads, waiting for whatever is needed: for threads that may wait.
    pub fn read(&self, ino: Ino, offset: u64, len: u32, runtime: &tokio::runtime::Handle) -> Result<Vec<u8>> {
        let plan = answer::wait(runtime, || self.plan(ino, None, offset, len))?;
        match self.read_now(&plan) {
            Reading::Done(read) => read,
            Reading::Waiting(found) => runtime.block_on(self.read_later(plan, found)),
        }
    }
}

impl Plan {
    pub fn now(&self, lower: &dyn Lower) -> Reading {
        let found =
            if self.pieces.is_empty() { ChunkLookup::Here(Ok(Vec::new())) } else { lower.now(&self.pieces) };
        match found {
            ChunkLookup::Here(chunks) => Reading::Done(self.finish(chunks)),
            ChunkLookup::Away(found) => Reading::Waiting(found),
        }
    }

    pub async fn later(self, lower: &dyn Lower, found: FoundChunks) -> Result<Vec<u8>> {
        let chunks = lower.fetch(found).await;
        self.finish(chunks)
    }

    fn finish(&self, chunks: store::Result<Vec<Chunk>>) -> Result<Vec<u8>> {
        let chunks = chunks.map_err(|error| {
            tracing::error!(%error, "a read failed");
            Errno::IO
        })?;
        // Appended, so that what is overwritten anyway is not zeroed first.
        let mut out = Vec::with_capacity(self.len);
        for (place, source) in &self.sources {
            out.resize(place.start, 0);
            let (bytes, skip) = match source {
                Source::Upper { data, offset } => {
                    out.resize(place.end, 0);
                    data.read_exact_at(&mut out[place.clone()], *offset).map_err(errno)?;
                    continue;
                }
                Source::Inline { bytes, skip } => (&bytes[..], *skip),
                Source::Chunk { at, skip } => (&chunks[*at][..], *skip),
            };
            out.extend_from_slice(bytes.get(skip..skip + place.len()).ok_or(Errno::IO)?);
        }
        out.resize(self.len, 0);
        Ok(out)
    }
}
