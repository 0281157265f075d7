//! Empties the pointer of a profile that is deleted.
//!
//! It names nothing from then on, in bytes that nobody has read: a process that would make another
//! snapshot current has to read it again, finds it empty, and looks for the tombstone.

use super::{LineageHandle, VersionedPointer, successor, swap::Swap};
use crate::{Error, Result, bucket::RetryPolicy, catalog::tombstone, format::event::EventKind};

const ATTEMPTS: u32 = 16;

impl LineageHandle {
    /// Makes the pointer name nothing, unless somebody holds the lock. A damaged pointer goes, too. So does
    /// the claim: its holder must not move the pointer any more.
    pub async fn empty_pointer(&self, reason: &str) -> Result<()> {
        for attempt in 1..=ATTEMPTS {
            let before = self.pointer_or_damage().await?;
            self.require_free().await?;
            let old = before.as_ref().and_then(|read| read.pointer.block());
            self.settle(old.and_then(|block| block.event.as_ref())).await?;
            let event = before.as_ref().filter(|read| !read.pointer.is_empty()).map(|read| {
                let mut event = self.event(EventKind::Delete);
                event.reason = reason.to_owned();
                event.from_sha256_prefix = Some(read.pointer.active_sha256_prefix.clone());
                event.to_sha256_prefix = Some(String::new());
                event.flip_id = Some(self.new_flip_id());
                event
            });
            let next = successor::emptied(&self.lineage, before.as_ref(), event.clone());
            if let Swap::Applied(_) = self.swap(before.as_ref(), &next).await? {
                if let Some(event) = &event {
                    self.store_event(event).await;
                }
                return Ok(());
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(Error::Conflict { what: format!("the pointer of {}", self.lineage) })
    }

    /// Fails if the profile was deleted, by a pointer that was read: one that names a snapshot says
    /// that it was not. The caller has a lock or a record in the store by now.
    pub(super) async fn require_undeleted(&self, before: Option<&VersionedPointer>) -> Result<()> {
        let is_empty = before.is_none_or(|read| read.pointer.is_empty());
        if !is_empty || !self.rules.look_for_tombstone {
            return Ok(());
        }
        tombstone::require_none(&self.store, &self.lineage.name).await
    }
}
