//! `writing` plays writers that store snapshots, and a repack that moves their chunks.

use std::sync::Arc;

use store::{
    catalog::{
        lease::{DurableWrite, WriteLease},
        pointer::Move,
        records,
    },
    content::{chunk::Locations, dedup_index::DedupIndex, upload::WriteSession},
    format::{
        frame::Codec,
        layout,
        record::{PackUse, Record, State},
        table::Location,
    },
    id::{PackId, PackSeq, RecordId},
    ops::gc::repack,
};

use super::{
    host::Host,
    scenario::{chunk_of, data_of, pack_of},
};

impl Host {
    /// As a capture does it whose tenant has many packs: the lease, then the barred packs, then the snapshot
    /// it builds on, then packs it knows from elsewhere; then its own packs, and the record. It refers to the
    /// packs that it `keeps`, and has not looked at the chunks.
    pub(super) async fn write(&self, shares: usize, keeps: bool, flips: bool) -> store::Result<RecordId> {
        let shared = self.records[shares];
        let (base, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        let chunk = chunk_of(&self.store, shared);
        let place = Location { pack: pack_of(shared), offset: 16, stored_len: 1, codec: Codec::Zstd };
        let known = Arc::new(DedupIndex::new(Locations::from([(chunk, place)]), None));
        let mut draft = base.clone();
        (draft.content, draft.deletion) = (None, None);
        let lease = WriteLease::new(self.store.clone(), self.lineage.clone(), draft, Arc::clone(&known))
            .with_rules(self.rules);
        let look = async || match records::get(&self.store, &self.lineage, shared).await {
            Ok((now, _)) if matches!(now.state, State::Live | State::Trashed) => {
                let packs = now.content.iter().flat_map(|content| &content.packs);
                known.note_existing(packs.map(|used| used.pack).collect::<Vec<PackId>>());
            }
            _ => {}
        };
        if !self.rules.base_after_condemned {
            look().await;
        }
        if !self.rules.ask_after_condemned {
            lease.make_sure_of([place.pack]).await?;
        }
        let write = lease.open().await?;
        if self.rules.base_after_condemned {
            look().await;
        }
        if self.rules.ask_for_packs && (!keeps || self.rules.ask_for_kept) {
            lease.make_sure_of(known.locate(&chunk).map(|location| location.pack)).await?;
        }
        let asks = !keeps || self.rules.ask_for_kept;
        let is_kept = keeps && (!asks || known.is_sound(&place.pack));
        let data = match known.locate(&chunk) {
            _ if is_kept => place.pack,
            Some(location) => location.pack,
            None => self.put_pack(data_of(write)).await?,
        };
        let record = self.make_live(&lease, write, &base, data).await?;
        if flips {
            let wanted = Move { target: record.record, reason: String::new(), force: true, only_from: None };
            self.handle().point(&wanted).await?;
        }
        Ok(record.record)
    }

    /// As a mount does that stores its work in progress: it knows a chunk from the snapshot `saved`, as that was at the
    /// beginning, takes its lease, looks at that snapshot again, and refers to the chunk only if it may.
    pub(super) async fn save(&self, saved: usize) -> store::Result<()> {
        let saved = self.records[saved];
        let (base, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        let earlier = Record { record: saved, generation: 0, ..base.clone() };
        let chunk = chunk_of(&self.store, saved);
        let place = Location { pack: pack_of(saved), offset: 16, stored_len: 1, codec: Codec::Zstd };
        let known = Arc::new(DedupIndex::default());
        known.learn_earlier(Locations::from([(chunk, place)]));
        let draft = Record { content: None, deletion: None, damage: None, ..base.clone() };
        let lease = WriteLease::new(self.store.clone(), self.lineage.clone(), draft, Arc::clone(&known))
            .with_rules(self.rules);
        if !self.rules.earlier_after_condemned {
            lease.look_at_earlier(&earlier).await?;
        }
        let write = lease.open().await?;
        if self.rules.earlier_after_condemned {
            lease.look_at_earlier(&earlier).await?;
        }
        lease.make_sure_of(known.locate(&chunk).map(|location| location.pack)).await?;
        let data = match known.locate(&chunk) {
            Some(location) => location.pack,
            None => self.put_pack(data_of(write)).await?,
        };
        self.make_live(&lease, write, &base, data).await.map(drop)
    }

    /// The write becomes a snapshot like `base` that needs this pack.
    pub(super) async fn make_live(
        &self,
        lease: &WriteLease,
        write: RecordId,
        base: &Record,
        data: PackId,
    ) -> store::Result<Record> {
        let meta = self.put_pack(PackId { write, seq: PackSeq::Meta }).await?;
        let mut content = base.content.clone().unwrap();
        content.packs = [data, meta].map(|pack| PackUse { pack, live_bytes: 1 }).to_vec();
        content.packs.sort_by_key(|used| used.pack);
        let durable = DurableWrite { write, stored_bytes: 1 };
        lease.make_live(&durable, |record| record.content = Some(content)).await
    }

    pub(super) async fn put_pack(&self, pack: PackId) -> store::Result<PackId> {
        let key = layout::pack(&self.store.tenant, pack);
        store::bucket::put_unique(&*self.store.bucket, &key, pack.to_string().into_bytes().into()).await?;
        Ok(pack)
    }

    /// Moves the needed parts of the pack to another, for one snapshot at a time; one may be deleted
    /// in between.
    pub(super) async fn repack(
        &self,
        emptied: PackId,
        of: &[RecordId],
        deleted: Option<RecordId>,
    ) -> store::Result<u64> {
        let key = layout::pack(&self.store.tenant, emptied);
        let len = self.store.bucket.get(&key, u64::MAX).await?.bytes.len() as u64;
        let records: Vec<_> = of.iter().map(|record| (self.lineage.clone(), *record)).collect();
        let dry_run = repack::DryRun::default();
        let packs = [(emptied, len)];
        let survey =
            repack::survey(&self.store, &dry_run, &packs, &records, &[], (u64::MAX, u64::MAX)).await?;
        if let Some(deleted) = deleted {
            self.handle().delete(deleted, "explored").await?;
        }
        let moved = repack::run(&self.store, &survey.in_batches_of(1), self.rules).await;
        moved.map(|moved| moved.records).map_err(|failed| failed.error)
    }
}
