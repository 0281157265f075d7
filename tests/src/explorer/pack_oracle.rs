//! `PackOracle` knows which packs snapshots and readers need, and checks that they exist.
//!
//! The invariant: every pack that a live or trashed record lists exists, and so does every
//! pack that a reader who has pinned its snapshot is about to read; and such a snapshot is
//! not deleted.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use store::{
    format::record::{Record, State},
    id::{PackId, RecordId},
};

use super::marks::Marks;

#[derive(Debug, Default)]
pub struct PackOracle {
    packs: BTreeSet<PackId>,
    needs: BTreeMap<RecordId, (State, Vec<PackId>)>,
    reading: BTreeMap<usize, (RecordId, Vec<PackId>)>,
    /// Where packs are not part of the scenario, none is missed.
    watches: bool,
    marks: Marks,
}

impl PackOracle {
    /// An object as it is now; `None` if it is gone.
    pub fn sees(&mut self, key: &str, bytes: Option<&Bytes>) {
        let name = key.rsplit('/').next().unwrap_or_default();
        if key.contains("/packs/") {
            let Ok(pack) = name.parse() else { return };
            self.watches = true;
            match bytes {
                Some(_) => self.packs.insert(pack),
                None => self.packs.remove(&pack),
            };
        } else if name.starts_with("snap-")
            && let Some(record) = bytes.and_then(|bytes| Record::decode(bytes).ok())
        {
            let packs = record.content.iter().flat_map(|content| &content.packs);
            self.needs.insert(record.record, (record.state, packs.map(|used| used.pack).collect()));
            self.marks.sees(&record);
        }
    }

    /// A reader goes to work; it ends with `None`.
    pub fn reads(&mut self, process: usize, snapshot: Option<(RecordId, Vec<PackId>)>) {
        match snapshot {
            Some(snapshot) => self.reading.insert(process, snapshot),
            None => self.reading.remove(&process),
        };
    }

    /// Every pin is too old.
    pub fn lapse(&mut self) {
        self.reading.clear();
    }

    /// Whether a reader has a right to the packs it reads.
    pub fn is_reading(&self, process: usize) -> bool {
        self.reading.contains_key(&process)
    }

    /// A repair that found all of this pack lost has ended: the snapshots that need it are marked by now.
    pub fn loses(&mut self, pack: PackId) {
        self.marks.loses(pack);
    }

    /// Needed packs that are not there, or are lost and not marked, in words.
    pub fn lost(&self) -> Option<String> {
        if !self.watches {
            return None;
        }
        if let Some(silent) = self.marks.silent() {
            return Some(silent);
        }
        let gone = |packs: &[PackId]| packs.iter().find(|pack| !self.packs.contains(pack)).copied();
        for (record, (state, packs)) in &self.needs {
            if matches!(state, State::Live | State::Trashed)
                && let Some(pack) = gone(packs)
            {
                return Some(format!("snapshot {record} needs pack {pack}, which is gone"));
            }
        }
        for (record, packs) in self.reading.values() {
            if let Some(pack) = gone(packs) {
                return Some(format!("a reader has pinned pack {pack}, which is gone"));
            }
            if self.needs.get(record).is_some_and(|(state, _)| *state == State::Tombstone) {
                return Some(format!("a reader has pinned snapshot {record}, which is deleted"));
            }
        }
        None
    }

    /// Packs that no snapshot needs.
    pub fn garbage(&self) -> Vec<PackId> {
        let needed: BTreeSet<PackId> = self
            .needs
            .values()
            .filter(|(state, _)| matches!(state, State::Live | State::Trashed))
            .flat_map(|(_, packs)| packs.iter().copied())
            .collect();
        self.packs.difference(&needed).copied().collect()
    }
}
