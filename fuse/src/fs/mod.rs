//! `fs` is the file system without a kernel: it answers for files, names and bytes.
//!
//! Locks, in the order they are taken: the door (by whoever opens a file for writing), the gate
//! (by every change, for as long as it takes), then the state. No lock is held while bytes are
//! fetched or flushed.

pub mod answer;
mod copy_up;
mod data;
mod directories;
mod durability;
pub mod gate;
pub mod handles;
pub mod happenings;
mod names;
mod node_attributes;
mod quiet;
pub mod read;
mod scan_readahead;
mod xattrs;

use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use store::format::tree::{MAX_NAME_BYTES, TreePath};

pub use answer::{Answer, Unanswered};
pub use data::{Allocation, Seek};
pub use names::Replace;
pub use node_attributes::{Room, SetAttributes};
pub use xattrs::Must;

use crate::{
    Errno, Result,
    attributes::Attributes,
    lower::Lower,
    overlay::{
        change::{Change, Intent},
        checkpoint::Below,
        chronicle::Chronicle,
        journal::Journal,
        node::{Ino, NodeKind},
        nodes::{FoundNode, Nodes},
        places::Places,
        recovery::Recovered,
        upper::Upper,
    },
};
use gate::{Closed, Gate, Pass};
use handles::Handles;
use scan_readahead::ScanReadahead;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Debug)]
pub struct Fs {
    /// Closed while a commit waits for those to finish who have files open for writing.
    pub(crate) door: Gate,
    pub(crate) gate: Gate,
    pub(crate) state: RwLock<State>,
    pub(crate) upper: Upper,
    pub(crate) handles: Handles,
    pub(crate) lower: Arc<dyn Lower>,
    scan: Mutex<ScanReadahead>,
    /// Nothing may be changed: it was mounted so, or what was written could not be kept.
    read_only: AtomicBool,
    /// Something could not be made durable, and may be lost though a second attempt succeeds:
    /// nobody is told any more that anything is.
    doubtful: AtomicBool,
    /// Nodes the kernel knows, with how often it was told.
    known: Mutex<HashMap<Ino, u64>>,
    /// Data files that nothing needs once the journal is on disk.
    doomed: Mutex<Vec<(Ino, u32)>>,
    pub(crate) written_bytes: AtomicU64,
    /// How many commits are reading what was written before them.
    pub(crate) commits: AtomicUsize,
    pub(crate) exclusions: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub nodes: Nodes,
    pub journal: Journal,
    pub below: Option<Below>,
    pub intent: Option<Intent>,
    /// Notes what happens to files, if somebody asks for it.
    pub chronicle: Option<Chronicle>,
}

impl Fs {
    /// `exclusions` are paths that commits leave out.
    pub fn new(
        recovered: Recovered,
        below: Option<Below>,
        lower: Arc<dyn Lower>,
        exclusions: Vec<String>,
    ) -> Self {
        let Recovered { nodes, journal, upper, intent, .. } = recovered;
        Self {
            door: Gate::default(),
            gate: Gate::default(),
            state: RwLock::new(State { nodes, journal, below, intent, chronicle: None }),
            upper,
            handles: Handles::default(),
            lower,
            scan: Mutex::default(),
            read_only: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            known: Mutex::default(),
            doomed: Mutex::default(),
            written_bytes: AtomicU64::new(0),
            commits: AtomicUsize::new(0),
            exclusions,
        }
    }

    /// From now on nothing can be changed.
    pub fn make_read_only(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// Lets somebody open a file for writing, unless that must wait; then `None`.
    pub fn try_come(&self) -> Option<Pass<'_>> {
        self.door.try_enter()
    }

    /// Waits until files may be opened for writing.
    pub fn come(&self) -> Pass<'_> {
        self.door.enter()
    }

    /// Lets a change in, unless it must wait; then `None`.
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        self.gate.try_enter()
    }

    /// Waits until changes are let in.
    pub fn enter(&self) -> Pass<'_> {
        self.gate.enter()
    }

    /// Waits until syncs are let in.
    pub fn enter_to_sync(&self) -> Pass<'_> {
        self.gate.enter_to_sync()
    }

    /// Closes the gate as soon as no change is half made, whatever is open for writing: what is taken then is what
    /// a power failure would leave of it.
    pub fn close_at_once(&self) -> Closed<'_> {
        self.gate.close_to_changes()
    }

    /// How many nodes are in memory.
    pub fn nodes(&self) -> usize {
        self.read_state().nodes.count()
    }

    pub fn attributes(&self, ino: Ino) -> Answer<Attributes> {
        let state = self.read_state();
        state.attributes(ino)
    }

    /// Finds a name; the kernel then knows the node until it forgets it.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Answer<Attributes> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno::NAMETOOLONG.into());
        }
        let state = self.read_state();
        let ino = state.nodes.child(&*state.directory(parent)?, name)?.ok_or(Errno::NOENT)?;
        let found = state.attributes(ino)?;
        self.know(ino);
        Ok(found)
    }

    /// The kernel was told of this node once more.
    pub fn know(&self, ino: Ino) {
        *self.known.lock().entry(ino).or_default() += 1;
    }

    /// The kernel has forgotten what it was told `times` times.
    pub fn forget(&self, ino: Ino, times: u64) {
        {
            let mut known = self.known.lock();
            match known.get_mut(&ino) {
                Some(count) if *count > times => {
                    *count -= times;
                    return;
                }
                _ => known.remove(&ino),
            };
        }
        self.drop_if_unused(ino);
    }

    /// Forgets a node that has no name, if nobody can reach it any more.
    pub(crate) fn drop_if_unused(&self, ino: Ino) {
        {
            let state = self.read_state();
            if state.nodes.table.get(ino).is_none_or(|node| node.names > 0) {
                return;
            }
        }
        let mut state = self.write_state();
        if self.known.lock().contains_key(&ino) || self.handles.has(ino) {
            return;
        }
        if state.nodes.table.get(ino).is_some_and(|node| node.names == 0)
            && let Some(node) = state.nodes.table.remove(ino)
            && let Some(file) = node.file()
        {
            self.doom((0..=file.generation).map(|generation| (ino, generation)));
        }
    }

    pub(crate) fn doom(&self, files: impl IntoIterator<Item = (Ino, u32)>) {
        self.doomed.lock().extend(files);
    }

    pub fn read_link(&self, ino: Ino) -> Answer<Vec<u8>> {
        match &self.read_state().node(ino)?.kind {
            NodeKind::Symlink { target } => Ok(target.clone()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub(crate) fn read_state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }

    /// To change something: refused if nothing may be changed.
    pub(crate) fn change_state(&self) -> Result<RwLockWriteGuard<'_, State>> {
        if self.is_read_only() {
            return Err(Errno::ROFS);
        }
        Ok(self.write_state())
    }

    pub(crate) fn write_state(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write()
    }
}

impl State {
    pub fn node(&self, ino: Ino) -> Answer<FoundNode<'_>> {
        self.nodes.node(ino)?.ok_or(Unanswered::Refused(Errno::STALE))
    }

    /// A node that is a directory.
    pub fn directory(&self, ino: Ino) -> Answer<FoundNode<'_>> {
        let node = self.node(ino)?;
        if node.directory().is_some() { Ok(node) } else { Err(Errno::NOTDIR.into()) }
    }

    pub fn attributes(&self, ino: Ino) -> Answer<Attributes> {
        Ok(Attributes::of(ino, &*self.node(ino)?))
    }

    /// The paths of these nodes, as far as they are known now.
    pub fn tree_paths(&self, of: &[Ino]) -> Vec<(Ino, TreePath)> {
        let places = Places::of(&self.nodes.table);
        let below = |ino| answer::known(self.nodes.node(ino)).flatten().map(|node| node.below.clone());
        let paths = |ino: Ino| places.paths(ino, &below(ino).unwrap_or_default());
        of.iter().flat_map(|ino| paths(*ino).into_iter().map(|path| (*ino, path))).collect()
    }

    /// The same, for people.
    pub fn paths(&self, of: &[Ino]) -> Vec<String> {
        let shown = |path: &TreePath| if path.is_root() { ".".to_owned() } else { path.to_string() };
        let mut found: Vec<String> = self.tree_paths(of).iter().map(|(_, path)| shown(path)).collect();
        found.sort_unstable();
        found
    }

    /// Writes the change down, then makes it. Says the number it got.
    pub fn make(&mut self, change: &Change) -> Answer<u64> {
        // All that it is about is here before it is written down.
        self.nodes.bring(change)?;
        let noted = self.chronicle.as_ref().map(|noting| noting.note(&self.nodes, change)).transpose()?;
        // A node without a name is gone at the next start, and a journal that was begun since it
        // lost its name does not know it.
        let nameless = |ino| self.nodes.table.get(ino).is_some_and(|node| node.names == 0);
        let number = if change.subject().is_some_and(nameless) {
            self.journal.last()
        } else {
            self.journal.append(change).map_err(errno)?
        };
        // What the journal has and memory has not would come into being at the next start.
        self.nodes.table.apply(change).map_err(|misfit| {
            tracing::error!(%misfit, "a change was written down that cannot be made");
            Errno::IO
        })?;
        if let (Some(chronicle), Some(noted)) = (&mut self.chronicle, noted)
            && let Err(error) = chronicle.add(noted)
        {
            tracing::warn!(%error, "what happened could not be noted; the next checkpoint finds what differs");
        }
        Ok(number)
    }
}

pub(crate) fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
