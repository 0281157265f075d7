//! Cuts a file of which a part has changed, and looks at nothing but that part.
//!
//! Where a chunk ends depends on its bytes alone, from where it starts. So the old cuts
//! stay right up to the chunk in which the first change lies, and are right again
//! from where a new cut meets an old one. The result is the same as if the whole file had
//! been cut.

use std::ops::Range;

use super::ingest::Cutter;
use crate::{Result, format::tree::Extent};

/// A file, with its extents before it changed.
pub trait RechunkSource {
    /// How many bytes the file has now.
    fn size(&self) -> u64;

    /// Runs of zeros that take no space, in order.
    fn holes(&self) -> &[Range<u64>];

    /// The extents it was stored as, in order, from its start.
    fn before(&self) -> &[Before];

    /// Whether these bytes have not changed.
    fn is_unchanged(&self, range: Range<u64>) -> bool;

    /// The bytes it has now.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()>;
}

/// A part of a file as it was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    /// Where in the file it was.
    pub start: u64,
    /// The extent that was stored there.
    pub extent: Extent,
}

impl Before {
    fn end(&self) -> u64 {
        self.start + self.extent.len()
    }
}

/// Cuts the file as a whole would be cut, with the extents it had where nothing has changed.
pub fn recut(file: &dyn RechunkSource, cutter: &mut Cutter<'_>) -> Result<()> {
    let size = file.size();
    if file.holes().is_empty() && size <= cutter.inline_bytes() {
        let mut bytes = vec![0; size as usize];
        file.read(0, &mut bytes)?;
        let taken = cutter.read_from(&mut &bytes[..], size);
        return taken.map(drop).map_err(|fault| fault.at("cannot read", "memory"));
    }
    let mut at = 0;
    for hole in file.holes() {
        run(file, cutter, at..hole.start)?;
        cutter.hole(hole.end - hole.start)?;
        at = hole.end;
    }
    run(file, cutter, at..size)
}

/// Cuts a run of data.
fn run(file: &dyn RechunkSource, cutter: &mut Cutter<'_>, run: Range<u64>) -> Result<()> {
    let chunker = cutter.chunker();
    // Bytes that were read and not cut yet, from `at` on.
    let mut ahead: Vec<u8> = Vec::new();
    let mut at = run.start;
    while at < run.end {
        if let Some((extent, end)) = kept(file, at, run.end) {
            cutter.keep(extent);
            let len = usize::try_from(end - at).unwrap_or(usize::MAX);
            ahead.drain(..len.min(ahead.len()));
            at = end;
            continue;
        }
        let want = (chunker.max() as u64).min(run.end - at) as usize;
        let have = ahead.len();
        if have < want {
            ahead.resize(want, 0);
            file.read(at + have as u64, &mut ahead[have..])?;
        }
        let len = chunker.cut(&ahead);
        cutter.chunk(&ahead[..len])?;
        ahead.drain(..len);
        at += len as u64;
    }
    Ok(())
}

/// The chunk that was cut at `at` before, if it would be cut so again: its bytes are the
/// same, and it ended where it did because of them and not because the data did.
fn kept(file: &dyn RechunkSource, at: u64, end: u64) -> Option<(Extent, u64)> {
    let before = file.before();
    let place = before.binary_search_by_key(&at, |part| part.start).ok()?;
    let part = &before[place];
    if !matches!(part.extent, Extent::Chunk { .. }) || part.end() > end {
        return None;
    }
    let ended_run = before.get(place + 1).is_none_or(|next| matches!(next.extent, Extent::Hole(_)));
    if ended_run && part.end() != end || !file.is_unchanged(at..part.end()) {
        return None;
    }
    Some((part.extent.clone(), part.end()))
}
