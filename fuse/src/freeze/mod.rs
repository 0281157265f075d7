//! `freeze` closes the epoch and takes the tree that a commit or a checkpoint stores; after a commit it empties the
//! overlay.
//!
//! `mount/commit.rs` stores the tree in between:
//!
//! 1. [`Fs::close_when_quiet`] or [`Fs::close_at_once`], then [`Fs::freeze`]: at a moment when no
//!    file is open for writing, or at any moment beside a running browser, changes are held up, for
//!    as long as it takes to write down which epoch ends here and to copy what was changed of the
//!    nodes. What was written in that epoch is never overwritten, so the rest, from
//!    [`FrozenNodes::changes`] on, goes on beside new changes.
//! 2. `Mount::commit` cuts and stores the changed parts, publishes the record and moves the pointer.
//! 3. [`Fs::rebase`]: the new snapshot is the one below, and what it holds leaves the overlay.
//!
//! If anything fails before 3, nothing has left the overlay.

mod changed_files;
mod changes_since;
pub mod frozen_files;

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use store::{
    Error, Result, content::snapshot_tree::SnapshotTree, format::tree::TreePath, id::RecordId,
    ops::write::commit::TreeChanges,
};
use tokio::runtime::Handle;

pub use changed_files::ChangedFiles;
pub use changes_since::{ChangesSince, CheckpointBase, TakenSince};

use crate::{
    Errno,
    fs::{Fs, Unanswered, gate::Closed},
    lower::LowerFile,
    overlay::{
        base_tree::BaseTree,
        change::{Change, Intent},
        checkpoint::{Below, Checkpoint},
        collect::Collected,
        journal_room::JournalRoom,
        node::Ino,
        nodes::Nodes,
        numbers::Numbers,
        rebase::{NewBase, Rebase},
        session::SessionDir,
        tree_changes::ChangedTree,
    },
};

/// Of the room for the next journal, what is for changes that are made until it is begun.
const ROOM_FOR_CHANGES: u64 = 256 << 10;
/// How often changed files are synced before changes are held up for it.
const SYNCS_AHEAD: usize = 2;

/// The nodes as they were at the end of an epoch.
#[derive(Debug)]
pub struct FrozenNodes {
    pub epoch: u64,
    /// The last event that was noted in it.
    pub last_event: u64,
    nodes: Arc<Nodes>,
    /// While this exists, no data file is removed.
    reading: Reading,
}

/// What became of the snapshot below, up to the end of an epoch.
#[derive(Debug)]
pub struct FrozenChanges {
    pub changes: TreeChanges,
    /// The files whose content must be read, as the changes number them.
    pub files: Arc<ChangedFiles>,
    pub taken: Taken,
    /// The sizes of all files of the tree.
    pub bytes: u64,
    /// The paths that the snapshot below has and the tree lacks, or has anew.
    pub removed: Vec<TreePath>,
}

/// What a snapshot was taken of, as whoever stands on it later needs it.
#[derive(Clone, Debug)]
pub struct Taken {
    pub epoch: u64,
    pub nodes: Arc<Nodes>,
    /// The numbers of its entries.
    pub numbers: Arc<Numbers>,
    /// Where it has the nodes that are not as the snapshot before has them.
    paths: HashMap<Ino, Vec<TreePath>>,
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
    pub fn freeze(self: &Arc<Self>, _: &Closed<'_>) -> Result<FrozenNodes> {
        let reading = Reading::begin(self);
        let mut state = self.write_state();
        let epoch = state.nodes.table.epoch;
        let nodes = Arc::new(state.nodes.clone());
        made(state.make(&Change::Epoch { epoch: epoch + 1 }))?;
        let last_event = state.chronicle.as_mut().map_or(0, |chronicle| {
            chronicle.ask();
            chronicle.last()
        });
        Ok(FrozenNodes { epoch, last_event, nodes, reading })
    }

    /// Writes down, durably, what is about to become the snapshot of what was written up to an
    /// epoch: whoever resumes after a crash then finds out whether it did.
    pub fn intend(&self, intent: Intent) -> Result<()> {
        let mut state = self.write_state();
        made(state.make(&Change::Intent(intent)))?;
        state.intent = Some(intent);
        drop(state);
        self.sync_journal().map_err(unwritten)
    }

    /// Sets room aside for the journal of a session that stands on what was `taken`: after this, a full disk does not keep
    /// the session from it.
    pub fn set_room_aside(&self, session: &SessionDir, taken: &Taken) -> Result<JournalRoom> {
        let below = self.read_state().below.clone();
        let bytes = Checkpoint::length_above(&taken.nodes, &taken.numbers, below) + ROOM_FOR_CHANGES;
        JournalRoom::take(session, bytes).map_err(|error| {
            Error::io("cannot set aside what a commit needs of the disk of", session.path(), error)
        })
    }

    /// The commit that is under way, or was when the session ended.
    pub fn intent(&self) -> Option<Intent> {
        self.read_state().intent
    }

    /// The commit that was to publish `record` has failed, and will not come true later.
    pub fn give_up_intent(&self, record: RecordId) -> Result<()> {
        let mut state = self.write_state();
        if state.intent.is_some_and(|intent| intent.record == record) {
            made(state.make(&Change::NoIntent))?;
            state.intent = None;
        }
        Ok(())
    }

    /// Makes a snapshot of what is in this session the one below, and says how long changes were held up. If this
    /// fails nothing has happened, and it can be done later, but not after another freeze.
    pub fn rebase(&self, session: &SessionDir, onto: NewBase, below: Below) -> Result<Duration> {
        // What is on disk by then need not be waited for while changes are held up. The second time it is only what was
        // changed during the first, which may have taken long.
        for _ in 0..SYNCS_AHEAD {
            let plan = Rebase::plan(&self.read_state().nodes.table, onto.clone());
            self.sync_ahead(&plan).map_err(unwritten)?;
        }
        let data_files = self.data_files_there();
        let closed = self.gate.close();
        let plan = Rebase::plan(&self.read_state().nodes.table, onto);
        self.rewrite_journal(session, plan, (Some(below), data_files)).map_err(unwritten)?;
        Ok(closed.held_up_for())
    }
}

impl FrozenNodes {
    /// What became of the snapshot below. Nothing is held up meanwhile.
    pub async fn changes(&self, runtime: &Handle) -> Result<FrozenChanges> {
        let fs = &self.reading.0;
        let ChangedTree { changes, files, numbers, paths, bytes, removed } =
            ChangedTree::of(&self.nodes, &fs.exclusions).await?;
        let files = Arc::new(ChangedFiles::new(Arc::clone(fs), files, runtime.clone()));
        let (epoch, nodes) = (self.epoch, Arc::clone(&self.nodes));
        let taken = Taken { epoch, nodes, numbers: Arc::new(numbers), paths };
        Ok(FrozenChanges { changes, files, taken, bytes, removed })
    }

    /// Lists the whole tree, for whoever must know all of it.
    pub async fn list(&self) -> Result<Collected> {
        Collected::of(&self.nodes, &self.reading.0.exclusions).await
    }
}

impl Taken {
    /// What was taken when these were the nodes.
    pub async fn again(nodes: Arc<Nodes>, epoch: u64, exclusions: &[String]) -> Result<Self> {
        let ChangedTree { numbers, paths, .. } = ChangedTree::of(&nodes, exclusions).await?;
        Ok(Self { epoch, nodes, numbers: Arc::new(numbers), paths })
    }

    /// The snapshot that was made of it and has this tree, to stand on.
    pub async fn stored_as(self, tree: Arc<SnapshotTree>) -> Result<NewBase> {
        let Self { epoch, nodes, numbers, paths } = self;
        if numbers.len() != tree.len() {
            let what = format!("{} entries were taken, {} are stored", numbers.len(), tree.len());
            return Err(Error::Internal { what });
        }
        let mut files = HashMap::new();
        for (ino, node) in nodes.table.iter() {
            let changed = node.file().is_some_and(|file| !file.is_as_below());
            let Some(path) = paths.get(&ino).and_then(|paths| paths.first()).filter(|_| changed) else {
                continue;
            };
            let stored = tree.file(path).await?.and_then(|file| {
                let mut locations = file.pieces.iter().map(|piece| piece.location);
                LowerFile::of(&file.entry, &mut locations)
            });
            // On what it stood on before, it would lose what was written since.
            let Some(lower) = stored else {
                let what = format!("{path} was changed, and the stored tree has no such file");
                return Err(Error::Internal { what });
            };
            files.insert(ino, Arc::new(lower));
        }
        let taken = Arc::new(nodes.table.clone());
        Ok(NewBase { base: BaseTree { tree, numbers }, taken, epoch, paths, files })
    }
}

fn made(made: Result<u64, Unanswered>) -> Result<()> {
    match made {
        Ok(_) => Ok(()),
        Err(Unanswered::Refused(errno)) => Err(unwritten(errno)),
        Err(Unanswered::Missing(_)) => Err(Error::Internal { what: "an epoch is about no node".to_owned() }),
    }
}

fn unwritten(errno: Errno) -> Error {
    Error::Io { action: "cannot write", path: "the session's journal".into(), source: errno.into() }
}
