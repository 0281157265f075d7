//! A lock that is held: the right to move the pointer.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, watch},
    task::JoinHandle,
};

use super::{Controls, Outcome, Terms, acquire::Taken};
use crate::{
    Error, Result,
    bucket::Version,
    catalog::pointer::{Flip, Read},
    format::{
        lock::Lock,
        pointer::{Pointer, Target},
    },
    id::{Nonce, RecordId},
};

/// The lock and the claim that came with it.
///
/// Lock order: the state's mutex is held across a whole renewal or flip, so that neither
/// sees the other half done; nothing else is locked inside.
#[derive(Debug)]
pub struct Hold {
    pub(super) controls: Controls,
    pub(super) outcome: Outcome,
    pub(super) terms: Terms,
    pub(super) state: Mutex<State>,
}

#[derive(Debug)]
pub(super) struct State {
    pub nonce: Nonce,
    pub lock: Lock,
    pub version: Version,
    /// Our own last write of the pointer.
    pub pointer: Read,
}

impl Hold {
    pub(super) fn new(controls: Controls, taken: Taken, pointer: Read, terms: Terms) -> Self {
        let Taken { nonce, lock, version, outcome, .. } = taken;
        Self { controls, outcome, terms, state: Mutex::new(State { nonce, lock, version, pointer }) }
    }

    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    pub fn controls(&self) -> &Controls {
        &self.controls
    }

    /// What other processes of the same holder show to use this hold.
    pub async fn token(&self) -> Nonce {
        self.state.lock().await.nonce
    }

    pub async fn lock(&self) -> Lock {
        self.state.lock().await.lock.clone()
    }

    /// The pointer as we wrote it last.
    pub async fn pointer(&self) -> Pointer {
        self.state.lock().await.pointer.pointer.clone()
    }

    /// The pointer as we wrote it last, with its version.
    pub async fn read(&self) -> Read {
        self.state.lock().await.pointer.clone()
    }

    /// The snapshot this holder starts from: what the pointer named when it was claimed.
    pub async fn base(&self) -> Option<RecordId> {
        match self.state.lock().await.pointer.pointer.target() {
            Target::Record(record) => Some(record),
            Target::Nothing | Target::Foreign(_) => None,
        }
    }

    /// Moves the pointer to `target`, which was published.
    pub async fn flip(&self, target: RecordId) -> Result<Flip> {
        let mut state = self.state.lock().await;
        let nonce = state.nonce;
        let flipped = self.controls.flip(nonce, &mut state.pointer, target).await;
        if let Err(error @ Error::LockLost { .. }) = &flipped {
            self.controls.tell_lost(error).await;
        }
        flipped
    }

    /// Renews the lock once.
    pub async fn renew(&self) -> Result<Lock> {
        let mut state = self.state.lock().await;
        self.controls.renew(&mut state, self.terms).await?;
        Ok(state.lock.clone())
    }

    /// Gives the lock back.
    pub async fn release(&self) -> Result<()> {
        let state = self.state.lock().await;
        // An event that only this lock carries would go with it.
        self.controls.settle(state.lock.block().and_then(|block| block.event.as_ref())).await?;
        self.controls.release_lock(state.nonce, state.version.clone()).await
    }

    /// Renews the lock every so often until the keeper is dropped.
    pub fn keep(self: &Arc<Self>, every: Duration) -> Keeper {
        let (sender, lost) = watch::channel(None);
        let hold = Arc::clone(self);
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                match hold.renew().await {
                    Ok(_) => {}
                    Err(error @ (Error::LockLost { .. } | Error::PointerMoved { .. })) => {
                        let _ = sender.send(Some(Arc::new(error)));
                        return;
                    }
                    // The store does not answer: that alone takes nothing from us.
                    Err(error) => {
                        tracing::warn!(%error, lineage = %hold.controls.lineage, "the lock could not be renewed");
                    }
                }
            }
        });
        Keeper { task, lost }
    }
}

/// Keeps a lock renewed while it exists.
#[derive(Debug)]
pub struct Keeper {
    task: JoinHandle<()>,
    lost: watch::Receiver<Option<Arc<Error>>>,
}

impl Keeper {
    /// Renews no more.
    pub fn stop(&self) {
        self.task.abort();
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

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}
