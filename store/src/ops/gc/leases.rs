//! Writers that a collection waits for, and those it takes for dead.

use super::roots::{Seen, look};
use crate::{
    Error, Result,
    bucket::RetryPolicy,
    catalog::{controls::Controls, records, rules::Rules},
    content::TenantStore,
    format::record::{Record, State},
    id::RecordId,
    name::Lineage,
};

const ATTEMPTS: u32 = 16;

/// What became of a write that a collection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocker {
    Writing,
    Ended,
    /// It was not heard of for too long, and is ended now, or would be.
    Revoked,
}

/// With `revoke` off nothing is written: the answer is what it would be.
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
        if !revoke || !rules.revoke_blockers || self::revoke(store, lineage, id, rules).await? {
            return Ok(Blocker::Revoked);
        }
        tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
    }
    Ok(Blocker::Writing)
}

/// Revokes a write: from now on it cannot publish. `false` if it has changed meanwhile.
///
/// A write that moves chunks replaces other records too: those are touched after it was
/// revoked, so that what it has read of them is no longer what is there. Until that is
/// done, the lease lists them and has not ended.
async fn revoke(store: &TenantStore, lineage: &Lineage, id: RecordId, rules: Rules) -> Result<bool> {
    let Some((mut record, version, _)) = records::find(store, lineage, id).await? else { return Ok(true) };
    let controls = Controls::new(store.clone(), lineage.clone(), Default::default());
    let mut version = version;
    if record.state == State::Writing {
        record.state = State::Revoked;
        record.lease_seq += 1;
        version = match controls.replace_record(&record, version).await {
            Ok(version) => version,
            Err(Error::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
    }
    if record.state != State::Revoked || record.updates.is_empty() {
        return Ok(record.state == State::Revoked);
    }
    for updated in record.updates.iter().filter(|_| rules.touch_after_revoking) {
        touch(&controls, *updated).await?;
    }
    settled(&controls, record, version).await
}

/// Replaces a record by itself in other bytes.
async fn touch(controls: &Controls, id: RecordId) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let Some((mut record, version, _)) = records::find(controls.store(), controls.lineage(), id).await?
        else {
            return Ok(());
        };
        if !matches!(record.state, State::Live | State::Trashed) {
            return Ok(());
        }
        record.lease_seq += 1;
        match controls.replace_record(&record, version).await {
            Err(Error::Conflict { .. }) => {}
            done => return done.map(|_| ()),
        }
    }
    Err(Error::Conflict { what: format!("record {id} of {}", controls.lineage()) })
}

async fn settled(controls: &Controls, mut record: Record, version: crate::bucket::Version) -> Result<bool> {
    record.updates.clear();
    record.lease_seq += 1;
    match controls.replace_record(&record, version).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Revokes a write that was not heard of for too long, as it was seen while marking. `false` if
/// it has done something since: what it needs now is for the next marking.
pub(super) async fn revoke_expired(
    store: &TenantStore,
    lineage: &Lineage,
    id: RecordId,
    rules: Rules,
) -> Result<bool> {
    match look(store, lineage, id).await? {
        Some(seen) if seen.has_expired() || !ended_or_writing(&seen) => {
            revoke(store, lineage, id, rules).await
        }
        Some(seen) => Ok(seen.state == State::Revoked),
        None => Ok(true),
    }
}

fn ended_or_writing(seen: &Seen) -> bool {
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
