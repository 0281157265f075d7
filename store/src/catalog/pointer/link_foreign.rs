//! Links a pointer that another program has moved to the snapshot that was made of its archive.

use super::{LineageHandle, VersionedPointer, successor, swap::Swap};
use crate::{Result, format::event::EventKind, id::RecordId};

impl LineageHandle {
    /// Notes in `before`, which names an archive that is no record's, that `target` was made of
    /// it. All else in the pointer stays as it is, and so does its claim; so no lock is
    /// needed. `false` if it cannot be said that this was done: the
    /// caller looks again.
    pub async fn recognise(&self, before: &VersionedPointer, target: RecordId) -> Result<bool> {
        let old = before.pointer.block();
        let (record, ()) = futures::future::try_join(
            self.live_record(target),
            self.settle(old.and_then(|block| block.event.as_ref())),
        )
        .await?;
        self.notice_foreign(Some(before)).await;
        let mut event = self.event(EventKind::Adopt);
        event.to_sha256_prefix = Some(before.pointer.active_sha256_prefix.clone());
        event.record = Some(target);
        event.flip_id = Some(self.new_flip_id());
        if !before.pointer.block().is_some_and(|block| block.contract_only_seen) {
            event.reason = "from now on every snapshot of this profile gets an archive".to_owned();
        }
        let next = successor::recognised(before, &record, event.clone());
        let swapped = self.swap(Some(before), &next).await?;
        if matches!(swapped, Swap::Applied(_)) {
            self.store_event(&event).await;
        }
        Ok(matches!(swapped, Swap::Applied(_)))
    }
}
