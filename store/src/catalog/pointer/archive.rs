//! Writes into the pointer the archive that its snapshot has got since the pointer was moved to it.

use super::{ATTEMPTS, LineageHandle, successor, swap::Swap};
use crate::{
    Error, Result,
    bucket::RetryPolicy,
    format::{pointer::Target, record::State},
    id::RecordId,
};

impl LineageHandle {
    /// Makes the contract's fields name the archive of `target`, if the pointer points at it:
    /// says whether it does. Whose claim the pointer is under does not change, so a holder goes
    /// on as after any other touch.
    pub async fn name_archive(&self, target: RecordId) -> Result<bool> {
        for attempt in 1..=ATTEMPTS {
            let Some(before) = self.pointer().await? else { return Ok(false) };
            if before.pointer.target() != Target::Record(target) {
                return Ok(false);
            }
            // After the pointer, as a flip does it: a deletion touches the pointer last.
            let record = self.live_record(target).await?;
            if record.state != State::Live || record.archive_sha256.is_none() {
                return Ok(false);
            }
            let next = successor::named(&self.lineage, &before, &record);
            if next.active_sha256_prefix == before.pointer.active_sha256_prefix {
                return Ok(true);
            }
            match self.swap(Some(&before), &next).await? {
                Swap::Applied(_) => return Ok(true),
                Swap::Lost(_) => tokio::time::sleep(RetryPolicy::default().pause(attempt)).await,
                Swap::Unknown(reason) => return Err(self.unknown(target, reason)),
            }
        }
        Err(Error::Conflict { what: format!("the pointer of {}", self.lineage) })
    }
}
