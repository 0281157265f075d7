//! Opens a snapshot without a lock, and pins it meanwhile.
//!
//! The pin is placed and confirmed while the metadata is fetched: the metadata is used only
//! if the second look found the record as it was, so the pin keeps it.

use std::{sync::Arc, time::Duration};

use super::{Opened, as_it_is_now};
use crate::{
    Error, ErrorKind, Result,
    bucket::RetryPolicy,
    catalog::{
        pins::{PinKeeper, Pinned, Placed},
        records::{current, deleted},
        rules::Rules,
    },
    content::{TenantStore, relocator::LOOKS, snapshot_tree::SnapshotTree},
    format::record::{Record, State},
    id::RecordId,
    name::Lineage,
};

/// Shorter than a mount's: a restore that is killed keeps nobody from deleting for long.
const TTL: Duration = Duration::from_secs(120);
const RENEW_EVERY: Duration = Duration::from_secs(30);
/// How often a snapshot is looked at that somebody is about to delete.
const ATTEMPTS: u32 = 5;

/// A pin, and its renewer.
pub type Kept = (Arc<Pinned>, PinKeeper);

/// How a pin is placed and kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    pub ttl: Duration,
    pub renew_every: Duration,
    pub rules: Rules,
}

/// The outcome of pinning a snapshot while it was opened.
pub(super) enum Attempt<T> {
    Kept(Kept, T),
    /// Its record changed meanwhile: one starts over from the record as it is now.
    Changed,
    /// The reader may not write to the store.
    Unpinned(Error, T),
}

impl<T> Attempt<T> {
    /// Pins a snapshot while `opening` reads it.
    pub(super) async fn on(
        store: &TenantStore,
        lineage: &Lineage,
        record: &Record,
        lasting: Lasting,
        opening: impl Future<Output = Result<T>>,
    ) -> Result<Self> {
        let pinning = async {
            let placed = match Placed::on(store, lineage, record, lasting.ttl, lasting.rules).await {
                Ok(placed) => placed,
                Err(error) if matches!(error.kind(), ErrorKind::Denied | ErrorKind::Io) => {
                    return Ok(Err(error));
                }
                Err(error) => return Err(error),
            };
            let pinned = placed.confirm().await?.map(Arc::new);
            // From now on: the metadata may take longer to come than the pin holds.
            Ok(Ok(pinned.map(|pinned| {
                let keeper = pinned.keep(lasting.renew_every);
                (pinned, keeper)
            })))
        };
        let (pinned, opened) = futures::future::join(pinning, opening).await;
        match (pinned?, opened) {
            (Ok(None), _) => Ok(Self::Changed),
            (Ok(Some(kept)), Ok(opened)) => Ok(Self::Kept(kept, opened)),
            (Ok(Some((pinned, _))), Err(error)) => {
                pinned.release().await;
                Err(error)
            }
            (Err(denied), opened) => Ok(Self::Unpinned(denied, opened?)),
        }
    }
}

/// Pins the snapshot while it is read, and reads its metadata.
pub async fn kept(store: &TenantStore, record: &Record, rules: Rules) -> Result<(Option<Kept>, Opened)> {
    kept_while(store, record, rules, |record| Opened::load(store, record)).await
}

/// Pins the snapshot while it is read, and opens its tree, of which more is read by need. The record is the one
/// that the tree was read by.
pub(in crate::ops) async fn kept_tree(
    store: &TenantStore,
    record: &Record,
) -> Result<(Option<Kept>, (Record, Arc<SnapshotTree>))> {
    let read = |record| async move { SnapshotTree::open(store, &record).await.map(Arc::new) };
    let open = |record| as_it_is_now(store, record, read);
    kept_while(store, record, Rules::ALL, open).await
}

/// Lets a snapshot go that was pinned while it was read.
pub(in crate::ops) async fn release(kept: Option<Kept>) {
    if let Some((pinned, _)) = kept {
        pinned.release().await;
    }
}

/// Pins the snapshot while it is read, and has `open` read the needed parts of it. A reader that may not
/// write to the store reads without a pin: deleted content stays for the grace of a collection.
async fn kept_while<T, F>(
    store: &TenantStore,
    record: &Record,
    rules: Rules,
    open: impl Fn(Record) -> F,
) -> Result<(Option<Kept>, T)>
where
    F: Future<Output = Result<T>>,
{
    let lineage = record.lineage();
    let lasting = Lasting { ttl: TTL, renew_every: RENEW_EVERY, rules };
    let mut record = record.clone();
    for _ in 0..LOOKS {
        match Attempt::on(store, &lineage, &record, lasting, open(record.clone())).await? {
            Attempt::Kept(kept, opened) => return Ok((Some(kept), opened)),
            // It was moved, or somebody is about to delete it.
            Attempt::Changed => record = decided(store, &lineage, record.record).await?,
            Attempt::Unpinned(error, opened) => {
                tracing::debug!(%error, "the snapshot is read without a pin");
                return Ok((None, opened));
            }
        }
    }
    Err(Error::Conflict { what: format!("record {} of {lineage}", record.record) })
}

/// The record once nobody is about to delete it: a deletion that finds it pinned gives up.
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
