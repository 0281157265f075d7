//! `Gate` holds changes up while a commit lists the tree.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inside: usize,
    closed: bool,
    /// For how long some change has been under way, until `busy_since`.
    busy: Duration,
    /// When the changes that are under way began.
    busy_since: Option<Instant>,
}

impl State {
    fn enter(&mut self) {
        self.inside += 1;
        self.busy_since.get_or_insert_with(Instant::now);
    }

    fn leave(&mut self) {
        self.inside -= 1;
        if self.inside == 0 {
            self.busy = self.busy();
            self.busy_since = None;
        }
    }

    fn busy(&self) -> Duration {
        self.busy + self.busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A change is under way while this exists.
#[derive(Debug)]
pub struct Pass<'a>(&'a Gate);

/// No change is under way while this exists.
#[derive(Debug)]
pub struct Closed<'a>(&'a Gate);

impl Gate {
    /// `None` if it is closed: wait where waiting does not hold up others.
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.enter();
        Some(Pass(self))
    }

    /// Waits until it is open.
    pub fn enter(&self) -> Pass<'_> {
        let mut state = self.state.lock();
        while state.closed {
            self.changed.wait(&mut state);
        }
        state.enter();
        Pass(self)
    }

    /// Lets nobody in and waits until nobody is inside.
    pub fn close(&self) -> Closed<'_> {
        let mut state = self.state.lock();
        while state.closed {
            self.changed.wait(&mut state);
        }
        state.closed = true;
        while state.inside > 0 {
            self.changed.wait(&mut state);
        }
        Closed(self)
    }

    /// For how long, in all, some change has been under way.
    pub fn busy(&self) -> Duration {
        self.state.lock().busy()
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.leave();
        if state.inside == 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().closed = false;
        self.0.changed.notify_all();
    }
}
