//! Moves the pointer without holding the lock, as operators do.

use super::{ATTEMPTS, Flip, LineageHandle, VersionedPointer, successor, swap::Swap};
use crate::{
    Result,
    bucket::RetryPolicy,
    format::{event::EventKind, pointer::Target},
    id::RecordId,
};

/// The log's words for the target of a pointer that had to be replaced unread.
const OVER_DAMAGE: &str = "(over a pointer that was damaged)";

/// An operator's move.
#[derive(Clone, Debug)]
pub struct Move {
    /// The record that becomes current.
    pub target: RecordId,
    /// Why, for the event.
    pub reason: String,
    /// Even while somebody holds the lock: that holder is fenced off. Even over a pointer that
    /// is damaged: its content is gone then.
    pub force: bool,
    /// The `active_sha256_prefix` that the pointer must have until then; any if it is not said.
    pub only_from: Option<String>,
}

impl LineageHandle {
    /// Moves the pointer, unless somebody holds the lock. The claim goes: its holder
    /// must not move the pointer back.
    pub async fn point(&self, wanted: &Move) -> Result<Flip> {
        self.point_for(EventKind::Rollback, wanted).await
    }

    /// As [`Self::point`], for another reason.
    pub async fn point_for(&self, kind: EventKind, wanted: &Move) -> Result<Flip> {
        self.try_point(kind, wanted).await.map_err(|error| self.not_flipped(wanted.target, error))
    }

    async fn try_point(&self, kind: EventKind, wanted: &Move) -> Result<Flip> {
        let target = wanted.target;
        for attempt in 1..=ATTEMPTS {
            let before = match wanted.force {
                true => self.pointer_or_damage().await?,
                false => self.pointer().await?,
            };
            let active = |read: &Option<VersionedPointer>| {
                read.as_ref().map(|read| read.pointer.active_sha256_prefix.clone())
            };
            if let Some(expected) = &wanted.only_from
                && active(&before).unwrap_or_default() != *expected
            {
                return Err(self.moved_from(expected));
            }
            if before.as_ref().is_some_and(|read| read.pointer.target() == Target::Record(target)) {
                return Ok(Flip::Unchanged);
            }
            let old = before.as_ref().and_then(|read| read.pointer.block());
            let (record, ()) = futures::future::try_join(
                self.live_record(target),
                self.settle(old.and_then(|block| block.event.as_ref())),
            )
            .await?;
            if !wanted.force {
                self.require_free().await?;
            }
            self.require_undeleted(before.as_ref()).await?;
            self.notice_foreign(before.as_ref()).await;
            let mut event = self.event(kind.clone());
            event.reason = wanted.reason.clone();
            if before.as_ref().is_some_and(|read| !read.is_readable) {
                event.reason = format!("{} {OVER_DAMAGE}", event.reason).trim().to_owned();
            }
            event.from_sha256_prefix = Some(active(&before).unwrap_or_default());
            event.to_sha256_prefix = Some(record.sha256_prefix());
            event.record = Some(target);
            let flip_id = self.new_flip_id();
            event.flip_id = Some(flip_id);
            let lease = old.and_then(|block| block.lease.clone()).filter(|_| !self.rules.drop_lease);
            let next =
                successor::moved(&self.lineage, before.as_ref(), &record, event.at_ms, lease, event.clone());
            let from = next.flipped_from_sha256_prefix.clone();
            match self.swap(before.as_ref(), &next).await? {
                Swap::Applied(_) => {
                    self.store_event(&event).await;
                    return Ok(Flip::Flipped { from, flip_id });
                }
                Swap::Lost(_) => tokio::time::sleep(RetryPolicy::default().pause(attempt)).await,
                Swap::Unknown(reason) => return Err(self.unknown(target, reason)),
            }
        }
        Err(self.moved_too_often(target))
    }
}
