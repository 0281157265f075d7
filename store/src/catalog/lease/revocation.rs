//! Revokes the write of another process.

use crate::{
    Error, Result,
    bucket::Version,
    catalog::{lineage_handle::LineageHandle, records, rules::Rules},
    content::TenantStore,
    format::record::{Record, State},
    id::RecordId,
    name::Lineage,
};

/// How often a record is read again that others change at the same time.
const ATTEMPTS: u32 = 16;

/// Revokes a write: from now on it cannot publish. `false` if it has changed meanwhile.
///
/// A write that moves chunks replaces other records too: those are touched after it was
/// revoked, so that the versions it has read of them are out of date. Until that is
/// done, the lease lists them and has not ended.
pub async fn revoke(store: &TenantStore, lineage: &Lineage, id: RecordId, rules: Rules) -> Result<bool> {
    let Some((mut record, version, _)) = records::find(store, lineage, id).await? else { return Ok(true) };
    let handle = LineageHandle::new(store.clone(), lineage.clone(), Default::default());
    let mut version = version;
    if record.state == State::Writing {
        record.state = State::Revoked;
        record.lease_seq += 1;
        version = match handle.replace_record(&record, version).await {
            Ok(version) => version,
            Err(Error::Conflict { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
    }
    if record.state != State::Revoked || record.updates.is_empty() {
        return Ok(record.state == State::Revoked);
    }
    for updated in record.updates.iter().filter(|_| rules.touch_after_revoking) {
        touch(&handle, *updated).await?;
    }
    settled(&handle, record, version).await
}

/// Replaces a record by itself in other bytes.
async fn touch(handle: &LineageHandle, id: RecordId) -> Result<()> {
    for _ in 0..ATTEMPTS {
        let Some((mut record, version, _)) = records::find(handle.store(), handle.lineage(), id).await?
        else {
            return Ok(());
        };
        if !matches!(record.state, State::Live | State::Trashed) {
            return Ok(());
        }
        record.lease_seq += 1;
        match handle.replace_record(&record, version).await {
            Err(Error::Conflict { .. }) => {}
            done => return done.map(|_| ()),
        }
    }
    Err(Error::Conflict { what: format!("record {id} of {}", handle.lineage()) })
}

async fn settled(handle: &LineageHandle, mut record: Record, version: Version) -> Result<bool> {
    record.updates.clear();
    record.lease_seq += 1;
    match handle.replace_record(&record, version).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}
