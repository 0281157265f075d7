//! Making good what can be made good: indexes, which say nothing that packs do not say.

use std::collections::{BTreeMap, HashSet};

use super::{Check, Finding, LostIndexes, damage};
use crate::{
    Result,
    bucket::put_unique,
    catalog::clock,
    format::{
        WRITER,
        index::{Index, IndexEntry, IndexPack},
        layout,
        pack::PackEntry,
    },
    id::PackId,
};

impl Check<'_> {
    /// Writes the indexes that are missing anew, from what the packs themselves say they
    /// hold, and removes those that cannot be read.
    pub(super) async fn repair(&mut self) -> Result<()> {
        let LostIndexes { packs, unreadable } = std::mem::take(&mut self.lost_indexes);
        let mut index = Index { key: *self.store.key(), writer: WRITER.to_owned(), packs: Vec::new() };
        for pack in &packs {
            let Some(Some(directory)) = self.directories.get(pack) else { continue };
            let mut entries: Vec<&PackEntry> = directory.values().collect();
            entries.sort_by_key(|entry| entry.offset);
            let chunk = |entry: &&PackEntry| IndexEntry {
                id: entry.id,
                offset: entry.offset,
                stored_len: entry.stored_len,
                codec: entry.codec,
            };
            index.packs.push(IndexPack { pack: *pack, chunks: entries.iter().map(chunk).collect() });
        }
        let restored: HashSet<PackId> = index.packs.iter().map(|pack| pack.pack).collect();
        if !index.packs.is_empty() {
            let key = layout::index(&self.store.tenant, clock::new_record_id());
            put_unique(&*self.store.bucket, &key, index.encode().into()).await?;
        }
        let mut made_good: HashSet<String> = HashSet::new();
        for pack in &restored {
            made_good.insert(layout::index(&self.store.tenant, pack.write).to_string());
        }
        // An index whose packs are not all covered now is still missing.
        for pack in packs.difference(&restored.iter().copied().collect()) {
            made_good.remove(&layout::index(&self.store.tenant, pack.write).to_string());
        }
        for key in unreadable {
            self.store.bucket.delete(&key).await?;
            made_good.insert(key.to_string());
        }
        let (repaired, left) = std::mem::take(&mut self.findings)
            .into_iter()
            .partition(|((object, _), _)| made_good.contains(object));
        self.findings = left;
        let repaired: BTreeMap<(String, String), Finding> = repaired;
        self.report.repaired = repaired.into_iter().map(damage).collect();
        Ok(())
    }
}
