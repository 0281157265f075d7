//! `Hold` is a lock that is held, the right to move the pointer. `LockRenewer` renews it in the background,
//! and tells when it is lost.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, Notify, watch},
    task::JoinHandle,
};

use super::{
    LineageHandle, Outcome, ReadLock, Terms,
    acquire::Taken,
    presence::{Mark, Presence},
};
use crate::{
    Error, Result,
    bucket::Version,
    catalog::pointer::{Fate, Flip, IntendedFlip, SeenPointer, VerifiedFlip, VersionedPointer},
    format::{
        event::Event,
        lock::Lock,
        pointer::{Pointer, Target},
        record::Record,
    },
    id::{FlipId, Nonce, RecordId},
};

/// The lock and the claim that came with it.
///
/// Lock order: the state's mutex is held across a whole renewal or flip, so that neither
/// sees the other half done; nothing else is locked inside.
#[derive(Debug)]
pub struct Hold {
    pub(super) handle: LineageHandle,
    pub(super) outcome: Outcome,
    pub(super) terms: Terms,
    pub(super) state: Mutex<HoldState>,
    /// Stores the event of a flip.
    telling: parking_lot::Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
pub(super) struct HoldState {
    pub nonce: Nonce,
    pub lock: Lock,
    pub version: Version,
    /// Our own last write of the pointer.
    pub pointer: VersionedPointer,
    /// Tells this machine that we live.
    pub presence: Option<Presence>,
    /// The renewals since `lock` of which no answer came.
    pub sent: Vec<Mark>,
}

impl HoldState {
    pub(super) fn of(taken: Taken, pointer: VersionedPointer) -> Self {
        let Taken { nonce, lock, version, presence, .. } = taken;
        Self { nonce, lock, version, pointer, presence, sent: Vec::new() }
    }

    /// A renewal is about to be sent.
    pub(super) fn sends(&mut self, next: &Lock) {
        self.sent.push(Mark::of(next));
        if let Some(presence) = &self.presence {
            let marks: Vec<Mark> =
                [Mark::of(&self.lock)].into_iter().chain(self.sent.iter().copied()).collect();
            presence.names(&marks);
        }
    }

    /// Takes over the stored lock: the one before a renewal, or after one that arrived late.
    pub(super) fn finds(&mut self, read: ReadLock) {
        if Mark::of(&read.lock).is_same(Mark::of(&self.lock)) {
            self.version = read.version;
        } else {
            self.wrote(read.lock, read.version);
        }
    }

    /// Notes our last write of the lock.
    pub(super) fn wrote(&mut self, lock: Lock, version: Version) {
        (self.lock, self.version) = (lock, version);
        self.sent.clear();
    }

    /// Whether this lock, which has our nonce, is a write of ours, or of somebody who was given
    /// our token. If it is neither, a twin of this process wrote it: the machine was resumed
    /// from an image more than once.
    pub(super) fn knows(&self, lock: &Lock) -> bool {
        let mark = Mark::of(lock);
        let by_token = lock.block().is_some_and(|block| block.by_token);
        by_token || mark.is_same(Mark::of(&self.lock)) || self.sent.iter().any(|sent| mark.is_same(*sent))
    }
}

impl Hold {
    pub(super) fn new(handle: LineageHandle, taken: Taken, pointer: VersionedPointer, terms: Terms) -> Self {
        let outcome = taken.outcome;
        let state = Mutex::new(HoldState::of(taken, pointer));
        Self { handle, outcome, terms, state, telling: Default::default() }
    }

    /// The same hold in a process of a machine that was resumed from an image of this one.
    #[cfg(any(test, feature = "test-support"))]
    pub async fn twin(&self, handle: LineageHandle) -> Self {
        let HoldState { nonce, lock, version, pointer, sent, .. } = &*self.state.lock().await;
        let state = HoldState {
            nonce: *nonce,
            lock: lock.clone(),
            version: version.clone(),
            pointer: pointer.clone(),
            presence: None,
            sent: sent.clone(),
        };
        let (outcome, terms, state) = (self.outcome, self.terms, Mutex::new(state));
        Self { handle, outcome, terms, state, telling: Default::default() }
    }

    /// How the lock came to be held.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The lineage whose lock it is.
    pub fn handle(&self) -> &LineageHandle {
        &self.handle
    }

    /// The token that other processes of the same holder show to use this hold.
    pub async fn token(&self) -> Nonce {
        self.state.lock().await.nonce
    }

    /// The lock as it was written last.
    pub async fn lock(&self) -> Lock {
        self.state.lock().await.lock.clone()
    }

    /// The pointer as we wrote it last.
    pub async fn pointer(&self) -> Pointer {
        self.state.lock().await.pointer.pointer.clone()
    }

    /// The pointer as we wrote it last, with its version.
    pub async fn read(&self) -> VersionedPointer {
        self.state.lock().await.pointer.clone()
    }

    /// The snapshot that this holder builds on: the pointer's target when it was claimed, or the target of
    /// the holder's own last flip.
    pub async fn base(&self) -> Option<RecordId> {
        match self.state.lock().await.pointer.pointer.target() {
            Target::Record(record) => Some(record),
            Target::Nothing | Target::Foreign(_) => None,
        }
    }

    /// Whether the pointer still has this holder's claim, and the same target.
    pub async fn may_flip(&self) -> Result<bool> {
        let state = self.state.lock().await;
        let now = self.handle.pointer().await?;
        Ok(now.is_some_and(|now| self.handle.is_as_left(state.nonce, &state.pointer, &now)))
    }

    /// Moves the pointer to `target`, which was published.
    pub async fn flip(&self, target: RecordId) -> Result<Flip> {
        self.flip_as(target, self.handle.new_flip_id()).await
    }

    /// The note to store before a flip with this id is tried.
    pub async fn intended_flip(&self, flip_id: FlipId) -> IntendedFlip {
        IntendedFlip::on(&self.state.lock().await.pointer.pointer, flip_id)
    }

    /// The outcome of a flip to `target` that was intended before this hold began.
    pub async fn fate(&self, target: RecordId, meant: Option<IntendedFlip>) -> Fate {
        self.handle.fate(&self.state.lock().await.pointer, target, meant)
    }

    /// Sees to it that a flip to `target` of which we do not know whether it was made has been, or
    /// never will be.
    pub async fn overtake(&self, target: RecordId) -> Result<()> {
        let mut state = self.state.lock().await;
        let nonce = state.nonce;
        self.handle.overtake(nonce, &mut state.pointer, target).await
    }

    /// Moves the pointer to `target`, which was published, by a flip of this id.
    pub async fn flip_as(&self, target: RecordId, flip_id: FlipId) -> Result<Flip> {
        let (flip, event) = self.flip_verified(target, flip_id, None).await?;
        if let Some(event) = event {
            self.tell(&event).await;
        }
        Ok(flip)
    }

    /// The pointer as it is known, for a flip to a record that becomes live after this.
    pub async fn seen(&self) -> SeenPointer {
        let state = self.state.lock().await;
        SeenPointer { nonce: state.nonce, pointer: state.pointer.clone() }
    }

    /// Makes all checks of the flip from `seen` beside `living`, which makes a record live. So that
    /// flip is one round trip. If something is wrong, the flip checks again, and says why.
    pub async fn verified(
        &self,
        seen: SeenPointer,
        living: impl Future<Output = Result<Record>>,
    ) -> Result<(Record, Option<VerifiedFlip>)> {
        let (record, verified) = futures::future::join(living, self.handle.verify_flip(&seen)).await;
        let record = record?;
        let verified = verified.ok().map(|()| VerifiedFlip::new(seen, record.clone()));
        Ok((record, verified))
    }

    /// As [`Self::flip_as`], with the checks made already. The event is still to be [told](Self::tell).
    pub async fn flip_verified(
        &self,
        target: RecordId,
        flip_id: FlipId,
        verified: Option<VerifiedFlip>,
    ) -> Result<(Flip, Option<Event>)> {
        let mut state = self.state.lock().await;
        let nonce = state.nonce;
        let flipping = self.handle.flip(nonce, &mut state.pointer, target, flip_id, verified);
        let flipped = Box::pin(flipping).await;
        if let Err(error @ Error::LockLost { .. }) = &flipped {
            self.handle.tell_lost(error).await;
        }
        flipped
    }

    /// Stores the event of a flip, which the pointer carries until then. Else the pointer's next mover does.
    pub async fn tell(&self, event: &Event) {
        self.handle.store_event(event).await;
    }

    /// As [`Self::tell`], in the background. Only the release of the lock waits for it.
    pub fn tell_later(&self, event: Event) {
        let handle = self.handle.clone();
        *self.telling.lock() = Some(tokio::spawn(async move { handle.store_event(&event).await }));
    }

    /// Renews the lock once.
    pub async fn renew(&self) -> Result<Lock> {
        let mut state = self.state.lock().await;
        self.handle.renew(&mut state, self.terms).await?;
        Ok(state.lock.clone())
    }

    /// Gives the lock back.
    pub async fn release(&self) -> Result<()> {
        let telling = self.telling.lock().take();
        if let Some(telling) = telling {
            // If it came to nothing, the next move of the pointer does it.
            let _ = telling.await;
        }
        let mut state = self.state.lock().await;
        // An event that only this lock carries would go with it.
        self.handle.settle(state.lock.block().and_then(|block| block.event.as_ref())).await?;
        let is_ours =
            |lock: &Lock| lock.is_held_by(state.nonce) && (!self.terms.with_process || state.knows(lock));
        self.handle.release_lock(state.version.clone(), is_ours).await?;
        if let Some(presence) = state.presence.take() {
            presence.end();
        }
        Ok(())
    }

    /// Renews the lock every so often until the keeper is dropped.
    pub fn keep(self: &Arc<Self>, every: Duration) -> LockRenewer {
        let (sender, lost) = watch::channel(None);
        let (hold, asked) = (Arc::clone(self), Arc::new(Notify::new()));
        let heard = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = tokio::time::sleep(every) => {}
                    () = heard.notified() => {}
                }
                match hold.renew().await {
                    Ok(_) => {}
                    Err(error @ (Error::LockLost { .. } | Error::PointerMoved { .. })) => {
                        let _ = sender.send(Some(Arc::new(error)));
                        return;
                    }
                    // The store does not answer: that alone takes nothing from us.
                    Err(error) => {
                        tracing::warn!(%error, lineage = %hold.handle.lineage, "the lock could not be renewed");
                    }
                }
            }
        });
        LockRenewer { task, asked, lost }
    }
}

/// Keeps a lock renewed while it exists.
#[derive(Debug)]
pub struct LockRenewer {
    task: JoinHandle<()>,
    asked: Arc<Notify>,
    lost: watch::Receiver<Option<Arc<Error>>>,
}

impl LockRenewer {
    /// Renews no more.
    pub fn stop(&self) {
        self.task.abort();
    }

    /// Renews at once: somebody has reason to believe that the lock is lost.
    pub fn look(&self) {
        self.asked.notify_one();
    }

    /// How the lock was lost, if it was.
    pub fn loss(&self) -> Option<Arc<Error>> {
        self.lost.borrow().clone()
    }

    /// Waits until the lock is lost, perhaps for ever.
    pub async fn lost(&self) -> Arc<Error> {
        let mut lost = self.lost.clone();
        loop {
            if let Some(error) = lost.borrow_and_update().clone() {
                return error;
            }
            if lost.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for LockRenewer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
