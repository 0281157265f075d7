//! `resumed` plays a mount that commits, and the process that resumes its session when its daemon was killed.

use std::time::Duration;

use store::{
    Error, ErrorKind,
    catalog::{
        lock::Hold,
        pointer::{Fate, Flip, IntendedFlip},
        records,
    },
    format::record::State,
    id::{FlipId, RecordId},
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
        let answer = self.flip_beside(&hold, target, flip_id).await;
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

    /// As a commit flips: it looks at the lock while its record becomes live, which a look at a live record stands
    /// for here, and stores the event when the pointer has it.
    async fn flip_beside(&self, hold: &Hold, target: RecordId, flip_id: FlipId) -> store::Result<Flip> {
        let seen = hold.seen().await;
        let living = async {
            let (record, _) = records::get(&self.store, &self.lineage, target).await?;
            let is_live = record.state == State::Live || !self.rules.record_after_pointer;
            let what = || Error::NotFound { what: format!("a live {target}") };
            is_live.then_some(record).ok_or_else(what)
        };
        let (record, verified) = hold.verified(seen, living).await?;
        let (flip, event) = hold.flip_verified(record.record, flip_id, verified).await?;
        if let Some(event) = event {
            hold.tell(&event).await;
        }
        Ok(flip)
    }

    /// By the session's journal, and nothing else. It is the same flip still.
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
