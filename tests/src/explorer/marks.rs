//! `Marks` knows which snapshots need lost chunks, and whether each has the mark.

use std::collections::BTreeMap;

use store::{
    format::record::{Record, State},
    id::{PackId, RecordId},
};

/// Snapshots that need lost chunks, and whether each says so.
#[derive(Debug, Default)]
pub struct Marks {
    lost: Option<PackId>,
    unmarked: BTreeMap<RecordId, Vec<PackId>>,
}

impl Marks {
    pub fn sees(&mut self, record: &Record) {
        self.unmarked.remove(&record.record);
        if record.state == State::Live && record.damage.is_none() {
            let packs = record.content.iter().flat_map(|content| &content.packs);
            self.unmarked.insert(record.record, packs.map(|used| used.pack).collect());
        }
    }

    /// A repair that found this lost has ended.
    pub fn loses(&mut self, pack: PackId) {
        self.lost = Some(pack);
    }

    /// A snapshot that lacks something without saying so, in words.
    pub fn silent(&self) -> Option<String> {
        let lost = self.lost?;
        let (record, _) = self.unmarked.iter().find(|(_, packs)| packs.contains(&lost))?;
        Some(format!("snapshot {record} needs pack {lost}, which is lost, and is not marked"))
    }
}
