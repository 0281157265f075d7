//! Claims the pointer: writes the nonce of a lock into it.
//!
//! From the moment a pointer carries a claim, only the holder with that claim can move it on
//! the strength of a lock: a holder that was replaced is fenced off, however long it slept.
//! The claim also names the snapshot that the holder starts from, which keeps that from being collected.

use super::{LineageHandle, VersionedPointer, successor, swap::Swap};
use crate::{
    Error, ErrorKind, Result,
    bucket::RetryPolicy,
    format::{
        Unknown,
        pointer::{Claim, Pointer, Target},
    },
    id::Nonce,
};

/// Every lost attempt means that somebody else has written; more than this is no accident.
const ATTEMPTS: u32 = 16;

/// The lock that a pointer is claimed for.
pub(in crate::catalog) struct GrantedLock {
    pub nonce: Nonce,
    /// The pointer as it was before the lock was taken.
    pub pointer: Option<VersionedPointer>,
    /// Whether a program that knows only the contract had it before.
    pub after_contract_only: bool,
}

impl LineageHandle {
    /// Claims the pointer for the lock that was `granted`, which must still be held.
    ///
    /// The new pointer is made of the one read *before* the lock was taken: that the lock was granted
    /// after it counts as the look at the lock.
    ///
    /// `instead_of` is the claim that this one replaces, and the pointer as we know it: if that is no
    /// longer there, somebody else has worked on the profile, and the lock is as good as lost.
    pub(in crate::catalog) async fn claim(
        &self,
        granted: GrantedLock,
        instead_of: Option<(Nonce, &VersionedPointer)>,
    ) -> Result<VersionedPointer> {
        let GrantedLock { nonce, pointer, after_contract_only } = granted;
        let mut seen = Some(pointer);
        for attempt in 1..=ATTEMPTS {
            let before = match seen.take() {
                Some(before) => before,
                None => {
                    let before = self.pointer().await?;
                    self.require_lock(nonce).await?;
                    before
                }
            };
            if let Some((old, own)) = instead_of
                && !before.as_ref().is_some_and(|now| self.is_as_left(old, own, now))
            {
                return Err(self.lost(None));
            }
            self.notice_foreign(before.as_ref()).await;
            let base = match before.as_ref().map(|read| read.pointer.target()) {
                Some(Target::Record(record)) => Some(record),
                _ => None,
            };
            let lease = Claim { nonce, base, unknown: Unknown::new() };
            let next = successor::claimed(&self.lineage, before.as_ref(), lease, after_contract_only);
            // Beside each other: a claim on a pointer that names nothing harms nobody, and nobody goes on
            // with it who finds a tombstone.
            let looking = self.require_undeleted(before.as_ref());
            let (swapped, looked) = futures::future::join(self.swap(before.as_ref(), &next), looking).await;
            looked?;
            match swapped? {
                Swap::Applied(now) if now.lease().is_some_and(|lease| lease.nonce == nonce) => {
                    return Ok(now);
                }
                // Claiming says the same however often it is done, so it is simply done again.
                Swap::Applied(_) | Swap::Lost(_) | Swap::Unknown(_) => {
                    tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
                }
            }
        }
        Err(Error::Conflict { what: format!("the pointer of {}", self.lineage) })
    }

    /// Takes any claim off the pointer: its holder can then neither move the pointer
    /// nor take its lock again.
    pub(in crate::catalog) async fn withdraw_claim(&self) -> Result<()> {
        if !self.rules.drop_lease {
            return Ok(());
        }
        self.amend(|before| before.filter(|read| read.lease().is_some()).map(successor::unclaimed)).await
    }

    /// Writes into the pointer that a program was seen at the lock which knows only the contract,
    /// before the lock that tells so is taken away. What was claimed stays so.
    pub(in crate::catalog) async fn remember_contract_only(&self) -> Result<()> {
        let is_known = |read: &VersionedPointer| read.pointer.contract_only_seen();
        self.amend(|before| {
            (!before.is_some_and(is_known)).then(|| successor::witnessed(&self.lineage, before))
        })
        .await
    }

    /// Replaces the pointer by what `next` makes of it, until `next` makes nothing new.
    async fn amend(&self, next: impl Fn(Option<&VersionedPointer>) -> Option<Pointer>) -> Result<()> {
        for attempt in 1..=ATTEMPTS {
            let before = match self.pointer().await {
                Ok(before) => before,
                // What cannot be read cannot be moved either.
                Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            let Some(next) = next(before.as_ref()) else { return Ok(()) };
            if matches!(self.swap(before.as_ref(), &next).await?, Swap::Applied(_)) {
                return Ok(());
            }
            tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
        }
        Err(Error::Conflict { what: format!("the pointer of {}", self.lineage) })
    }
}
