//! `resumed` plays a mount that commits, and the process that resumes its session when its daemon was killed.

use std::time::Duration;

use store::{
    ErrorKind,
    catalog::{
        lock::Hold,
        pointer::{Fate, Flip, IntendedFlip},
    },
    id::RecordId,
};

use super::{
    host::{Host, TERMS},
    program::Program,
};

impl Program {
    /// The process that begins when this one dies.
    pub fn resumed(&self) -> Option<Self> {
        match self {
            Self::Commit { target, .. } => Some(Self::Commit { target: *target, resumes: true }),
            _ => None,
        }
    }
}

impl Host {
    pub(super) async fn commit(&self, target: usize) {
        let handle = self.handle();
        let hold = match handle.acquire(TERMS, Duration::ZERO).await {
            Ok(hold) => hold,
            Err(error) => return self.note(&format!("ends: {error}")),
        };
        let loaded = hold.pointer().await;
        self.machine.inner().oracle.loads(self.process, &loaded);
        let flip_id = handle.new_flip_id();
        let meant = hold.intended_flip(flip_id).await;
        self.machine.inner().journals.insert(self.process, meant);
        self.machine.inner().begins_flip(self.process);
        let target = self.records[target];
        let answer = hold.flip_as(target, flip_id).await;
        self.report(&answer);
        match answer.map_err(|error| error.kind()) {
            // The next commit of the same mount finds out.
            Err(ErrorKind::PointerUnknown) => {
                if hold.overtake(target).await.is_ok() {
                    self.make_up_for(&hold, target, meant).await;
                }
            }
            Err(_) => drop(self.machine.inner().journals.remove(&self.process)),
            Ok(_) => {}
        }
        // The session leaves what it has committed behind here. Until it has, it may be killed.
        let released = hold.release().await;
        self.note(&format!("ends: release {released:?}"));
    }

    /// With what the session's journal says, and nothing else. It is the same flip still.
    pub(super) async fn resume(&self, target: usize) {
        let Some(meant) = self.machine.inner().journals.get(&self.process).copied() else {
            return self.note("finds that nothing was meant");
        };
        let hold = match self.handle().acquire(TERMS, Duration::ZERO).await {
            Ok(hold) => hold,
            Err(error) => return self.note(&format!("ends: {error}")),
        };
        let loaded = hold.pointer().await;
        self.machine.inner().oracle.loads(self.process, &loaded);
        self.make_up_for(&hold, self.records[target], meant).await;
    }

    async fn make_up_for(&self, hold: &Hold, target: RecordId, meant: IntendedFlip) {
        let (flip_id, fate) = (meant.flip_id, hold.fate(target, Some(meant)).await);
        self.note(&format!("finds what was meant: {fate:?}"));
        match fate {
            Fate::Open => self.report(&hold.flip_as(target, flip_id).await),
            Fate::Passed => self.report(&Ok(Flip::Flipped { from: String::new(), flip_id })),
            Fate::Overtaken => self.report(&Ok(Flip::Unchanged)),
            // Whoever has moved it there, that is what was wanted.
            Fate::Current | Fate::Unknown => {}
        }
    }
}
