//! `PointOfNoReturn` decides which comes first: an interruption, or the step that cannot be taken back.
//!
//! That step is taken on a thread which nobody can stop. So a process that wants to interrupt, and
//! say truthfully that nothing was done, must ask; exactly one of the two is told to go on.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

const OPEN: u8 = 0;
const MADE: u8 = 1;
const PREVENTED: u8 = 2;

/// Shared by the work and by those who may interrupt it.
#[derive(Clone, Debug, Default)]
pub struct PointOfNoReturn(Arc<AtomicU8>);

impl PointOfNoReturn {
    /// For the work, just before its last step; `false` if it must not be taken.
    pub fn make(&self) -> bool {
        self.decide(MADE)
    }

    /// For the interrupter; `false` if it is too late: the work is done, or about to be.
    pub fn prevent(&self) -> bool {
        self.decide(PREVENTED)
    }

    fn decide(&self, for_this: u8) -> bool {
        let decided = self.0.compare_exchange(OPEN, for_this, Ordering::SeqCst, Ordering::SeqCst);
        decided.is_ok() || decided == Err(for_this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_decides_for_ever() {
        let made = PointOfNoReturn::default();
        assert!(made.make() && !made.clone().prevent() && made.make());
        let prevented = PointOfNoReturn::default();
        assert!(prevented.prevent() && !prevented.clone().make() && prevented.prevent());
    }
}
