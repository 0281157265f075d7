//! `kill_at` kills the program at a moment that is chosen or found.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use crate::{
    binary::{Ended, Running},
    tree::noise,
};

/// When a command is killed.
#[derive(Clone, Copy, Debug)]
pub enum Moment<'a> {
    /// So long after its start.
    After(Duration),
    /// As soon as there is one more entry in a directory.
    Entry(&'a Path),
    /// As soon as a file is another one.
    Change(&'a Path),
}

/// Moments all over a command that takes `usual`, a bit early and a bit late ones among them.
pub fn moments(rounds: u32, usual: Duration, seed: u64) -> Vec<Moment<'static>> {
    let random = noise(rounds as usize, seed);
    let spread = (0..rounds).map(|round| {
        let jitter = f64::from(random[round as usize]) / 255.0;
        usual.mul_f64((f64::from(round) + jitter) / f64::from(rounds) * 1.2)
    });
    [Duration::ZERO, Duration::from_millis(2)].into_iter().chain(spread).map(Moment::After).collect()
}

/// Kills the command at that moment, and tells how it ended: perhaps before that.
pub fn kill_at(start: impl FnOnce() -> Running, moment: Moment) -> Ended {
    let entries = |directory: &Path| fs::read_dir(directory).map_or(0, Iterator::count);
    let inode = |path: &Path| fs::metadata(path).map(|meta| (meta.ino(), meta.mtime_nsec())).ok();
    let state = || match moment {
        Moment::After(_) => (0, None),
        Moment::Entry(directory) => (entries(directory), None),
        Moment::Change(file) => (0, inode(file)),
    };
    let before = state();
    let started = Instant::now();
    let mut running = start();
    match moment {
        Moment::After(delay) => thread::sleep(delay.saturating_sub(started.elapsed())),
        Moment::Entry(_) | Moment::Change(_) => {
            while running.runs() && state() == before {
                thread::yield_now();
            }
        }
    }
    running.kill()
}

/// How long some work takes.
pub fn timed(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}
