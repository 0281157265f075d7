//! A snapshot that is read from beginning to end, and kept meanwhile.

use std::{sync::Arc, time::Duration};

use super::Opened;
use crate::{
    Error, ErrorKind, Result,
    bucket::RetryPolicy,
    catalog::pin::{PinKeeper, Pinned, Placed, deleted},
    content::{TenantStore, whereabouts::LOOKS},
    format::record::{Record, State},
    id::RecordId,
    name::Lineage,
    ops::moved::{current, lineage_of},
};

/// Shorter than a mount's: who is killed while it restores keeps nobody from deleting for long.
const TTL: Duration = Duration::from_secs(120);
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// How often a snapshot is looked at that somebody is about to delete.
const ATTEMPTS: u32 = 5;

/// A pin, and what renews it.
pub type Kept = (Arc<Pinned>, PinKeeper);

/// Pins the snapshot while it is read, and reads its metadata. Who may not write to the store
/// reads without: what is deleted meanwhile stays for the grace of a collection.
pub async fn kept(store: &TenantStore, record: &Record) -> Result<(Option<Kept>, Opened)> {
    let lineage = lineage_of(record);
    let mut record = record.clone();
    for _ in 0..LOOKS {
        let pinning = async {
            match Placed::on(store, &lineage, &record, TTL).await {
                Ok(placed) => Ok(Some(placed.confirm().await?)),
                Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Io) => {
                    tracing::debug!(%error, "the snapshot is read without a pin");
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        };
        let (pinned, opened) = futures::future::join(pinning, Opened::load(store, record.clone())).await;
        match pinned? {
            None => return Ok((None, opened?)),
            Some(Some(pinned)) => {
                let pinned = Arc::new(pinned);
                let opened = match opened {
                    Ok(opened) => opened,
                    Err(error) => {
                        pinned.release().await;
                        return Err(error);
                    }
                };
                let keeper = pinned.keep(RENEW_EVERY);
                return Ok((Some((pinned, keeper)), opened));
            }
            // It was moved, or somebody is about to delete it.
            Some(None) => record = decided(store, &lineage, record.record).await?,
        }
    }
    Err(Error::Conflict { what: format!("record {} of {lineage}", record.record) })
}

/// The record once nobody is about to delete it: who finds it pinned gives that up.
async fn decided(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<Record> {
    for attempt in 1..=ATTEMPTS {
        let record = current(store, lineage, id).await?;
        if record.state == State::Live {
            return Ok(record);
        }
        tokio::time::sleep(RetryPolicy::default().pause(attempt)).await;
    }
    Err(deleted(lineage, id))
}
