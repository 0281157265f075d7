//! Finds the writers that a collection waits for, and those it takes for dead.

use super::roots::{SeenRecord, look};
use crate::{
    Result,
    bucket::RetryPolicy,
    catalog::{lease::revocation, rules::Rules},
    content::TenantStore,
    format::record::State,
    id::RecordId,
    name::Lineage,
};

const ATTEMPTS: u32 = 16;

/// The state of a write that a collection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocker {
    Writing,
    Ended,
    /// It was not heard of for too long, and is ended now, or would be.
    Revoked,
}

/// With `revoke` off nothing is written: the answer is the one that there would be.
pub(super) async fn settle(
    store: &TenantStore,
    lineage: &Lineage,
    id: RecordId,
    revoke: bool,
    rules: Rules,
) -> Result<Blocker> {
    for attempt in 1..=ATTEMPTS {
        let Some(seen) = look(store, lineage, id).await? else { return Ok(Blocker::Ended) };
        if seen.has_ended() {
            return Ok(Blocker::Ended);
        }
        if seen.state == State::Writing && !seen.has_expired() {
            return Ok(Blocker::Writing);
        }
        if !revoke || !rules.revoke_blockers || revocation::revoke(store, lineage, id, rules).await? {
            return Ok(Blocker::Revoked);
        }
        tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
    }
    Ok(Blocker::Writing)
}

/// Revokes a write that was not heard of for too long, as it was seen while marking. `false` if
/// it has done something since: its needs are for the next marking.
pub(super) async fn revoke_expired(
    store: &TenantStore,
    lineage: &Lineage,
    id: RecordId,
    rules: Rules,
) -> Result<bool> {
    match look(store, lineage, id).await? {
        Some(seen) if seen.has_expired() || !ended_or_writing(&seen) => {
            revocation::revoke(store, lineage, id, rules).await
        }
        Some(seen) => Ok(seen.state == State::Revoked),
        None => Ok(true),
    }
}

fn ended_or_writing(seen: &SeenRecord) -> bool {
    seen.has_ended() || seen.state == State::Writing
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        bucket::{Bucket, MemoryBucket, Write},
        catalog::{
            pins::tests::{ID, record},
            store::Store,
        },
        format::layout,
    };

    #[tokio::test]
    async fn a_write_that_has_become_a_snapshot_is_not_revoked() {
        for (state, is_revoked) in [("live", false), ("revoked", true)] {
            let memory = Arc::new(MemoryBucket::new());
            let store = Store::new(memory.clone(), None);
            let store = store.writable_tenant(&"acme".parse().unwrap()).await.unwrap();
            let name = "acme/alice".parse().unwrap();
            let lineage = Lineage { name, chrome_major: "131".parse().unwrap() };
            let bytes = record(store.key(), state, 0).encode();
            memory.put(&layout::record(&lineage, ID), bytes.into(), Write::Create).await.unwrap();
            let revoked = revoke_expired(&store, &lineage, ID, Rules::ALL).await.unwrap();
            assert_eq!(revoked, is_revoked, "{state}");
        }
    }
}
