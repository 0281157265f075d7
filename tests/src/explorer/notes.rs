//! `notes` plays captures of one host, which note the packs they have stored. The note is an object of the
//! bucket here, so that a process can read and write it at any moment, and loses it if it dies before the
//! write.

use std::sync::Arc;

use store::{
    bucket::{BucketError, Write},
    catalog::{
        lease::{DurableWrite, WriteLease},
        records,
    },
    content::{dedup_index::DedupIndex, unfinished::Unfinished, upload::WriteSession},
    format::{
        frame::Codec,
        index::{IndexEntry, IndexPack},
        layout,
        record::PackUse,
    },
    id::{PackId, PackSeq},
};

use super::{
    host::Host,
    scenario::{data_of, note},
};

impl Host {
    /// As a capture does it whose tenant has many packs: the note, the lease, the barred packs, whether
    /// the noted packs are there; then its own packs, and the record.
    pub(super) async fn capture(&self) -> store::Result<()> {
        let (base, _) = records::get(&self.store, &self.lineage, self.records[1]).await?;
        let chunk = self.store.key().id_of(b"captured");
        let entry = IndexEntry { id: chunk, offset: 16, stored_len: 1, codec: Codec::Zstd };
        let noted = self.noted().await?.map(|pack| IndexPack { pack, chunks: vec![entry] });
        let known = Arc::new(DedupIndex::default().beside(Unfinished::of(noted)));
        let mut draft = base.clone();
        (draft.content, draft.deletion) = (None, None);
        let lease = WriteLease::new(self.store.clone(), self.lineage.clone(), draft, Arc::clone(&known))
            .with_rules(self.rules);
        let found = || known.locate(&chunk).map(|location| location.pack);
        if !self.rules.ask_after_condemned {
            lease.make_sure_of(found()).await?;
        }
        let write = lease.open().await?;
        if self.rules.ask_for_packs {
            lease.make_sure_of(found()).await?;
        }
        let data = match found() {
            Some(pack) => pack,
            None => {
                self.store_pack(data_of(write)).await?;
                self.note_pack(data_of(write)).await?;
                data_of(write)
            }
        };
        let meta = PackId { write, seq: PackSeq::Meta };
        self.store_pack(meta).await?;
        let mut content = base.content.clone().unwrap();
        content.packs = [data, meta].map(|pack| PackUse { pack, live_bytes: 1 }).to_vec();
        content.packs.sort_by_key(|used| used.pack);
        let durable = DurableWrite { write, stored_bytes: 1 };
        lease.make_live(&durable, |record| record.content = Some(content)).await.map(drop)
    }

    async fn store_pack(&self, pack: PackId) -> store::Result<()> {
        let key = layout::pack(&self.store.tenant, pack);
        let bytes = pack.to_string().into_bytes();
        store::bucket::put_unique(&*self.store.bucket, &key, bytes.into()).await?;
        Ok(())
    }

    async fn noted(&self) -> store::Result<Option<PackId>> {
        match self.store.bucket.get(&note(), u64::MAX).await {
            Ok(object) => Ok(std::str::from_utf8(&object.bytes).unwrap().parse().ok()),
            Err(BucketError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// A note is no reason to fail, and the first one will do.
    async fn note_pack(&self, pack: PackId) -> store::Result<()> {
        let bytes = pack.to_string().into_bytes();
        let _ = self.store.bucket.put(&note(), bytes.into(), Write::Create).await;
        Ok(())
    }
}
