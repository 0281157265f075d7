//! Orders snapshots by age, and tells how old each is.
//!
//! A record says when it was stored by the store's clock. One of an earlier pstore does not: of
//! it only the time of capture is known, by the clock of a host that may be wrong, and when its
//! object was last written, which is later than it was stored if a collection or a tag has
//! replaced it since. Such a one is taken for as young as any of the two says, and placed where
//! the earlier says.
//!
//! No write builds on a snapshot that is not there yet, so a snapshot comes after its parent, in spite of
//! any clock.

use std::collections::HashMap;

use super::clock::to_unix_ms;
use crate::{bucket::Stamp, format::record::Record, id::RecordId};

/// Compares as the snapshots followed each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgeOrder {
    at_ms: u64,
    /// Of those with the same time: how many of them it was built on.
    after: u32,
    record: RecordId,
}

impl AgeOrder {
    pub fn new(at_ms: u64, record: RecordId) -> Self {
        Self { at_ms, after: 0, record }
    }
}

/// A record, with the time and the place that order it.
#[derive(Clone, Debug)]
pub(crate) struct Dated {
    pub record: Record,
    /// When it was stored, by the store's clock; never earlier than that.
    pub stored_at_ms: u64,
    pub place: AgeOrder,
}

/// Records of one lineage as they were read, oldest first.
pub fn dated(read: Vec<(Record, Stamp)>) -> Vec<Dated> {
    let own: HashMap<RecordId, (Option<RecordId>, u64)> = read
        .iter()
        .map(|(record, stamp)| (record.record, (record.parent, placed_at_ms(record, stamp))))
        .collect();
    let mut places = HashMap::new();
    for (record, _) in &read {
        place(record.record, &own, &mut places);
    }
    let mut dated: Vec<Dated> = read
        .into_iter()
        .map(|(record, stamp)| {
            let place = places.get(&record.record).copied().unwrap_or(AgeOrder::new(0, record.record));
            Dated { stored_at_ms: stored_at_ms(&record, &stamp), place, record }
        })
        .collect();
    dated.sort_by_key(|dated| dated.place);
    dated
}

/// No earlier than it was, so that nothing is taken for too old.
fn stored_at_ms(record: &Record, stamp: &Stamp) -> u64 {
    let or_modified = || record.captured_at_ms.max(to_unix_ms(stamp.modified));
    record.stored_at_ms.unwrap_or_else(or_modified).min(to_unix_ms(stamp.now))
}

fn placed_at_ms(record: &Record, stamp: &Stamp) -> u64 {
    let or_captured = || record.captured_at_ms.min(to_unix_ms(stamp.modified));
    record.stored_at_ms.unwrap_or_else(or_captured).min(to_unix_ms(stamp.now))
}

/// Places a record, and before it all it was built on. `own`: the parent and the time of each.
fn place(
    record: RecordId,
    own: &HashMap<RecordId, (Option<RecordId>, u64)>,
    places: &mut HashMap<RecordId, AgeOrder>,
) {
    let (mut line, mut next) = (Vec::new(), Some(record));
    // A chain that leads back into itself, which no pstore writes, ends after a turn.
    while let Some(id) = next.filter(|id| !places.contains_key(id) && line.len() <= own.len()) {
        let Some((parent, _)) = own.get(&id) else { break };
        line.push(id);
        next = *parent;
    }
    for id in line.into_iter().rev() {
        let Some((parent, at_ms)) = own.get(&id) else { continue };
        let mut place = AgeOrder::new(*at_ms, id);
        if let Some(before) = parent.and_then(|parent| places.get(&parent))
            && before.at_ms >= place.at_ms
        {
            (place.at_ms, place.after) = (before.at_ms, before.after.saturating_add(1));
        }
        places.insert(id, place);
    }
}

#[cfg(test)]
mod tests;
