//! `User` is a snapshot that needs a pack which is to be emptied.

use std::collections::BTreeMap;

use super::{DryRun, RepackPlan};
use crate::{
    Result,
    content::TenantStore,
    format::{
        damage::Mark,
        record::{Record, State},
    },
    id::{PackId, RecordId},
    name::Lineage,
};

/// The tables of so many chunks are written anew by one write, or those of one snapshot if it has more.
/// They take as much memory as a pack or two.
pub const BATCH_CHUNKS: u64 = 4_000_000;
/// However few chunks a snapshot has: its record takes memory, too, and room in the lease that lists it.
const FEWEST_CHUNKS: u64 = 1000;

/// No more of a record than is needed to know it again: there may be many of them.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub lineage: Lineage,
    pub record: RecordId,
    generation: u64,
    pub damage: Option<Mark>,
    chunks: u64,
    /// Those that it needs.
    pub packs: Vec<PackId>,
}

impl User {
    /// With its needs of `packs`.
    pub(super) fn of(lineage: Lineage, record: &Record, packs: &BTreeMap<PackId, u64>) -> Self {
        let used = record.content.iter().flat_map(|content| &content.packs).map(|used| used.pack);
        let packs = used.filter(|pack| packs.contains_key(pack)).collect();
        let Record { record: id, generation, counts, .. } = record;
        let (chunks, damage) = (counts.chunks, record.damage.clone());
        Self { lineage, record: *id, generation: *generation, damage, chunks, packs }
    }

    /// Its record, unless that is gone or another by now: then it may need other packs. Nor may
    /// a check have found damage since, for marked frames keep the place that the mark names.
    pub(super) async fn read(&self, store: &TenantStore, dry_run: &DryRun) -> Result<Option<Record>> {
        let found = dry_run.get(store, &self.lineage, self.record).await?.map(|(record, _)| record);
        Ok(found.filter(|record| {
            record.state == State::Live
                && record.generation == self.generation
                && record.damage == self.damage
        }))
    }
}

impl RepackPlan {
    /// As many snapshots are moved by one write as have so many chunks.
    pub fn in_batches_of(self, chunks: u64) -> Self {
        Self { batch_chunks: Some(chunks), ..self }
    }

    /// The snapshots that are moved by one write each, in their order.
    pub(super) fn batches(&self) -> impl Iterator<Item = &[User]> {
        let most = self.batch_chunks.unwrap_or(BATCH_CHUNKS);
        let mut rest = &self.users[..];
        std::iter::from_fn(move || {
            let mut chunks = 0;
            let mut fits = |user: &User| {
                chunks += user.chunks.max(FEWEST_CHUNKS);
                chunks <= most
            };
            let count = rest.iter().take_while(|user| fits(user)).count().max(1).min(rest.len());
            let (batch, later) = rest.split_at(count);
            rest = later;
            (!batch.is_empty()).then_some(batch)
        })
    }
}
