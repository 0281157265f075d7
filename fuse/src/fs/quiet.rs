//! The moment at which a commit may take the tree.
//!
//! A file is whole when whoever wrote it has closed it, so a commit is taken while no file is open
//! for writing. Pages of a shared mapping count as open: the kernel gives a file back only when its
//! last mapping is gone and their bytes have been written, so nothing is dirty where nothing is open.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{Fs, gate::Closed};

/// So long nobody may open a file for writing, so that those who have one open come to an end: else
/// somebody always has, where several write file after file. Short, because one of them may be
/// waiting to open another before it closes the first. Twice as long each time, up to the longest,
/// because on a slow disk a single file takes longer than that to write and to sync.
const HOLD_UP: Duration = Duration::from_millis(100);
const LONGEST_HOLD_UP: Duration = Duration::from_secs(1);
const LET_GO_ON: Duration = Duration::from_millis(100);

impl Fs {
    /// Closes the gate at a moment when no file is open for writing, and no change is half made.
    /// If there is none for so long, says which files are open.
    pub fn close_when_quiet(&self, patience: Duration) -> Result<Closed<'_>, Vec<String>> {
        let started = Instant::now();
        let left = || patience.saturating_sub(started.elapsed());
        let mut hold_up = HOLD_UP;
        loop {
            let door = self.door.close();
            // A file that has no name any more is not stored, and may stay open.
            if self.writers().is_empty() || self.handles.await_no_writers(hold_up.min(left())) {
                let closed = self.gate.close();
                // Nobody could come in until now, and whoever does from now on can change nothing;
                // but a file may have been given a name again.
                if self.writers().is_empty() {
                    return Ok(closed);
                }
            }
            drop(door);
            let left = left();
            if left.is_zero() {
                return Err(self.writers());
            }
            thread::sleep(LET_GO_ON.min(left));
            hold_up = (hold_up * 2).min(LONGEST_HOLD_UP);
        }
    }
}
