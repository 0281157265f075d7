//! `Users` lists the snapshots that need the packs which may be emptied.

use std::collections::{BTreeSet, HashMap};

use futures::{StreamExt, stream};

use super::{roots::Marks, run::GcRun};
use crate::{
    Result,
    format::record::State,
    id::{PackId, RecordId},
    name::Lineage,
};

const REQUESTS_AT_ONCE: usize = 16;
/// The approximate memory of one snapshot's need for one pack.
const NEED_BYTES: u64 = 8;
/// So many are kept, even if memory is short.
const FEWEST_NEEDS: usize = 1000;

/// A pack, and how much of it is needed at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    pub(super) pack: PackId,
    pub(super) bytes: u64,
    pub(super) unused: u64,
}

/// Read off the records once for many packs. What changes later is found when a snapshot's tables are
/// read; a snapshot that comes to need one of them keeps it.
pub(super) struct Users {
    records: Vec<(Lineage, RecordId)>,
    /// By number.
    by_pack: HashMap<PackId, Vec<u32>>,
}

impl Users {
    /// For as many of the `packs`, from the first, as a sixteenth of the memory has room for.
    pub(super) async fn find(round: &GcRun<'_>, marks: &Marks, packs: &[Half]) -> Result<Self> {
        let most = round.collector.options.memory_bytes / 16 / NEED_BYTES;
        let most = usize::try_from(most).unwrap_or(usize::MAX).max(FEWEST_NEEDS);
        let mut live: Vec<(Lineage, RecordId)> = marks
            .records
            .iter()
            .filter(|(_, seen)| seen.state == State::Live)
            .map(|(id, seen)| (marks.lineage(seen).clone(), *id))
            .collect();
        // Those of a profile together: their tables have much in common.
        live.sort_unstable();
        let mut users = Self::among(packs);
        let mut read = stream::iter(live)
            .map(|(lineage, id)| async move { (round.dry_run.get(round.store, &lineage, id).await, lineage) })
            .buffered(REQUESTS_AT_ONCE);
        let (mut covered, mut needs) = (packs.len(), 0);
        while let Some((found, lineage)) = read.next().await {
            let Some((record, _)) = found?.filter(|(record, _)| record.state == State::Live) else {
                continue;
            };
            let used = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack);
            needs += users.add(lineage, record.record, used);
            while needs > most && covered > 1 {
                covered -= 1;
                let dropped = users.by_pack.remove(&packs[covered].pack);
                needs -= dropped.map_or(0, |users| users.len());
            }
        }
        Ok(users)
    }

    fn among(packs: &[Half]) -> Self {
        Self { records: Vec::new(), by_pack: packs.iter().map(|half| (half.pack, Vec::new())).collect() }
    }

    /// How many of the packs it needs.
    fn add(&mut self, lineage: Lineage, record: RecordId, used: impl Iterator<Item = PackId>) -> usize {
        let (mut needs, number) = (0, self.records.len() as u32);
        for pack in used {
            if let Some(users) = self.by_pack.get_mut(&pack) {
                users.push(number);
                needs += 1;
            }
        }
        if needs > 0 {
            self.records.push((lineage, record));
        }
        needs
    }

    /// Whether it is known who needs a pack.
    pub(super) fn cover(&self, half: &Half) -> bool {
        self.by_pack.contains_key(&half.pack)
    }

    /// Whether nobody needs it any more.
    pub(super) fn lack(&self, half: &Half) -> bool {
        self.by_pack.get(&half.pack).is_none_or(Vec::is_empty)
    }

    /// The snapshots that need any of these.
    pub(super) fn of(&self, packs: &[Half]) -> Vec<(Lineage, RecordId)> {
        let users = packs.iter().filter_map(|half| self.by_pack.get(&half.pack)).flatten();
        let numbers: BTreeSet<u32> = users.copied().collect();
        numbers.into_iter().map(|number| self.records[number as usize].clone()).collect()
    }
}
