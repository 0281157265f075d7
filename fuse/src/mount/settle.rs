//! `settle` finds out what became of a commit that was cut short, or whose end could not be written down.

use std::sync::{Arc, atomic::Ordering};

use store::{
    Error, ErrorKind, Result,
    catalog::{
        lock::Hold,
        pointer::{Fate, IntendedFlip},
        records,
    },
    format::record::{Record, State},
    id::RecordId,
    ops::{archive::publish, pointer_move, read::open::OpenedTree},
    progress::Silent,
};

use super::{Mount, Snapshot};
use crate::{freeze::Taken, overlay::change::Intent};

/// What a session is after a commit of it was cut short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It goes on: the commit is finished, or never came about, or there was none.
    GoesOn,
    /// The snapshot was the current one, and somebody has moved the pointer since: the session is
    /// not built on what is current. It has left what it had committed, if `finished`.
    Passed { record: RecordId, finished: bool },
    /// Nobody knows whether the snapshot was ever the current one. It has this prefix, if it is
    /// still there.
    Unknown { record: RecordId, sha256_prefix: Option<String> },
}

impl Intent {
    /// What became of it, by the pointer that was claimed since.
    pub async fn fate(&self, hold: &Hold) -> Fate {
        hold.fate(self.record, self.flip).await
    }
}

impl Mount {
    /// Finds out what became of a commit that was cut short, and finishes it if it can be; its
    /// archive, if `archive` wants one, is stored before the pointer is moved. The pointer is
    /// moved only if it was not, and nobody else has moved it.
    pub async fn settle(&self, archive: &publish::PublishJob) -> Result<Settled> {
        let mut base = self.base.lock().await;
        self.settle_on(&mut base, Some(archive)).await
    }

    /// Finishes the commit before, if that is not done, so that another can begin: what it has
    /// taken cannot be told from the rest after another freeze.
    pub(super) async fn catch_up(
        &self,
        base: &mut Option<OpenedTree>,
        archive: Option<&publish::PublishJob>,
    ) -> Result<()> {
        let Some(intent) = self.fs.intent() else { return Ok(()) };
        let hold = self.own_hold()?;
        if intent.fate(hold).await != Fate::Current {
            hold.overtake(intent.record).await?;
        }
        match self.settle_on(base, archive).await? {
            Settled::GoesOn => {}
            Settled::Passed { record, .. } | Settled::Unknown { record, .. } => {
                let (lineage, reason) = (self.lineage.to_string(), "somebody else has moved it".to_owned());
                return Err(Error::PointerMoved { record: Some(record), lineage, reason });
            }
        }
        self.rebased.store(true, Ordering::Release);
        Ok(())
    }

    async fn settle_on(
        &self,
        base: &mut Option<OpenedTree>,
        archive: Option<&publish::PublishJob>,
    ) -> Result<Settled> {
        let Some(intent) = self.fs.intent() else { return Ok(Settled::GoesOn) };
        let (hold, record) = (self.own_hold()?, intent.record);
        let fate = intent.fate(hold).await;
        let found = match records::get(self.tenant()?, &self.lineage, record).await {
            Ok((found, _)) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let is_published = |found: &Record| !matches!(found.state, State::Writing | State::Revoked);
        let live = match found {
            Some(found) if found.state == State::Live => found,
            // It was deleted, so it may have been the current one.
            Some(found) if is_published(&found) && fate == Fate::Unknown => {
                return Ok(Settled::Unknown { record, sha256_prefix: None });
            }
            _ if fate == Fate::Passed => return Ok(Settled::Passed { record, finished: false }),
            _ => return self.never_came_about(record),
        };
        match (fate, intent.flip) {
            (Fate::Current, _) => {
                self.finish(base, intent, live).await?;
                tracing::info!(%record, "a commit that was cut short is finished");
                Ok(Settled::GoesOn)
            }
            (Fate::Passed, _) => {
                self.finish(base, intent, live).await?;
                Ok(Settled::Passed { record, finished: true })
            }
            (Fate::Open, Some(IntendedFlip { flip_id, .. })) if live.held_back.is_none() => {
                match pointer_move::flip(hold, live, flip_id, archive, Arc::new(Silent)).await {
                    Ok((flipped, _)) => {
                        self.finish(base, intent, flipped).await?;
                        tracing::info!(%record, "a commit that was cut short is finished");
                        Ok(Settled::GoesOn)
                    }
                    // It was not moved, and will not be.
                    Err(error) if error.kind() == ErrorKind::PointerNotFlipped => {
                        tracing::warn!(%record, %error, "a commit that was cut short could not be finished; its snapshot is stored");
                        self.never_came_about(record)
                    }
                    Err(error) => Err(error),
                }
            }
            (Fate::Open | Fate::Overtaken, _) => {
                tracing::warn!(%record, "a commit was cut short before the pointer was moved; its snapshot is stored");
                self.never_came_about(record)
            }
            (Fate::Unknown, _) => Ok(Settled::Unknown { record, sha256_prefix: Some(live.sha256_prefix()) }),
        }
    }

    /// The snapshot below is another one of the mounted profile now.
    pub(super) fn home_becomes(&self, record: RecordId) {
        if let Some(home) = &self.home {
            home.becomes(self.lineage.clone(), record);
        }
    }

    /// What it was to store is still among the changes of the session.
    fn never_came_about(&self, record: RecordId) -> Result<Settled> {
        self.fs.give_up_intent(record)?;
        Ok(Settled::GoesOn)
    }

    /// The snapshot is the one below, and what it holds leaves the session.
    async fn finish(&self, base: &mut Option<OpenedTree>, intent: Intent, record: Record) -> Result<()> {
        let id = record.record;
        let opened = OpenedTree::load(self.tenant()?, record).await?;
        let snapshot = Snapshot { lineage: self.lineage.clone(), opened };
        let unknown = || Error::Internal { what: "what the commit took is not known".to_owned() };
        let nodes = self.intended.lock().clone().ok_or_else(unknown)?;
        self.root(id).await?;
        let taken = Taken::again(nodes, intent.epoch, &self.fs.exclusions).await?;
        let onto = taken.stored_as(Arc::clone(&snapshot.opened.tree)).await?;
        let rebased = self.fs.rebase(&self.session, onto, snapshot.below()).map(drop);
        rebased.map_err(|error| behind(id, &error))?;
        self.home_becomes(id);
        *base = Some(snapshot.opened);
        self.keep_root_on(Some(id)).await;
        Ok(())
    }
}

/// A snapshot is the current one, and what it holds could not leave the session.
pub(super) fn behind(record: RecordId, error: &Error) -> Error {
    Error::SessionBehind { record, reason: error.to_string() }
}
