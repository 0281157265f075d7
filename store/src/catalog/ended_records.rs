//! `EndedRecords` remembers which records of a lineage have ended, as far as this host has read them.
//!
//! A tombstone stays one, and so does a revoked write. A record counts as ended only while the
//! store lists it just as it was when that was read: of another size or time, it is read again.
//! So a bucket that was put back to an earlier state is seen as it is.

use std::{
    collections::{BTreeMap, HashSet},
    time::UNIX_EPOCH,
};

use crate::{
    bucket::Entry,
    content::{TenantStore, cache::CacheKind},
    format::layout,
    id::RecordId,
    name::Lineage,
};

const LINE_BYTES: usize = 16 + 8 + 8;

/// See the module header. How each of them was listed: its size and its time.
#[derive(Debug, Default)]
pub(super) struct EndedRecords {
    name: String,
    lines: BTreeMap<RecordId, (u64, u64)>,
}

impl EndedRecords {
    pub(super) fn load(store: &TenantStore, lineage: &Lineage) -> Self {
        let name = blake3::hash(lineage.to_string().as_bytes()).to_hex()[..32].to_owned();
        let bytes = store.cache.as_ref().and_then(|cache| cache.read(CacheKind::Ended, &name));
        let bytes = bytes.unwrap_or_default();
        let lines = bytes.chunks_exact(LINE_BYTES).map(|line| {
            let number = |from: usize| u64::from_le_bytes(std::array::from_fn(|at| line[from + at]));
            let id = RecordId::from_bytes(std::array::from_fn(|at| line[at]));
            (id, (number(16), number(24)))
        });
        Self { name, lines: lines.collect() }
    }

    /// Whether the record that is listed so is known to have ended.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let known = layout::record_of(&entry.key).and_then(|id| self.lines.get(&id));
        known.is_some_and(|line| *line == line_of(entry))
    }

    /// These have ended too, of those that are listed; the others are known no longer.
    pub(super) fn learn(&mut self, store: &TenantStore, listed: &[Entry], over: &HashSet<RecordId>) {
        let Some(cache) = &store.cache else { return };
        let mut lines = BTreeMap::new();
        for entry in listed {
            let Some(id) = layout::record_of(&entry.key) else { continue };
            if self.has(entry) || over.contains(&id) {
                lines.insert(id, line_of(entry));
            }
        }
        if lines == self.lines {
            return;
        }
        self.lines = lines;
        let mut bytes = Vec::with_capacity(self.lines.len() * LINE_BYTES);
        for (id, (size, modified)) in &self.lines {
            bytes.extend_from_slice(&id.to_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            bytes.extend_from_slice(&modified.to_le_bytes());
        }
        cache.write(CacheKind::Ended, &self.name, &bytes);
    }
}

fn line_of(entry: &Entry) -> (u64, u64) {
    let since = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    (entry.size, since.as_nanos() as u64)
}
