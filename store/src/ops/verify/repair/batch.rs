//! `Batch` collects the frames that are repaired together.

use super::metadata_source::MetadataSource;
use crate::{
    Result,
    content::{damage::DamagedFrames, moved_tree::MovedTree},
    format::record::Record,
    name::Lineage,
    ops::{
        gc::repack::{Frames, Needed},
        verify::findings::is_damage,
    },
};

/// The lost frames of some packs, and the snapshots that need them.
#[derive(Default)]
pub(super) struct Batch {
    pub lost: DamagedFrames,
    pub records: Vec<(Lineage, Record)>,
    pub frames: Frames,
    /// How many frames.
    count: usize,
}

impl Batch {
    /// Of the `lost` frames, as many packs as together lack no more frames than `most`, but at least
    /// one; and the rest for later. Metadata is always among the first.
    pub(super) async fn gather(
        lost: DamagedFrames,
        catalog: &[(Lineage, Record)],
        metadata_source: &MetadataSource<'_>,
        most: usize,
    ) -> Result<(Self, DamagedFrames)> {
        let (mut batch, mut later) = (Self { lost, ..Self::default() }, DamagedFrames::default());
        for (lineage, record) in catalog {
            if !batch.lost.may_hit(record) {
                continue;
            }
            let Some(tree) = metadata_source.tree(record, &[]).await? else { continue };
            match batch.want_lost(MovedTree::new(tree), most, &mut later).await {
                Err(error) if is_damage(&error) => continue,
                wanted => wanted?,
            }
            batch.records.push((lineage.clone(), record.clone()));
        }
        let Self { lost, records, .. } = &mut batch;
        records.retain(|(_, record)| lost.may_hit(record));
        Ok((batch, later))
    }

    /// Wants what is lost of a tree, as far as there is room. Of its segments those are read that may need it.
    async fn want_lost(&mut self, tree: MovedTree, most: usize, later: &mut DamagedFrames) -> Result<()> {
        let mut stored = tree.stored(tree.segments_in(|pack| self.lost.touches(pack)));
        while let Some(found) = stored.next().await? {
            for (id, raw_len, location) in tree.chunks(&found)? {
                self.want(Needed { location, id, raw_len });
                while self.count > most
                    && let Some(put_off) = self.put_off()
                {
                    later.add(&put_off);
                }
            }
        }
        Ok(())
    }

    fn want(&mut self, needed: Needed) {
        if self.lost.holds(&needed.location) {
            let frames = self.frames.entry(needed.location.pack).or_default();
            self.count += usize::from(frames.insert(needed.location.offset, needed).is_none());
        }
    }

    /// Gives up one of the packs. `None` if there is only one.
    fn put_off(&mut self) -> Option<DamagedFrames> {
        if self.frames.len() < 2 {
            return None;
        }
        let (pack, frames) = self.frames.pop_last()?;
        self.count -= frames.len();
        Some(self.lost.take(pack))
    }
}
