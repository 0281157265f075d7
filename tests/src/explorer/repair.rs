//! `repair` plays a repair that finds a chunk lost, and a writer that knows that chunk from the tenant's indexes.

use std::sync::Arc;

use store::{
    Error,
    catalog::{
        index::{self, IndexBudget},
        lease::WriteLease,
        lineage_handle::LineageHandle,
        records,
    },
    content::{damage::DamagedFrames, dedup_index::DedupIndex, upload::WriteSession},
    format::{
        Unknown,
        damage::{Mark, MarkedPack},
        record::{Record, State},
    },
    id::PackId,
    ops::verify::repair,
};

use super::{
    host::Host,
    scenario::{chunk_of, data_of, pack_of},
};

fn needs(record: &Record, pack: PackId) -> bool {
    record.content.iter().flat_map(|content| &content.packs).any(|used| used.pack == pack)
}

impl Host {
    /// Finds that all of the first snapshot's pack is lost: takes it out of the indexes, marks the snapshots
    /// that need it, revokes the writes that are under way, and marks those that have become snapshots.
    pub(super) async fn repair(&self) -> store::Result<()> {
        let pack = pack_of(self.records[0]);
        let mut lost = DamagedFrames::default();
        lost.add_pack(pack);
        repair::forget(&self.store, &lost).await?;
        self.mark(pack).await?;
        if self.rules.revoke_after_loss && repair::revoke_writes(&self.store).await? {
            self.mark(pack).await?;
        }
        self.machine.inner().oracle.pack_oracle.loses(pack);
        Ok(())
    }

    async fn mark(&self, pack: PackId) -> store::Result<()> {
        let handle = LineageHandle::new(self.store.clone(), self.lineage.clone(), Default::default());
        for listed in records::list(&self.store, &self.lineage).await?.into_iter().flatten() {
            let is_due = |record: &Record| {
                record.state == State::Live && record.damage.is_none() && needs(record, pack)
            };
            while let (now, version) = records::get(&self.store, &self.lineage, listed.record).await?
                && is_due(&now)
            {
                let lost = MarkedPack { pack, offsets: Vec::new(), unknown: Unknown::new() };
                let mark = Mark { found_at_ms: 1, files: 1, packs: vec![lost], unknown: Unknown::new() };
                let marked = Record { damage: Some(mark), lease_seq: now.lease_seq + 1, ..now };
                match handle.replace_record(&marked, version).await {
                    Err(Error::Conflict { .. }) => {}
                    replaced => drop(replaced?),
                }
            }
        }
        Ok(())
    }

    /// As a capture does that finds the chunk of the first snapshot in the indexes: it reads them, takes its
    /// lease, looks at them again, and refers to the chunks that they still name; the others it stores.
    pub(super) async fn share(&self) -> store::Result<()> {
        let chunk = chunk_of(&self.store, self.records[0]);
        let (base, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        let mut loaded = index::load(&self.store, IndexBudget::of(u64::MAX)).await?;
        let known = Arc::new(DedupIndex::default());
        known.learn_index(std::mem::take(&mut loaded.locations));
        let draft = Record { content: None, deletion: None, damage: None, ..base.clone() };
        let lease = WriteLease::new(self.store.clone(), self.lineage.clone(), draft, Arc::clone(&known))
            .with_rules(self.rules);
        let write = lease.open().await?;
        if self.rules.index_after_lease
            && let Some(now) = index::load_again(&self.store, &loaded, IndexBudget::of(u64::MAX)).await?
        {
            known.learn_index(now.locations);
        }
        lease.make_sure_of(known.locate(&chunk).map(|location| location.pack)).await?;
        let data = match known.locate(&chunk) {
            Some(location) => location.pack,
            None => self.put_pack(data_of(write)).await?,
        };
        self.make_live(&lease, write, &base, data).await.map(drop)
    }
}
