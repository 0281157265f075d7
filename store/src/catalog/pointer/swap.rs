//! Replaces the pointer by compare-and-swap, and finds out the outcome.

use super::{LineageHandle, VersionedPointer, successor};
use crate::{
    Result,
    bucket::{BucketError, Write},
    format::{layout, pointer::Pointer},
    id::FlipId,
};

/// The outcome of a write.
pub(super) enum Swap {
    /// It was made. The pointer as it is now, which may have been written since.
    Applied(VersionedPointer),
    /// It was not made, and never will be: somebody else's was.
    Lost(Option<VersionedPointer>),
    /// It cannot be known.
    Unknown(String),
}

impl LineageHandle {
    /// Replaces `before` by itself in other bytes. `false` if it cannot be said that this
    /// was done: the caller looks again.
    pub(in crate::catalog) async fn touch(&self, before: Option<&VersionedPointer>) -> Result<bool> {
        self.notice_foreign(before).await;
        Ok(matches!(self.swap(before, &successor::touched(&self.lineage, before)).await?, Swap::Applied(_)))
    }

    /// Replaces `before` by `next`.
    ///
    /// While the pointer is the one that was read, nothing has happened yet, but a lost request may
    /// still arrive: it and the next one carry the same bytes and the same condition, so at
    /// most one of them applies. So the same bytes are sent until there is an answer.
    pub(super) async fn swap(&self, before: Option<&VersionedPointer>, next: &Pointer) -> Result<Swap> {
        let key = layout::latest(&self.lineage);
        let next = &self.forgetful(next.clone());
        let bytes = bytes::Bytes::from(next.encode());
        let write = before.map_or(Write::Create, |read| Write::Replace(read.version.clone()));
        let mut attempts = self.store.bucket.retry_policy().start();
        let mut ambiguous = false;
        loop {
            let error = match self.store.bucket.put(&key, bytes.clone().into(), write.clone()).await {
                Ok(version) => {
                    return Ok(Swap::Applied(VersionedPointer {
                        pointer: next.clone(),
                        version,
                        bytes,
                        is_readable: true,
                    }));
                }
                Err(error) => error,
            };
            match &error {
                BucketError::AlreadyExists { .. } | BucketError::VersionMismatch { .. } => {}
                BucketError::Contended { .. } => {}
                error if error.is_ambiguous() => ambiguous = true,
                // Definite for this request, but an earlier one may still arrive.
                _ if ambiguous => return Ok(Swap::Unknown(error.to_string())),
                _ => return Err(error.into()),
            }
            if !matches!(error, BucketError::Contended { .. }) {
                let now = match before.is_none_or(|read| read.is_readable) {
                    true => self.pointer().await,
                    false => self.pointer_or_damage().await,
                };
                let now = match now {
                    Ok(now) => now,
                    Err(error) => return Ok(Swap::Unknown(error.to_string())),
                };
                if now.as_ref().map(|read| &read.bytes) != before.map(|read| &read.bytes) {
                    return Ok(self.judge(before, next, now, ambiguous, &error));
                }
                if !self.rules.resolve_by_flip_id {
                    return Ok(Swap::Lost(now));
                }
            }
            if !attempts.again(&error).await {
                let reason = format!("the store gave no definite answer: {error}");
                return if ambiguous { Ok(Swap::Unknown(reason)) } else { Err(error.into()) };
            }
        }
    }

    /// As it is, unless it is not to remember anything.
    fn forgetful(&self, mut next: Pointer) -> Pointer {
        if !self.rules.remember_flips
            && let Some(block) = &mut next.pstore
        {
            block.recent.clear();
        }
        next
    }

    /// Judges a pointer that has changed since it was read: did we or somebody else write it?
    fn judge(
        &self,
        before: Option<&VersionedPointer>,
        next: &Pointer,
        now: Option<VersionedPointer>,
        ambiguous: bool,
        error: &BucketError,
    ) -> Swap {
        let id = |pointer: &Pointer| pointer.block().map(|block| block.flip_id);
        let knows = |wanted: Option<FlipId>| {
            let block = now.as_ref().and_then(|now| now.pointer.block());
            wanted
                .zip(block)
                .is_some_and(|(wanted, block)| block.flip_id == wanted || block.recent.contains(&wanted))
        };
        if !self.rules.resolve_by_flip_id {
            return Swap::Lost(now);
        }
        if knows(id(next))
            && let Some(now) = now
        {
            return Swap::Applied(now);
        }
        // Somebody else's write is built on what we read, so ours is not below it.
        if knows(before.and_then(|read| id(&read.pointer))) || !ambiguous {
            return Swap::Lost(now);
        }
        Swap::Unknown(format!("another program has moved it since, and {error}"))
    }
}
