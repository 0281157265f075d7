//! `durability` syncs changes to disk, and gives space back.
//!
//! A write is in the kernel's hands when it is answered, so the end of the daemon loses
//! nothing. What is fsynced is on disk: first the bytes, then the journal that says what
//! they are.

use std::{
    fs::File,
    io,
    sync::{Arc, atomic::Ordering},
};

use store::format::tree::TreePath;

use super::{Answer, Fs, errno, gate::Pass};
use crate::{
    Errno, Result,
    overlay::{
        change::Change,
        checkpoint::{Below, Checkpoint},
        journal::Journal,
        node::{Ino, Node},
        rebase::Rebase,
        session::SessionDir,
        upper::Absent,
    },
};

impl Fs {
    /// Makes the bytes of a file, and all names and attributes, durable. Needs a pass because
    /// it names a record of the journal, which must not be replaced meanwhile.
    pub fn sync(&self, _: &Pass<'_>, ino: Ino) -> Answer<()> {
        self.check_sure()?;
        let (held, number) = {
            let state = self.read_state();
            let node = state.node(ino)?;
            let held = node.file().map(|file| file.spans.generations());
            (held.unwrap_or_default(), state.journal.last())
        };
        let files: Vec<(Ino, u32)> = held.iter().map(|generation| (ino, *generation)).collect();
        let synced = self.upper.sync(&files, Absent::Refused);
        self.must_last(synced.and_then(|()| self.upper.sync_names()))?;
        if !held.is_empty() {
            let mut state = self.write_state();
            state.make(&Change::Sync { ino, number })?;
        }
        Ok(self.sync_journal()?)
    }

    /// Makes names and attributes durable, for somebody who wants to be told that they are.
    pub fn sync_names(&self, _: &Pass<'_>) -> Result<()> {
        self.check_sure()?;
        self.sync_journal()
    }

    /// Makes the journal durable, and removes what it then has no use for.
    pub fn sync_journal(&self) -> Result<()> {
        let doomed = std::mem::take(&mut *self.doomed.lock());
        let file = self.read_state().journal.file();
        if let Err(error) = self.must_last(file.sync_data()) {
            self.doom(doomed);
            return Err(error);
        }
        if self.commits.load(Ordering::Acquire) > 0 || self.doubtful.load(Ordering::Acquire) {
            // A commit may be reading them, or the journal may not be what it seems.
            self.doom(doomed);
            return Ok(());
        }
        for (ino, generation) in doomed {
            self.upper.remove(ino, generation);
        }
        Ok(())
    }

    /// Gives back the space of what was removed, if there is any.
    pub fn reclaim(&self) {
        let waiting = !self.doomed.lock().is_empty();
        if waiting && let Err(errno) = self.sync_journal() {
            tracing::warn!(%errno, "space could not be given back");
        }
    }

    /// What could not be made durable may be lost in part, and nobody can tell which: nothing
    /// more is taken.
    fn must_last(&self, synced: io::Result<()>) -> Result<()> {
        synced.map_err(|error| {
            tracing::error!(%error, "changes could not be made durable; the mount is read-only from now on");
            self.doubtful.store(true, Ordering::Release);
            self.make_read_only();
            errno(error)
        })
    }

    /// The kernel tells only once that it could not write: whoever asks again would be told that
    /// all is well.
    fn check_sure(&self) -> Result<()> {
        if self.doubtful.load(Ordering::Acquire) { Err(Errno::IO) } else { Ok(()) }
    }

    /// How long the journal is.
    pub fn journal_bytes(&self) -> u64 {
        self.read_state().journal.len()
    }

    /// Starts a new journal if the old one has become long.
    pub fn shorten_journal(&self, session: &SessionDir) -> Result<()> {
        if !self.read_state().journal.is_long() {
            return Ok(());
        }
        self.compact(session).inspect_err(|_| self.write_state().journal.stays_long())
    }

    /// Starts a new journal from where things are. Changes wait meanwhile. Not during a commit:
    /// whoever finishes one that was cut short needs what the journal says from before it.
    pub fn compact(&self, session: &SessionDir) -> Result<()> {
        let data_files = self.data_files_there();
        let _closed = self.gate.close();
        if self.commits.load(Ordering::Acquire) > 0 || self.intent().is_some() {
            return Ok(());
        }
        let below = self.read_state().below.clone();
        self.rewrite_journal(session, Rebase::default(), (below, data_files))
    }

    /// Puts a new journal in the place of the old one, of what things are after `rebase`, above the
    /// snapshot `below`; and makes them so. Of `data_files`, which were there a moment ago, those go that nothing needs.
    /// If this fails, all is as it was, in memory as on disk. No change may be under way.
    pub(crate) fn rewrite_journal(
        &self,
        session: &SessionDir,
        rebase: Rebase,
        (below, data_files): (Option<Below>, Vec<(Ino, u32)>),
    ) -> Result<()> {
        // A base says what is on disk, so all of it must be.
        self.must_last(self.upper.sync(&self.data_files(&rebase), Absent::Refused))?;
        self.must_last(self.upper.sync_names())?;
        let mut state = self.write_state();
        let base = Checkpoint::of(&state.nodes, &rebase, below.clone()).encode();
        // Until its rename the old journal is the one; nothing was lost if this fails.
        state.journal = Journal::replace(&session.journal(), &base, &[]).map_err(errno)?;
        let mut doomed = rebase.apply(&mut state.nodes);
        doomed.extend(state.nodes.table.outlived(&data_files));
        (state.below, state.intent) = (below, None);
        // Open files may still be read from them; they go when the journal is flushed next and
        // nobody reads.
        self.doom(doomed);
        // The state is kept until the name is on disk: what only the new journal allows to be
        // removed must not be while the old one may come back.
        self.must_last(File::open(session.path()).and_then(|folder| folder.sync_all()))
    }

    /// All data files, in order. Without the list, nothing but room is lost.
    pub(crate) fn data_files_there(&self) -> Vec<(Ino, u32)> {
        let mut found = self.upper.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "data files could not be listed; some may take room that nothing needs");
            Vec::new()
        });
        found.sort_unstable();
        found
    }

    /// Syncs the data files that a base after `rebase` needs, as far as they are there still, and their names.
    pub(crate) fn sync_ahead(&self, rebase: &Rebase) -> Result<()> {
        let synced = self.upper.sync(&self.data_files(rebase), Absent::PassedOver);
        self.must_last(synced.and_then(|()| self.upper.sync_names()))
    }

    /// The data files that hold bytes of some file that has a name: the others are gone at the
    /// next start.
    fn data_files(&self, rebase: &Rebase) -> Vec<(Ino, u32)> {
        let state = self.read_state();
        let named = rebase.nodes(&state.nodes.table).filter(|(_, node)| node.names > 0);
        let held = named.filter_map(|(ino, node)| Some((ino, node.file()?.spans.generations())));
        held.flat_map(|(ino, held)| held.into_iter().map(move |generation| (ino, generation))).collect()
    }

    /// How many bytes have been changed and not committed.
    pub fn dirty_bytes(&self) -> u64 {
        let state = self.read_state();
        let named = state.nodes.table.iter().filter(|(_, node)| node.names > 0);
        named.filter_map(|(_, node)| node.file()).map(|file| file.spans.data_bytes()).sum()
    }

    /// Whether anything was changed after `epoch`; after 0, since the snapshot.
    pub fn is_changed_since(&self, epoch: u64) -> bool {
        self.read_state().nodes.table.changed_since(epoch).next().is_some()
    }

    /// The paths of what was changed after `epoch`.
    pub fn changed_since(&self, epoch: u64) -> Vec<String> {
        let state = self.read_state();
        let changed: Vec<Ino> = state.nodes.table.changed_since(epoch).collect();
        state.paths(&changed)
    }

    /// Where the files are whose bytes are not those of the snapshot.
    pub fn changed_files(&self) -> Vec<TreePath> {
        let state = self.read_state();
        let named = state.nodes.table.iter().filter(|(_, node)| node.names > 0);
        let differs = |node: &Node| node.file().is_some_and(|file| !file.is_as_below());
        let changed: Vec<Ino> = named.filter(|(_, node)| differs(node)).map(|(ino, _)| ino).collect();
        state.tree_paths(&changed).into_iter().map(|(_, path)| path).collect()
    }

    /// How many bytes were written since the session began here.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// The paths of the files that are open for writing.
    pub fn writers(&self) -> Vec<String> {
        let writers = self.handles.writers();
        if writers.is_empty() { Vec::new() } else { self.read_state().paths(&writers) }
    }

    /// Where the files are that are open for writing, or have a mapping that could be written to.
    pub fn open_for_writing(&self) -> Vec<(Ino, TreePath)> {
        let writers = self.handles.writers();
        if writers.is_empty() { Vec::new() } else { self.read_state().tree_paths(&writers) }
    }

    /// The journal's file, for tests that tear it.
    pub fn journal_file(&self) -> Arc<File> {
        self.read_state().journal.file()
    }
}
