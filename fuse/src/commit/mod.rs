//! What the overlay holds becomes the next snapshot, and the overlay is empty again.
//!
//! 1. [`Fs::close_when_quiet`], then [`Fs::freeze`]: at a moment when no file is open for writing
//!    changes are held up, for as long as it takes to write down which epoch ends here and to
//!    list the tree. What was written in that epoch is never overwritten, so the rest goes on
//!    beside new changes.
//! 2. The changed parts are cut and stored, the record published, the pointer moved.
//! 3. [`Fs::rebase`]: the new snapshot is the one below, and what it holds leaves the overlay.
//!
//! If anything fails before 3, nothing has left the overlay.

mod files;
pub mod look;

use std::sync::{Arc, atomic::Ordering};

use store::{
    Error, Result,
    format::{table::Location, tree::Entry},
    id::RecordId,
    ops::commit::Tree,
};

pub use files::ChangedFiles;

use crate::{
    Errno,
    fs::{Fs, gate::Closed},
    lower::LowerFile,
    overlay::{
        change::Change,
        checkpoint::Below,
        collect::Collected,
        node::{FileNode, Ino, NodeKind},
        recovery::Intent,
        session::SessionDir,
        spans::Bytes,
    },
};

/// The tree as it was at the end of an epoch.
#[derive(Debug)]
pub struct Frozen {
    pub epoch: u64,
    pub tree: Tree,
    /// The number of each entry's node.
    pub numbers: Vec<Ino>,
    pub files: Arc<ChangedFiles>,
    /// The files that are as in the snapshot below.
    pub others: ChangedFiles,
    /// While this exists, no data file is removed.
    _reading: Reading,
}

#[derive(Debug)]
struct Reading(Arc<Fs>);

impl Reading {
    fn begin(fs: &Arc<Fs>) -> Self {
        fs.commits.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(fs))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.commits.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Fs {
    /// Ends the epoch, while changes are held up.
    pub fn freeze(self: &Arc<Self>, _: &Closed<'_>, runtime: &tokio::runtime::Handle) -> Result<Frozen> {
        let reading = Reading::begin(self);
        let mut state = self.write_state();
        let epoch = state.table.epoch;
        let collected = Collected::of(&state.table, &self.exclusions)
            .map_err(|error| Error::InvalidInput { what: format!("the tree cannot be stored: {error}") })?;
        state.make(&Change::Epoch { epoch: epoch + 1 }).map_err(unwritten)?;
        drop(state);
        let Collected { entries, numbers, changed, others, skipped, bytes } = collected;
        let places = changed.iter().map(|(at, _)| *at).collect();
        let files = |of: Vec<(usize, FileNode)>| {
            let numbered = of.into_iter().map(|(at, file)| (numbers[at], file)).collect();
            ChangedFiles::new(Arc::clone(self), numbered, runtime.clone())
        };
        let (files, others) = (Arc::new(files(changed)), files(others));
        let tree = Tree { entries, changed: places, skipped, bytes };
        Ok(Frozen { epoch, tree, numbers, files, others, _reading: reading })
    }

    /// Writes down, durably, that `record` is about to become the snapshot of what was written
    /// up to `epoch`: whoever resumes after a crash then finds out whether it did.
    pub fn intend(&self, record: RecordId, epoch: u64) -> Result<()> {
        let mut state = self.write_state();
        state.make(&Change::Intent { record: record.to_bytes(), epoch }).map_err(unwritten)?;
        state.intent = Some(Intent { record, epoch });
        drop(state);
        self.sync_journal().map_err(unwritten)
    }

    /// The commit that is under way, or was when the session ended.
    pub fn intent(&self) -> Option<Intent> {
        self.read_state().intent
    }

    /// The commit that was meant has failed, and will not come true later.
    pub fn give_up_intent(&self) -> Result<()> {
        let mut state = self.write_state();
        if state.intent.take().is_some() {
            state.make(&Change::NoIntent).map_err(unwritten)?;
        }
        Ok(())
    }

    /// Makes the snapshot of what was written up to `epoch` the one below. `numbers` are those
    /// of its entries.
    pub fn rebase(
        &self,
        session: &SessionDir,
        epoch: u64,
        numbers: Vec<Ino>,
        below: Below,
        entries: &[Entry],
        locations: &[Location],
    ) -> Result<()> {
        let _closed = self.gate.close();
        let mut state = self.write_state();
        let mut locations = locations.iter().copied();
        let mut doomed = Vec::new();
        for (entry, ino) in entries.iter().zip(&numbers) {
            let lower = LowerFile::of(entry, &mut locations);
            let Some(node) = state.table.get_mut(*ino) else { continue };
            let (NodeKind::File(file), Some(lower)) = (&mut node.kind, lower) else { continue };
            let held: Vec<u32> = generations(file.spans.iter());
            file.spans.forget_through(epoch);
            file.limit = file.limit_since_freeze.min(lower.size());
            file.lower = Some(Arc::new(lower));
            let kept = generations(file.spans.iter());
            doomed.extend(held.iter().filter(|held| !kept.contains(held)).map(|held| (*ino, *held)));
            // A data file that is about to go takes no more bytes.
            file.stale |= !held.is_empty() && !kept.contains(&file.generation);
        }
        for (_, node) in state.table.iter_mut().filter(|(_, node)| node.changed <= epoch) {
            node.changed = 0;
        }
        let highest = numbers.iter().max().copied().unwrap_or(Ino::ROOT);
        state.table.set_next_ino(Ino(highest.0 + 1));
        (state.below, state.numbers, state.intent) = (Some(below), numbers, None);
        drop(state);
        self.rewrite_journal(session).map_err(unwritten)?;
        // Open files may still be read from them; they go when the journal is flushed next and
        // nobody reads.
        self.doom(doomed);
        Ok(())
    }
}

fn generations(spans: impl Iterator<Item = (std::ops::Range<u64>, Bytes, u64)>) -> Vec<u32> {
    let mut found: Vec<u32> = spans
        .filter_map(|(_, bytes, _)| match bytes {
            Bytes::Data { generation } => Some(generation),
            Bytes::Zeros => None,
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn unwritten(errno: Errno) -> Error {
    Error::Io { action: "cannot write", path: "the session's journal".into(), source: errno.into() }
}
