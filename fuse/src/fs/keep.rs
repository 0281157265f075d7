//! Files that are open and no longer in the tree when the snapshot below becomes another.
//!
//! The next snapshot does not have their bytes, and once it is the base nothing keeps the one
//! that has them. So they are copied into the overlay before.

use std::{collections::HashSet, ops::Range};

use tokio::runtime::Handle;

use super::Fs;
use crate::{
    Errno, Result,
    lower::Content,
    overlay::node::{FileNode, Ino, Segment},
};

/// So much is copied while changes are held up.
const AT_ONCE: u64 = 1 << 20;

impl Fs {
    /// Copies what files that are not among `tree` have of the snapshot below. One that cannot be
    /// copied can still be read for as long as that snapshot is kept: no reason to fail a commit.
    pub fn keep_others(&self, tree: &[Ino], runtime: &Handle) {
        let tree: HashSet<Ino> = tree.iter().copied().collect();
        let is_other = |ino: &Ino| !tree.contains(ino);
        let others: Vec<Ino> = self.read_state().table.iter().map(|(ino, _)| ino).filter(is_other).collect();
        for ino in others {
            match self.copy_up(ino, runtime) {
                // Nobody has it open any more.
                Ok(()) | Err(Errno::STALE) => {}
                Err(errno) => tracing::warn!(%errno, "an open file that was removed could not be copied"),
            }
        }
    }

    fn copy_up(&self, ino: Ino, runtime: &Handle) -> Result<()> {
        let mut at = 0;
        loop {
            let next = self.read_state().node(ino)?.file().and_then(|file| next(file, at));
            let Some(range) = next else { return Ok(()) };
            at = range.end;
            let bytes = self.read(ino, range.start, (range.end - range.start) as u32, runtime)?;
            // What was written meanwhile stays as it is.
            let _closed = self.gate.close();
            let (below, mtime) = {
                let state = self.read_state();
                let node = state.node(ino)?;
                let segments = node.file().map(|file| file.segments(range.clone())).unwrap_or_default();
                (segments.into_iter().filter(|(_, segment)| *segment == Segment::Lower), node.mtime)
            };
            for (mut part, _) in below {
                while part.start < part.end {
                    let rest = (part.start - range.start) as usize..(part.end - range.start) as usize;
                    let rest = bytes.get(rest).ok_or(Errno::IO)?;
                    part.start += self.put(ino, part.start, rest, mtime)? as u64;
                }
            }
        }
    }
}

/// The next bytes from `at` on that lie in chunks of the snapshot.
fn next(file: &FileNode, at: u64) -> Option<Range<u64>> {
    let lower = file.lower.as_ref()?;
    let below = file.segments(at..file.size).into_iter().filter(|(_, segment)| *segment == Segment::Lower);
    below
        .flat_map(|(range, _)| lower.within(range.clone()).map(move |part| (range.clone(), part)))
        .filter(|(_, part)| matches!(part.content, Content::Chunk(_)))
        .map(|(range, part)| part.start.max(range.start)..part.end.min(range.end))
        .find(|range| !range.is_empty())
        .map(|range| range.start..range.end.min(range.start + AT_ONCE))
}
