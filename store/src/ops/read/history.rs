//! `history` follows the chain of snapshots that led to one.

use std::collections::{HashMap, HashSet};

use crate::{
    Error, ErrorKind, Result,
    catalog::records,
    content::TenantStore,
    format::record::{Record, State},
    id::RecordId,
    name::Lineage,
};

/// Snapshots that led to one another.
#[derive(Clone, Debug)]
pub struct History {
    /// Each captured on top of the next. Deleted ones are among them while their records
    /// are there.
    pub records: Vec<Record>,
    /// Why there are no more.
    pub end: End,
}

/// Why a chain goes no further back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// There was nothing before.
    First,
    /// The snapshot before is an archive of another program.
    Foreign {
        /// The digest of its archive, from the record after it.
        sha256: String,
    },
    /// The record of the snapshot before is gone.
    Deleted {
        /// That record.
        record: RecordId,
        /// The digest of its archive, from the record after it.
        sha256: String,
    },
    /// The record of the snapshot before is there, but cannot be read.
    Unreadable {
        /// That record.
        record: RecordId,
        /// The digest of its archive, from the record after it.
        sha256: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// The chain leads back into itself, which no pstore writes.
    Cycle {
        /// The record that comes for the second time.
        record: RecordId,
    },
}

/// The chain from `start` back to where it ends.
pub async fn history(store: &TenantStore, lineage: &Lineage, start: Record) -> Result<History> {
    // All records at once: one after the other would take a round trip for each.
    let listed = records::list(store, lineage).await?;
    let mut known = HashMap::new();
    for record in listed {
        match record {
            Ok(record) => {
                known.insert(record.record, record);
            }
            // It is told about if the chain leads to it.
            Err(error) if unreadable(&error) => {}
            Err(error) => return Err(error),
        }
    }
    let (records, stop) = chain(start, known);
    let end = match stop {
        Stop::At(end) => end,
        Stop::Unknown { record, sha256 } => match records::get(store, lineage, record).await {
            Err(error) if error.kind() == ErrorKind::NotFound => End::Deleted { record, sha256 },
            Err(error) if unreadable(&error) => End::Unreadable { record, sha256, reason: error.to_string() },
            Err(error) => return Err(error),
            // It was not there when the records were listed, so it does not come before any.
            Ok(_) => End::Cycle { record },
        },
    };
    Ok(History { records, end })
}

fn unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat)
}

enum Stop {
    At(End),
    /// A record that is not among those that are known.
    Unknown {
        record: RecordId,
        sha256: String,
    },
}

fn chain(start: Record, mut known: HashMap<RecordId, Record>) -> (Vec<Record>, Stop) {
    let mut seen = HashSet::from([start.record]);
    let mut records = vec![start];
    loop {
        let Some(last) = records.last() else { return (records, Stop::At(End::First)) };
        let sha256 = last.predecessor_sha256.clone();
        let end = match last.parent {
            None if sha256.is_empty() => End::First,
            None => End::Foreign { sha256 },
            Some(record) if !seen.insert(record) => End::Cycle { record },
            Some(record) => match known.remove(&record) {
                None => return (records, Stop::Unknown { record, sha256 }),
                Some(parent) if matches!(parent.state, State::Writing | State::Revoked) => {
                    let reason = "it was never finished".to_owned();
                    End::Unreadable { record, sha256, reason }
                }
                Some(parent) => {
                    records.push(parent);
                    continue;
                }
            },
        };
        return (records, Stop::At(end));
    }
}

#[cfg(test)]
mod tests;
