//! `IntendedFlip` is a flip that was noted before it was tried, so that another process can finish it.
//!
//! Before the pointer is moved, the flip's id and the last move that was seen are written down
//! where they survive. A flip is made once: if the pointer remembers its id, it was made, and
//! later moves of the pointer were meant. The caller has claimed the pointer, so that
//! an attempt which is still on its way can no longer arrive.

use super::{ATTEMPTS, LineageHandle, VersionedPointer, successor, swap::Swap};
use crate::{
    Error, Result,
    bucket::RetryPolicy,
    format::pointer::{Pointer, Target},
    id::{FlipId, Nonce, RecordId},
};

/// The note of a flip, stored before it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntendedFlip {
    /// The id that it has, however often it is tried.
    pub flip_id: FlipId,
    /// The last move before it.
    pub seen: FlipId,
}

/// The outcome of an intended flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The pointer names its snapshot.
    Current,
    /// It was made, and somebody has moved the pointer since.
    Passed,
    /// It was not made, and nobody has moved the pointer: it may be made.
    Open,
    /// It was not made, and somebody has moved the pointer.
    Overtaken,
    /// The pointer remembers nothing of it.
    Unknown,
}

impl IntendedFlip {
    /// A flip that is about to be tried on `pointer`.
    pub(in crate::catalog) fn on(pointer: &Pointer, flip_id: FlipId) -> Self {
        let seen = pointer.block().map(|block| block.last_move().unwrap_or(block.flip_id));
        // Without a block nothing is remembered: then this is not either.
        Self { flip_id, seen: seen.unwrap_or(flip_id) }
    }
}

impl LineageHandle {
    /// The outcome of a flip to `target`, by a pointer that we have claimed since. Without `meant` only the
    /// target was noted.
    pub(in crate::catalog) fn fate(
        &self,
        now: &VersionedPointer,
        target: RecordId,
        meant: Option<IntendedFlip>,
    ) -> Fate {
        if now.pointer.target() == Target::Record(target) {
            return Fate::Current;
        }
        if !self.rules.flip_once {
            return Fate::Open;
        }
        let (Some(IntendedFlip { flip_id, seen }), Some(block)) = (meant, now.pointer.block()) else {
            return Fate::Unknown;
        };
        match block.last_move() {
            _ if block.knows(flip_id) => Fate::Passed,
            Some(last) if last == seen => Fate::Open,
            // What has never been moved is only claimed.
            None if block.knows(seen) => Fate::Open,
            _ if block.knows(seen) => Fate::Overtaken,
            _ => Fate::Unknown,
        }
    }

    /// Writes the pointer anew, which must still be ours: a flip to `target` whose answer was lost
    /// has arrived by then, or never will.
    pub(in crate::catalog) async fn overtake(
        &self,
        nonce: Nonce,
        own: &mut VersionedPointer,
        target: RecordId,
    ) -> Result<()> {
        for attempt in 1..=ATTEMPTS {
            let gone = || self.unknown(target, "the pointer was deleted".to_owned());
            *own = self.pointer().await?.ok_or_else(gone)?;
            self.must_be_ours(nonce, own).await?;
            self.notice_foreign(Some(&*own)).await;
            match self.swap(Some(&*own), &successor::again(own)).await? {
                Swap::Applied(now) => {
                    *own = now;
                    return Ok(());
                }
                Swap::Lost(_) => tokio::time::sleep(RetryPolicy::default().pause(attempt)).await,
                Swap::Unknown(reason) => return Err(self.unknown(target, reason)),
            }
        }
        Err(Error::Conflict { what: format!("the pointer of {}", self.lineage) })
    }
}
