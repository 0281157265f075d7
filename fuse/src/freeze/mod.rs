//! `freeze` takes the tree that a commit stores, and empties the overlay when it is stored.
//!
//! `mount/commit.rs` stores the tree in between:
//!
//! 1. [`Fs::close_when_quiet`], then [`Fs::freeze`]: at a moment when no file is open for writing
//!    changes are held up, for as long as it takes to write down which epoch ends here and to
//!    list the tree. What was written in that epoch is never overwritten, so the rest goes on
//!    beside new changes.
//! 2. `Mount::commit` cuts and stores the changed parts, publishes the record and moves the pointer.
//! 3. [`Fs::rebase`]: the new snapshot is the one below, and what it holds leaves the overlay.
//!
//! If anything fails before 3, nothing has left the overlay.

mod changed_files;
pub mod frozen_files;

use std::sync::{Arc, atomic::Ordering};

use store::{
    Error, Result,
    format::{table::Location, tree::Entry},
    id::RecordId,
    ops::write::commit::whole::Tree,
};

pub use changed_files::ChangedFiles;

use crate::{
    Errno,
    fs::{Fs, gate::Closed},
    overlay::{
        change::{Change, Intent},
        checkpoint::Below,
        collect::Collected,
        node::{FileNode, Ino},
        rebase::Rebase,
        session::SessionDir,
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

    /// Writes down, durably, what is about to become the snapshot of what was written up to an
    /// epoch: whoever resumes after a crash then finds out whether it did.
    pub fn intend(&self, intent: Intent) -> Result<()> {
        let mut state = self.write_state();
        state.make(&Change::Intent(intent)).map_err(unwritten)?;
        state.intent = Some(intent);
        drop(state);
        self.sync_journal().map_err(unwritten)
    }

    /// The commit that is under way, or was when the session ended.
    pub fn intent(&self) -> Option<Intent> {
        self.read_state().intent
    }

    /// The commit that was to publish `record` has failed, and will not come true later.
    pub fn give_up_intent(&self, record: RecordId) -> Result<()> {
        let mut state = self.write_state();
        if state.intent.is_some_and(|intent| intent.record == record) {
            state.make(&Change::NoIntent).map_err(unwritten)?;
            state.intent = None;
        }
        Ok(())
    }

    /// Makes the snapshot of what was written up to `epoch` the one below. `numbers` are those
    /// of its entries. If this fails nothing has happened, and it can be done later, but not after
    /// another freeze.
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
        let plan = Rebase::plan(&self.read_state().table, epoch, &numbers, entries, locations);
        self.rewrite_journal(session, plan, Some(below), numbers).map_err(unwritten)
    }
}

fn unwritten(errno: Errno) -> Error {
    Error::Io { action: "cannot write", path: "the session's journal".into(), source: errno.into() }
}
