//! `Gate` holds changes up while a commit lists the tree.
//!
//! Who comes to sync changes no file, and takes as long as the disk does. A commit that only ends an epoch does not
//! wait for it; whoever replaces the journal does, and changes go on until the last sync is done.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    changing: usize,
    syncing: usize,
    held_up: HeldUp,
    /// For how long some change or sync has been under way, until `busy_since`.
    busy: Duration,
    /// When those that are under way began.
    busy_since: Option<Instant>,
}

/// Who is not let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeldUp {
    #[default]
    Nobody,
    Syncs,
    Everybody,
}

/// What somebody comes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    Change,
    Sync,
}

impl State {
    fn of(&mut self, errand: Errand) -> &mut usize {
        match errand {
            Errand::Change => &mut self.changing,
            Errand::Sync => &mut self.syncing,
        }
    }

    fn lets_in(&self, errand: Errand) -> bool {
        match self.held_up {
            HeldUp::Nobody => true,
            HeldUp::Syncs => errand == Errand::Change,
            HeldUp::Everybody => false,
        }
    }

    fn enter(&mut self, errand: Errand) {
        *self.of(errand) += 1;
        self.busy_since.get_or_insert_with(Instant::now);
    }

    fn leave(&mut self, errand: Errand) {
        *self.of(errand) -= 1;
        if self.changing == 0 && self.syncing == 0 {
            self.busy = self.busy();
            self.busy_since = None;
        }
    }

    fn busy(&self) -> Duration {
        self.busy + self.busy_since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// A change, or a sync, is under way while this exists.
#[derive(Debug)]
pub struct Pass<'a> {
    gate: &'a Gate,
    errand: Errand,
}

/// No change is under way while this exists.
#[derive(Debug)]
pub struct Closed<'a> {
    gate: &'a Gate,
    since: Instant,
}

impl Closed<'_> {
    /// For how long no change was let in, the wait for those that were under way included.
    pub fn held_up_for(&self) -> Duration {
        self.since.elapsed()
    }
}

impl Gate {
    /// `None` if it is closed: wait where waiting does not hold up others.
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        let mut state = self.state.lock();
        if !state.lets_in(Errand::Change) {
            return None;
        }
        state.enter(Errand::Change);
        Some(Pass { gate: self, errand: Errand::Change })
    }

    /// Waits until it is open.
    pub fn enter(&self) -> Pass<'_> {
        self.enter_to(Errand::Change)
    }

    /// Waits until it is open, to sync and to change nothing.
    pub fn enter_to_sync(&self) -> Pass<'_> {
        self.enter_to(Errand::Sync)
    }

    fn enter_to(&self, errand: Errand) -> Pass<'_> {
        let mut state = self.state.lock();
        while !state.lets_in(errand) {
            self.changed.wait(&mut state);
        }
        state.enter(errand);
        Pass { gate: self, errand }
    }

    /// Lets nobody in and waits until nobody is inside.
    pub fn close(&self) -> Closed<'_> {
        let mut state = self.opened();
        state.held_up = HeldUp::Syncs;
        while state.syncing > 0 {
            self.changed.wait(&mut state);
        }
        self.closed(state)
    }

    /// Lets nobody in and waits until no change is under way; those who sync may go on.
    pub fn close_to_changes(&self) -> Closed<'_> {
        self.closed(self.opened())
    }

    /// Waits until nobody has closed it.
    fn opened(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        while state.held_up != HeldUp::Nobody {
            self.changed.wait(&mut state);
        }
        state
    }

    fn closed(&self, mut state: MutexGuard<'_, State>) -> Closed<'_> {
        let since = Instant::now();
        state.held_up = HeldUp::Everybody;
        while state.changing > 0 {
            self.changed.wait(&mut state);
        }
        Closed { gate: self, since }
    }

    /// For how long, in all, some change or sync has been under way.
    pub fn busy(&self) -> Duration {
        self.state.lock().busy()
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.leave(self.errand);
        if *state.of(self.errand) == 0 {
            self.gate.changed.notify_all();
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.state.lock().held_up = HeldUp::Nobody;
        self.gate.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn who_ends_an_epoch_waits_for_changes_and_not_for_syncs() {
        let gate = Gate::default();
        let sync = gate.enter_to_sync();
        let closed = gate.close_to_changes();
        assert!(gate.try_enter().is_none());
        drop(closed);

        let change = gate.enter();
        thread::scope(|scope| {
            let closing = scope.spawn(|| drop(gate.close_to_changes()));
            while gate.try_enter().is_some() {
                thread::yield_now();
            }
            assert!(!closing.is_finished(), "a change is under way");
            drop(change);
        });
        drop(sync);
    }

    #[test]
    fn who_replaces_the_journal_waits_for_syncs_while_changes_go_on() {
        let gate = Gate::default();
        let sync = gate.enter_to_sync();
        thread::scope(|scope| {
            let closing = scope.spawn(|| gate.close().held_up_for());
            while gate.state.lock().held_up == HeldUp::Nobody {
                thread::yield_now();
            }
            drop(gate.try_enter().expect("a change is let in until the sync is done"));
            assert!(!closing.is_finished(), "a sync is under way");
            let done = Instant::now();
            drop(sync);
            let held_up = closing.join().unwrap();
            assert!(held_up <= done.elapsed(), "the wait for syncs holds no change up");
        });
        assert!(gate.try_enter().is_some());
    }
}
