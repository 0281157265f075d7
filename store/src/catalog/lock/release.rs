//! Releases the lock.

use super::{LineageHandle, ReadLock};
use crate::{
    Result,
    bucket::{BucketError, Version, Write},
    format::{layout, lock::Lock},
    id::Nonce,
};

impl LineageHandle {
    /// Gives back the lock known by `nonce` as it was read; `false` if it is another one.
    pub async fn release(&self, nonce: Nonce, read: ReadLock) -> Result<bool> {
        if !read.lock.is_held_by(nonce) {
            return Ok(false);
        }
        // An event that only this lock carries would go with it.
        self.settle(read.lock.block().and_then(|block| block.event.as_ref())).await?;
        self.release_lock(read.version, |lock| lock.is_held_by(nonce)).await?;
        Ok(true)
    }

    /// Replaces our lock by a free one. It is never deleted: a delete has no condition on
    /// every store, and could hit the lock of the next holder.
    pub(super) async fn release_lock(&self, version: Version, is_ours: impl Fn(&Lock) -> bool) -> Result<()> {
        let key = layout::lock(&self.lineage);
        if !self.rules.release_by_replacing {
            return Ok(self.store.bucket.delete(&key).await?);
        }
        let mut version = version;
        let mut attempts = self.store.bucket.retry_policy().start();
        loop {
            let free = self.free_lock("", None);
            let error = match self.store.bucket.put(&key, free.encode().into(), Write::Replace(version)).await
            {
                Ok(_) => return Ok(()),
                Err(
                    error @ (BucketError::VersionMismatch { .. }
                    | BucketError::Contended { .. }
                    | BucketError::Unavailable { .. }),
                ) => error,
                Err(error) => return Err(error.into()),
            };
            match self.lock().await? {
                Some(ReadLock { lock, version: now, .. }) if is_ours(&lock) => version = now,
                // Given back by this very request, or taken by somebody else: not ours in any case.
                _ => return Ok(()),
            }
            if !attempts.again(&error).await {
                return Err(error.into());
            }
        }
    }
}
