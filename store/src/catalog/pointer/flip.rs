//! Moves the pointer as the holder of the lock.

use super::{ATTEMPTS, Flip, LineageHandle, VersionedPointer, successor, swap::Swap};
use crate::{
    Error, Result,
    bucket::RetryPolicy,
    catalog::records,
    format::{
        Unknown,
        event::{Event, EventKind},
        pointer::{Claim, Target},
        record::{Record, State},
    },
    id::{FlipId, Nonce, RecordId},
};

/// The pointer as its holder knew it before the record of a snapshot became live.
#[derive(Clone, Debug)]
pub struct SeenPointer {
    pub(in crate::catalog) nonce: Nonce,
    pub(in crate::catalog) pointer: VersionedPointer,
}

/// Proof that a flip from one version of the pointer may be tried: after that version was known, the lock was
/// ours and the record was made live. A process that takes the lock or trashes the record after that changes
/// the pointer, so the flip fails.
#[derive(Clone, Debug)]
pub struct VerifiedFlip(Box<(SeenPointer, Record)>);

impl VerifiedFlip {
    /// `record` was made live, and [`LineageHandle::verify_flip`] has succeeded, both after `seen` was seen.
    pub(in crate::catalog) fn new(seen: SeenPointer, record: Record) -> Self {
        Self(Box::new((seen, record)))
    }

    /// Whether this is about that flip.
    fn holds(&self, nonce: Nonce, own: &VersionedPointer, target: RecordId) -> bool {
        let (seen, record) = &*self.0;
        seen.nonce == nonce && seen.pointer.version == own.version && record.record == target
    }
}

impl LineageHandle {
    /// Moves the pointer to `target`, which was published, under the claim of `nonce`.
    /// `own` is our own last write of the pointer, and is kept up to date. Every attempt has the
    /// id `flip_id`: one that was lost never arrives later. The event is in the pointer, and not stored yet.
    ///
    /// On every failure the snapshot is stored all the same, and the error says so.
    pub(in crate::catalog) async fn flip(
        &self,
        nonce: Nonce,
        own: &mut VersionedPointer,
        target: RecordId,
        flip_id: FlipId,
        verified: Option<VerifiedFlip>,
    ) -> Result<(Flip, Option<Event>)> {
        let flipped = self.try_flip(nonce, own, target, flip_id, verified).await;
        flipped.map_err(|error| self.not_flipped(target, error))
    }

    /// Whether the holder may flip from `seen`, once `record` was made live: all that a flip looks at after it has
    /// read the pointer.
    pub(in crate::catalog) async fn verify_flip(&self, seen: &SeenPointer) -> Result<()> {
        let SeenPointer { nonce, pointer } = seen;
        self.must_be_ours(*nonce, pointer).await?;
        let settled = self.settle(pointer.pointer.block().and_then(|block| block.event.as_ref()));
        futures::future::try_join(settled, self.require_lock(*nonce)).await.map(drop)
    }

    async fn try_flip(
        &self,
        nonce: Nonce,
        own: &mut VersionedPointer,
        target: RecordId,
        flip_id: FlipId,
        mut verified: Option<VerifiedFlip>,
    ) -> Result<(Flip, Option<Event>)> {
        for attempt in 1..=ATTEMPTS {
            self.must_be_ours(nonce, own).await?;
            if own.pointer.target() == Target::Record(target) {
                // That it names it already must be true now, and not only when it was claimed.
                match self.pointer().await? {
                    Some(now) if now.version == own.version => return Ok((Flip::Unchanged, None)),
                    Some(now) => self.follow(nonce, own, now)?,
                    None => return Err(self.deleted(target)),
                }
                continue;
            }
            let record = match verified.take().filter(|verified| verified.holds(nonce, own, target)) {
                Some(verified) => verified.0.1,
                None => {
                    // The event of the move before is stored before the pointer forgets it.
                    let (record, (), ()) = futures::future::try_join3(
                        self.live_record(target),
                        self.settle(own.pointer.block().and_then(|block| block.event.as_ref())),
                        self.require_lock(nonce),
                    )
                    .await?;
                    record
                }
            };
            let mut event = self.event(EventKind::Flip);
            event.from_sha256_prefix = Some(own.pointer.active_sha256_prefix.clone());
            event.to_sha256_prefix = Some(record.sha256_prefix());
            event.record = Some(target);
            event.flip_id = Some(flip_id);
            let lease = Claim { nonce, base: Some(target), unknown: Unknown::new() };
            let next = successor::moved(
                &self.lineage,
                Some(&*own),
                &record,
                event.at_ms,
                Some(lease),
                event.clone(),
            );
            let from = next.flipped_from_sha256_prefix.clone();
            match self.swap(Some(&*own), &next).await? {
                Swap::Applied(now) => {
                    *own = now;
                    return Ok((Flip::Flipped { from, flip_id }, Some(event)));
                }
                Swap::Lost(Some(now)) => {
                    tracing::debug!(lineage = %self.lineage, attempt, "the pointer moved while it was being flipped");
                    self.notice_foreign(Some(&now)).await;
                    self.follow(nonce, own, now)?;
                    tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
                }
                Swap::Lost(None) => {
                    return Err(self.deleted(target));
                }
                Swap::Unknown(reason) => return Err(self.unknown(target, reason)),
            }
        }
        Err(self.moved_too_often(target))
    }

    /// Goes on from the present pointer. Nobody else moves it under our claim, unless this
    /// machine was resumed from an image more than once, or the token was shown to two who work
    /// at the same time: the first to move it wins.
    fn follow(&self, nonce: Nonce, own: &mut VersionedPointer, now: VersionedPointer) -> Result<()> {
        let is_claimed = now.lease().is_some_and(|lease| lease.nonce == nonce);
        if is_claimed && !self.is_as_left(nonce, own, &now) {
            let reason = format!(
                "it names {:?} now, moved under the same claim by another process",
                now.pointer.active_sha256_prefix
            );
            return Err(Error::PointerMoved { record: None, lineage: self.lineage.to_string(), reason });
        }
        *own = now;
        Ok(())
    }

    /// Whether `now` still has our claim, which is known by `nonce`, and the target of `own`,
    /// the pointer as we know it. An archive of somebody else's may have been recognised
    /// meanwhile.
    pub(in crate::catalog) fn is_as_left(
        &self,
        nonce: Nonce,
        own: &VersionedPointer,
        now: &VersionedPointer,
    ) -> bool {
        let (Some(was), Some(is)) = (own.lease(), now.lease()) else { return false };
        let recognised = || {
            let event = now.pointer.block().and_then(|block| block.event.as_ref());
            event.is_some_and(|event| event.kind == EventKind::Adopt)
        };
        let is_ours = was.nonce == nonce && is.nonce == nonce;
        is_ours && (was.base == is.base || recognised() || !self.rules.fence_twins)
    }

    fn deleted(&self, target: RecordId) -> Error {
        let reason = "the pointer was deleted".to_owned();
        Error::PointerMoved { record: Some(target), lineage: self.lineage.to_string(), reason }
    }

    /// A pointer that carries another claim, or none, was taken from us.
    pub(super) async fn must_be_ours(&self, nonce: Nonce, read: &VersionedPointer) -> Result<()> {
        let Some(block) = read.pointer.block() else { return Ok(()) };
        if !self.rules.claim || block.lease.as_ref().is_some_and(|lease| lease.nonce == nonce) {
            return Ok(());
        }
        self.require_undeleted(Some(read)).await?;
        self.require_lock(nonce).await?;
        let reason = format!("it names {:?} now, moved by an operator", read.pointer.active_sha256_prefix);
        Err(Error::PointerMoved { record: None, lineage: self.lineage.to_string(), reason })
    }

    /// The record, which must be live; looked at after the pointer was read.
    pub(super) async fn live_record(&self, target: RecordId) -> Result<Record> {
        let (record, _) = records::get(&self.store, &self.lineage, target).await?;
        if record.state == State::Live || !self.rules.record_after_pointer {
            return Ok(record);
        }
        let reason = format!("its record is {:?}", record.state).to_lowercase();
        Err(Error::PointerNotFlipped { record: target, lineage: self.lineage.to_string(), reason })
    }

    pub(super) fn unknown(&self, record: RecordId, reason: String) -> Error {
        Error::PointerUnknown { record, lineage: self.lineage.to_string(), reason }
    }

    /// The pointer is not, or no longer, where somebody expects it to be.
    pub fn moved_from(&self, expected: &str) -> Error {
        let reason = format!("it does not name {expected} any more");
        Error::PointerMoved { record: None, lineage: self.lineage.to_string(), reason }
    }

    pub(super) fn moved_too_often(&self, record: RecordId) -> Error {
        let reason = format!("others moved it {ATTEMPTS} times meanwhile");
        Error::PointerNotFlipped { record, lineage: self.lineage.to_string(), reason }
    }

    /// Says of any failure that the snapshot itself is stored.
    pub(super) fn not_flipped(&self, target: RecordId, error: Error) -> Error {
        match error {
            error @ (Error::PointerNotFlipped { .. } | Error::PointerUnknown { .. }) => error,
            Error::LockLost { lineage, holder, .. } => {
                Error::LockLost { record: Some(target), lineage, holder }
            }
            Error::PointerMoved { lineage, reason, .. } => {
                Error::PointerMoved { record: Some(target), lineage, reason }
            }
            error @ (Error::LockHeld { .. } | Error::Deleted { .. }) => error,
            error => Error::PointerNotFlipped {
                record: target,
                lineage: self.lineage.to_string(),
                reason: error.to_string(),
            },
        }
    }
}
