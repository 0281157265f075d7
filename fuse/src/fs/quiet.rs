//! `close_when_quiet` waits until no file is open for writing, and lets a commit take the tree then.
//!
//! A file is whole when its writer has closed it, so a commit is taken while no file is open for
//! writing. Pages of a shared mapping count as open: the kernel gives a file back only when its
//! last mapping is gone and their bytes have been written, so nothing is dirty where nothing is open.
//!
//! The commit's patience is for programs that keep a file open. The time that the mount itself takes
//! to write and to sync for them does not count: on a slow or busy disk one sync takes seconds, and
//! the file is closed right after it.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    Fs,
    gate::{Closed, Gate},
};
use crate::overlay::node::Ino;

/// For so long nobody may open a file for writing, so that those who have one open come to an end:
/// else somebody always has, where several write file after file. Short, because one of them may be
/// waiting to open another before it closes the first. Each hold-up is twice as long as the one
/// before, up to the longest.
const HOLD_UP: Duration = Duration::from_millis(100);
const LONGEST_HOLD_UP: Duration = Duration::from_secs(1);
const LET_GO_ON: Duration = Duration::from_millis(100);
/// A hold-up, or the wait for the moment, takes at most so many times its own length on a busy disk:
/// a program may go on writing and syncing a file for ever.
const ON_A_BUSY_DISK: u32 = 12;
/// How often it is looked whether the files that are open still have names.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A time that does not pass while the mount works for somebody.
struct IdleTimer<'a> {
    gate: &'a Gate,
    length: Duration,
    started: Instant,
    busy_before: Duration,
}

impl<'a> IdleTimer<'a> {
    fn start(gate: &'a Gate, length: Duration) -> Self {
        Self { gate, length, started: Instant::now(), busy_before: gate.busy() }
    }

    /// How long it lasts at least.
    fn left(&self) -> Duration {
        let elapsed = self.started.elapsed();
        let idle = elapsed.saturating_sub(self.gate.busy().saturating_sub(self.busy_before));
        let most = (self.length * ON_A_BUSY_DISK).saturating_sub(elapsed);
        self.length.saturating_sub(idle).min(most)
    }

    fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

impl Fs {
    /// Closes the gate at a moment when no file is open for writing, and no change is half made.
    /// If there is none for so long, says which files are open.
    pub fn close_when_quiet(&self, patience: Duration) -> Result<Closed<'_>, Vec<String>> {
        let patience = IdleTimer::start(&self.gate, patience);
        let mut hold_up = HOLD_UP;
        loop {
            let door = self.door.close();
            if self.await_no_writers(&patience, hold_up) {
                let closed = self.gate.close();
                // Nobody could come in until now, and whoever does from now on can change nothing;
                // but a file may have been given a name again.
                if self.named_writers().is_empty() {
                    return Ok(closed);
                }
            }
            drop(door);
            if patience.is_over() {
                return Err(self.writers());
            }
            thread::sleep(LET_GO_ON.min(patience.left()));
            hold_up = (hold_up * 2).min(LONGEST_HOLD_UP);
        }
    }

    /// Waits until no file is open for writing; says whether none is. Nobody may open one meanwhile.
    fn await_no_writers(&self, patience: &IdleTimer<'_>, hold_up: Duration) -> bool {
        let hold_up = IdleTimer::start(&self.gate, hold_up);
        loop {
            let writers = self.named_writers();
            if writers.is_empty() {
                return true;
            }
            let left = hold_up.left().min(patience.left());
            if left.is_zero() {
                return false;
            }
            self.handles.await_fewer_writers(&writers, left.min(LOOK_EVERY));
        }
    }

    /// The files that are open for writing. One that has no name any more is not stored, and may
    /// stay open.
    fn named_writers(&self) -> Vec<Ino> {
        let mut writers = self.handles.writers();
        if !writers.is_empty() {
            let state = self.read_state();
            // One that is not in the table is as the snapshot has it, with a name.
            writers.retain(|ino| state.nodes.table.get(*ino).is_none_or(|node| node.names > 0));
        }
        writers
    }
}
