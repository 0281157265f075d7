//! Restores damaged frames from other copies, and marks the snapshots of those that have none.
//!
//! 1. Lost chunks are taken out of the indexes, so that no writer refers to them anew; and lost
//!    indexes are written again. First, because afterwards nothing else would name the lost chunks.
//! 2. Lost frames of which there is another copy, in this host's cache or in another pack, are
//!    moved: see [`repack`]. All snapshots of the tenant that need them refer to the new packs
//!    then. Nothing is deleted; collections find packs that nobody needs any more. Only as many frames
//!    are moved together as there is memory for.
//! 3. Everything is looked at again. A fault that is not found any more was repaired.
//! 4. Snapshots of which something is still lost are marked, and no others are.
//! 5. Writes that began before the marks are revoked, and start again: they may refer to lost chunks. A
//!    write that has become a snapshot instead is marked too.
//!
//! Killed anywhere, nothing is worse than it was, and the next time goes on.

mod batch;
mod indexes;
mod marks;
mod metadata_source;
mod replacements;
mod writers;

pub use self::{indexes::forget, writers::revoke_writes};

use self::{batch::Batch, metadata_source::MetadataSource, replacements::Copies};
use super::{
    Check,
    findings::{Findings, is_damage},
};
use crate::{
    ErrorKind, Result,
    catalog::{records, rules::Rules},
    content::{TenantStore, damage::DamagedFrames},
    format::record::{Record, State},
    id::PackId,
    name::Lineage,
    ops::gc::repack::{self, FRAME_BYTES, Failed, RepackPlan},
};

/// How often it goes on with new findings.
const ROUNDS: u32 = 3;

impl Check<'_> {
    pub(super) async fn repair(&mut self) -> Result<()> {
        let (mut found, mut known) = (Findings::default(), DamagedFrames::default());
        // What a tree says comes to light when the tree is there again.
        for round in 0..ROUNDS {
            if self.findings.is_empty() || round > 0 && self.lost.is_within(&known) {
                break;
            }
            let lost = std::mem::take(&mut self.lost);
            forget(self.store, &lost).await?;
            self.restore_indexes(&lost).await?;
            self.move_lost(&lost).await?;
            known.add(&lost);
            found.add(std::mem::take(&mut self.findings));
            self.look_again(&lost).await?;
        }
        let repaired = found.without(&self.findings);
        for looked in &mut self.report.lineages {
            looked.repaired = repaired.of(&looked.lineage);
        }
        self.report.repaired = repaired.told();
        self.mark(&known).await?;
        if !known.is_empty() && revoke_writes(self.store).await? {
            self.mark(&known).await?;
        }
        Ok(())
    }

    /// Moves the lost frames of which there is another copy.
    async fn move_lost(&self, lost: &DamagedFrames) -> Result<()> {
        let most = usize::try_from(self.options.memory_bytes / FRAME_BYTES).unwrap_or(usize::MAX).max(1);
        let mut left = lost.clone();
        while !left.is_empty() {
            // Those before have changed records that the next one needs.
            let catalog = live(self.store).await?;
            let metadata_source = MetadataSource::new(self.store, &catalog);
            let (batch, later) = Batch::gather(left, &catalog, &metadata_source, most).await?;
            self.move_batch(lost, batch, metadata_source).await?;
            left = later;
        }
        Ok(())
    }

    async fn move_batch(
        &self,
        lost: &DamagedFrames,
        batch: Batch,
        metadata_source: MetadataSource<'_>,
    ) -> Result<()> {
        let Batch { lost: moving, records, frames, .. } = batch;
        let sizes = |pack: PackId| (pack, self.sizes.get(&pack).copied().unwrap_or_default());
        let survey = RepackPlan::of(moving.packs().into_iter().map(sizes).collect(), &records, frames);
        let copies = Copies::find(self.store, lost, &survey, &self.sizes, metadata_source).await?;
        if !copies.help(&survey) {
            return Ok(());
        }
        match repack::run_from(self.store, &survey, &copies, Rules::ALL).await {
            Ok(moved) => tracing::info!(snapshots = moved.records, "what was lost was stored again"),
            Err(Failed { error, .. }) if is_passing(error.kind()) => {
                tracing::warn!(%error, "what is lost could not be moved; the next repair tries again");
            }
            Err(Failed { error, .. }) => return Err(error),
        }
        Ok(())
    }

    /// Looks at everything again, but at no chunk that was found whole.
    async fn look_again(&mut self, lost: &DamagedFrames) -> Result<()> {
        self.wrong.clear();
        self.directories.look_again_at(lost);
        // What was just written is not left to another day.
        let sample = self.options.sample.take();
        self.look().await?;
        self.options.sample = sample;
        Ok(())
    }
}

/// Whether somebody else was faster, or nothing can be written: that makes nothing worse.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Damaged
            | ErrorKind::UnsupportedFormat
            | ErrorKind::InvalidInput
            | ErrorKind::WriteRevoked
            | ErrorKind::Conflict
            | ErrorKind::NotFound
    )
}

/// Every snapshot of the tenant that can be read.
async fn live(store: &TenantStore) -> Result<Vec<(Lineage, Record)>> {
    let mut live = Vec::new();
    for lineage in records::all_lineages(store).await? {
        for record in records::list(store, &lineage).await? {
            match record {
                Ok(record) if record.state == State::Live => live.push((lineage.clone(), record)),
                Ok(_) => {}
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(live)
}
