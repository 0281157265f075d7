//! `copy_up` copies files into the overlay that the next snapshot does not hold: files that are open and removed,
//! and files whose names are never stored.
//!
//! The next snapshot does not have their bytes, and once it is the base nothing keeps the one
//! that has them. So they are copied into the overlay before, and stand on nothing any more.

use std::ops::Range;

use tokio::runtime::Handle;

use super::{Answer, Fs, Unanswered, answer};
use crate::{
    Errno, Result,
    lower::Content,
    overlay::{
        node::{FileNode, Ino, Segment},
        numbers::Numbers,
    },
};

/// So much is copied while changes are held up.
const AT_ONCE: u64 = 1 << 20;
/// A file of which more lies below is left as it is: a commit does not fetch, nor fill the
/// disk with, what hardly anybody will read again.
const MOST_BYTES: u64 = 256 << 20;

impl Fs {
    /// Takes into the overlay what the snapshot below has at paths that are never stored: the next one will not have it.
    pub fn hold_excluded(&self, runtime: &Handle) -> Result<()> {
        for excluded in &self.exclusions {
            let mut at = Some(Ino::ROOT);
            for name in excluded.split('/') {
                let Some(parent) = at else { break };
                let hold = || Ok(self.write_state().nodes.hold_named(parent, name.as_bytes())?);
                at = answer::wait(runtime, hold)?;
            }
        }
        Ok(())
    }

    /// Copies what files that the next snapshot, whose entries have these `numbers`, does not hold have of the snapshot
    /// below. One that is not copied can be read for as long as that snapshot is kept: no reason to fail a commit.
    pub fn copy_up_others(&self, numbers: &Numbers, runtime: &Handle) {
        let others: Vec<Ino> = {
            let state = self.read_state();
            let stands = |file: &FileNode| file.lower.is_some();
            let others = state.nodes.table.iter().filter(|(ino, _)| numbers.ordinal(*ino).is_none());
            others.filter(|(_, node)| node.file().is_some_and(stands)).map(|(ino, _)| ino).collect()
        };
        for ino in others {
            match self.copy_up(ino, runtime) {
                // Nobody has it open any more.
                Ok(()) | Err(Errno::STALE) => {}
                Err(errno) => tracing::warn!(%errno, "a file that is not stored could not be copied"),
            }
        }
    }

    fn copy_up(&self, ino: Ino, runtime: &Handle) -> Result<()> {
        let known = |file: Option<&FileNode>| file.map(below).ok_or(Errno::INVAL);
        let below = known(self.read_state().nodes.table.get(ino).ok_or(Errno::STALE)?.file())?;
        if below.iter().map(|range| range.end - range.start).sum::<u64>() > MOST_BYTES {
            return Err(Errno::FBIG);
        }
        for range in below {
            let bytes = self.read(ino, range.start, (range.end - range.start) as u32, runtime)?;
            // What was written meanwhile stays as it is.
            let _closed = self.gate.close();
            answer::wait(runtime, || self.put_below(ino, range.clone(), &bytes))?;
        }
        let _closed = self.gate.close();
        if let Some(file) = self.write_state().nodes.table.get_mut(ino).and_then(|node| node.file_mut()) {
            (file.lower, file.limit, file.limit_since_freeze) = (None, 0, 0);
        }
        Ok(())
    }

    /// Puts `bytes` where the file still has those of the snapshot. That is no change of it.
    fn put_below(&self, ino: Ino, range: Range<u64>, bytes: &[u8]) -> Answer<()> {
        let (segments, (mtime, ctime, changed)) = {
            let state = self.read_state();
            let node = state.node(ino)?;
            let segments = node.file().map(|file| file.segments(range.clone())).unwrap_or_default();
            (segments, (node.mtime, node.ctime, node.changed))
        };
        for (mut part, _) in segments.into_iter().filter(|(_, segment)| *segment == Segment::Lower) {
            while part.start < part.end {
                let rest = (part.start - range.start) as usize..(part.end - range.start) as usize;
                let rest = bytes.get(rest).ok_or(Unanswered::Refused(Errno::IO))?;
                part.start += self.put(ino, part.start, rest, mtime)? as u64;
            }
        }
        if let Some(node) = self.write_state().nodes.table.get_mut(ino) {
            (node.ctime, node.changed) = (ctime, changed);
        }
        Ok(())
    }
}

/// The parts of a file that lie in the snapshot and are not zeros, none larger than is copied
/// at once.
fn below(file: &FileNode) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    let segments = file.segments(0..file.size).into_iter();
    for (range, _) in segments.filter(|(_, segment)| *segment == Segment::Lower) {
        let parts = file.lower.iter().flat_map(|lower| lower.within(range.clone()));
        for part in parts.filter(|part| part.content != Content::Hole) {
            let (mut start, end) = (part.start.max(range.start), part.end.min(range.end));
            while start < end {
                match found.last_mut() {
                    Some(last) if last.end == start && last.end - last.start < AT_ONCE => {
                        last.end = end.min(last.start + AT_ONCE);
                        start = last.end;
                    }
                    _ => found.push(start..start),
                }
            }
        }
    }
    found
}
