//! `pace` decides the speed and the order of bytes.

use std::{
    io::{self, Write},
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

/// How much goes out at once when there is a limit: small enough that a reader sees it trickle.
const PIECE: usize = 16 << 10;

/// A link of limited width that all connections share.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the bytes sent so far have gone through.
    free_at: Mutex<Option<Instant>>,
}

impl Pace {
    /// Writes everything, no faster than `bytes_per_second`; zero is no limit.
    pub(super) fn write(&self, to: &mut impl Write, bytes: &[u8], bytes_per_second: u64) -> io::Result<()> {
        if bytes_per_second == 0 {
            return to.write_all(bytes);
        }
        for piece in bytes.chunks(PIECE) {
            let takes = Duration::from_secs_f64(piece.len() as f64 / bytes_per_second as f64);
            let until = {
                let mut free_at = self.free_at.lock();
                let now = Instant::now();
                let begins = free_at.map_or(now, |free_at| free_at.max(now));
                *free_at.insert(begins + takes)
            };
            thread::sleep(until.saturating_duration_since(Instant::now()));
            to.write_all(piece)?;
        }
        Ok(())
    }
}

/// How many answers have gone out, for those that let others pass.
#[derive(Debug, Default)]
pub(super) struct Turns {
    answered: Mutex<u64>,
    changed: Condvar,
}

impl Turns {
    pub(super) fn answered(&self) {
        *self.answered.lock() += 1;
        self.changed.notify_all();
    }

    /// Waits until somebody else has been answered, but not forever: there may be nobody.
    pub(super) fn let_one_pass(&self, at_most: Duration) {
        let mut answered = self.answered.lock();
        let before = *answered;
        self.changed.wait_while_for(&mut answered, |now| *now == before, at_most);
    }
}
