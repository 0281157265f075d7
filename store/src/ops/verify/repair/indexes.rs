//! Repairs indexes from the packs themselves: takes lost frames out, and writes missing ones anew.

use crate::{
    Result,
    bucket::Depth,
    catalog::{
        clock,
        index::{amend, upload},
        records::list_all,
    },
    content::{TenantStore, damage::DamagedFrames},
    format::{
        WRITER,
        index::{Index, IndexEntry, IndexPack},
        layout,
        pack::PackEntry,
    },
    ops::verify::{Check, indexes::LostIndexes},
};

/// A collection that merges indexes meanwhile may have read them before they were changed.
const LOOKS: u32 = 2;

/// Takes lost chunks out of the indexes, so that later writes store them anew.
pub async fn forget(store: &TenantStore, lost: &DamagedFrames) -> Result<()> {
    for _ in 0..if lost.is_empty() { 0 } else { LOOKS } {
        let (entries, _) = list_all(&*store.bucket, &layout::indexes(&store.tenant), Depth::All).await?;
        for entry in entries {
            amend(store, &entry.key, |index| drop_lost(index, lost)).await?;
        }
    }
    Ok(())
}

impl Check<'_> {
    /// Writes the missing indexes anew, from the directories of the packs themselves,
    /// and removes those that cannot be read.
    pub(super) async fn restore_indexes(&mut self, lost: &DamagedFrames) -> Result<()> {
        let LostIndexes { packs, unreadable } = std::mem::take(&mut self.lost_indexes);
        self.read_directories(packs.iter().copied(), "").await?;
        let mut index = Index { key: *self.store.key(), writer: WRITER.to_owned(), packs: Vec::new() };
        for pack in &packs {
            let Some(entries) = self.directories.entries(pack) else { continue };
            let chunk = |entry: &PackEntry| IndexEntry {
                id: entry.id,
                offset: entry.offset,
                stored_len: entry.stored_len,
                codec: entry.codec,
            };
            index.packs.push(IndexPack { pack: *pack, chunks: entries.iter().map(chunk).collect() });
        }
        drop_lost(&mut index, lost);
        if !index.packs.is_empty() {
            upload(self.store, clock::new_record_id(), index).await?;
        }
        for key in unreadable {
            self.store.bucket.delete(&key).await?;
        }
        Ok(())
    }
}

/// Whether anything of it was lost. A pack stays named, with the rest of its chunks.
fn drop_lost(index: &mut Index, lost: &DamagedFrames) -> bool {
    let chunks = |index: &Index| -> usize { index.packs.iter().map(|pack| 1 + pack.chunks.len()).sum() };
    let before = chunks(index);
    index.packs.retain(|pack| !lost.has_pack(&pack.pack));
    for IndexPack { pack, chunks } in &mut index.packs {
        chunks.retain(|chunk| !lost.has(*pack, chunk.offset));
    }
    chunks(index) < before
}
