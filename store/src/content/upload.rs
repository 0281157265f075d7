//! Sends sealed packs while others are being filled.
//!
//! One or two sealed packs wait or travel at a time, so memory is bounded by the pack
//! size. A pack carries the name of the write that made it, and a write has no name until
//! its record exists: [`WriteSession::open_for_data`] makes it, before the first pack is sealed.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use parking_lot::Mutex;

use async_trait::async_trait;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinHandle,
};

use super::{
    TenantStore,
    chunk_places::ChunkPlaces,
    packer::{Packer, SealedPack},
    unfinished,
};
use crate::{
    Error, Result,
    bucket::put_unique,
    format::{index::IndexPack, layout, table::Location},
    id::{ChunkId, PackId, PackSeq, RecordId},
    progress::{Progress, Tick},
};

/// To a store that is far away, the next pack is sent before the answer about the last one is here.
const PACKS_IN_FLIGHT: usize = 2;
/// To one that is files of this host, one at a time takes no longer: a disk is written to before another pack is
/// full.
const NEAR_PACKS_IN_FLIGHT: usize = 1;

/// A write's lease, as its uploads need it: opened before anything is uploaded.
#[async_trait]
pub trait WriteSession: Send + Sync {
    /// Makes, once, the record that holds the write's lease; renews the lease when due.
    async fn open(&self) -> Result<RecordId>;

    /// The same, as far as data needs it, which refers to nothing.
    async fn open_for_data(&self) -> Result<RecordId> {
        self.open().await
    }

    /// Fails if so many bytes are more than the write may store. Called when it is open.
    fn allow(&self, new_bytes: u64) -> Result<()> {
        let _ = new_bytes;
        Ok(())
    }
}

/// Uploads the packs of one write. Called from threads that may block.
pub(crate) struct Uploader {
    store: TenantStore,
    gate: Arc<dyn WriteSession>,
    progress: Arc<dyn Progress>,
    runtime: Handle,
    most_in_flight: usize,
    permits: Arc<Semaphore>,
    next: AtomicU32,
    failed: Arc<AtomicBool>,
    stored_bytes: AtomicU64,
    /// Whether each pack is noted once the store has it.
    is_noting: bool,
    sent: Mutex<Sent>,
}

/// The right to have one more pack under way.
#[derive(Debug)]
pub(crate) struct UploadSlot(
    #[expect(dead_code, reason = "held until the pack is durable")] OwnedSemaphorePermit,
);

#[derive(Default)]
struct Sent {
    tasks: Vec<JoinHandle<Result<()>>>,
    places: ChunkPlaces,
    index: Vec<IndexPack>,
}

/// Proof that every pack of a write is durable: its maker has waited for all of them.
#[derive(Debug)]
pub(crate) struct DurablePacks {
    pub places: ChunkPlaces,
    /// The contents of each pack. Others may be added behind.
    pub index: Vec<IndexPack>,
    pub stored_bytes: u64,
}

impl DurablePacks {
    /// Where a chunk lies, if one of the packs holds it.
    pub fn locate(&self, id: &ChunkId) -> Option<Location> {
        self.places.locate(&self.index, id)
    }
}

impl std::fmt::Debug for Uploader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uploader").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Uploader {
    /// Must be called on the runtime that will carry the uploads.
    pub fn new(store: TenantStore, gate: Arc<dyn WriteSession>, progress: Arc<dyn Progress>) -> Self {
        let most_in_flight = if store.is_near() { NEAR_PACKS_IN_FLIGHT } else { PACKS_IN_FLIGHT };
        Self {
            store,
            gate,
            progress,
            runtime: Handle::current(),
            most_in_flight,
            permits: Arc::new(Semaphore::new(most_in_flight)),
            next: AtomicU32::new(0),
            failed: Arc::new(AtomicBool::new(false)),
            stored_bytes: AtomicU64::new(0),
            is_noting: false,
            sent: Mutex::default(),
        }
    }

    /// Notes the packs in the store on this host, so that a later write can go on from them.
    pub fn noting(self) -> Self {
        Self { is_noting: true, ..self }
    }

    /// How many sealed packs wait or travel at a time.
    pub fn most_in_flight(&self) -> usize {
        self.most_in_flight
    }

    /// There will be something to upload: makes ready for it while the first pack is filled.
    pub fn announce(&self) {
        let gate = Arc::clone(&self.gate);
        // Waited for like an upload, so that nothing is made after the write was given up. If it
        // fails, the first pack tries again and says why.
        let opening = self.runtime.spawn(async move { gate.open().await.map_or(Ok(()), |_| Ok(())) });
        self.sent.lock().tasks.push(opening);
    }

    /// Blocks while too many packs are under way.
    pub fn wait_for_slot(&self) -> Result<UploadSlot> {
        let place = self.runtime.block_on(Arc::clone(&self.permits).acquire_owned());
        place.map(UploadSlot).map_err(|_| Error::Internal { what: "the uploader is closed".to_owned() })
    }

    /// Seals a data pack and sends it on its way.
    pub fn submit(&self, packer: Packer, place: UploadSlot) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Error::Internal { what: "an upload has failed".to_owned() });
        }
        let write = self.runtime.block_on(self.gate.open_for_data())?;
        let seq = self.next.fetch_add(1, Ordering::Relaxed);
        let seq = PackSeq::from_u32(seq).filter(|seq| *seq != PackSeq::Meta).ok_or_else(|| {
            Error::InvalidInput { what: "the snapshot needs more than 100 000 packs".to_owned() }
        })?;
        let pack = packer.seal(PackId { write, seq }, *self.store.key());
        let len = pack.bytes.len() as u64;
        self.gate.allow(self.stored_bytes.fetch_add(len, Ordering::Relaxed) + len)?;
        let index = pack.index();
        let noted = self.is_noting.then(|| index.clone());
        let mut sent = self.sent.lock();
        let Sent { places, index: packs, .. } = &mut *sent;
        packs.push(index);
        places.learn_last(packs);
        let SealedPack { id, bytes, .. } = pack;
        let (store, progress, failed) =
            (self.store.clone(), Arc::clone(&self.progress), Arc::clone(&self.failed));
        sent.tasks.push(self.runtime.spawn(async move {
            let len = bytes.len() as u64;
            let result = put_unique(&*store.bucket, &layout::pack(&store.tenant, id), bytes.into()).await;
            match noted {
                _ if result.is_err() => failed.store(true, Ordering::Relaxed),
                Some(index) => unfinished::note(&store, index),
                None => {}
            }
            drop(place);
            progress.tick(Tick { transferred_bytes: len, ..Tick::default() });
            Ok(result.map(drop)?)
        }));
        Ok(())
    }

    /// Where the chunks sealed so far lie.
    pub fn locate(&self, id: &ChunkId) -> Option<Location> {
        let sent = self.sent.lock();
        sent.places.locate(&sent.index, id)
    }

    /// Waits until every pack is durable.
    pub async fn finish(&self) -> Result<DurablePacks> {
        let Sent { tasks, places, index } = std::mem::take(&mut *self.sent.lock());
        let mut result = Ok(());
        for task in tasks {
            let ended = task.await.map_err(|error| Error::Internal { what: error.to_string() });
            // All are awaited, so that nothing is still being written when an error is reported.
            result = result.and(ended.and_then(|uploaded| uploaded));
        }
        result?;
        Ok(DurablePacks { places, index, stored_bytes: self.stored_bytes.load(Ordering::Relaxed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bucket::{Access, Bucket, LocalBucket, MemoryBucket},
        content::chunk_fetcher::tests::tenant,
        progress::Silent,
    };

    struct Closed;

    #[async_trait]
    impl WriteSession for Closed {
        async fn open(&self) -> Result<RecordId> {
            Err(Error::Internal { what: "nothing is uploaded here".to_owned() })
        }
    }

    /// Each takes the memory of a pack.
    #[tokio::test]
    async fn to_a_directory_one_pack_travels_at_a_time_and_to_a_server_two() {
        let dir = tempfile::tempdir().unwrap();
        let near: Arc<dyn Bucket> = Arc::new(LocalBucket::open(dir.path(), Access::ReadWrite).unwrap());
        let far: Arc<dyn Bucket> = Arc::new(MemoryBucket::new());
        for (bucket, most) in [(near, 1), (far, 2)] {
            let store = tenant(bucket, None);
            let key = layout::tenant_config(&store.tenant);
            store.bucket.put(&key, b"{}".to_vec().into(), crate::bucket::Write::Create).await.unwrap();
            let uploader = Arc::new(Uploader::new(store, Arc::new(Closed), Arc::new(Silent)));
            assert_eq!(uploader.most_in_flight(), most);
            let waiting = Arc::clone(&uploader);
            let slots = tokio::task::spawn_blocking(move || {
                (0..most).map(|_| waiting.wait_for_slot()).collect::<Result<Vec<_>>>()
            });
            let slots = slots.await.unwrap().unwrap();
            assert!(Arc::clone(&uploader.permits).try_acquire_owned().is_err(), "one more than {most}");
            drop(slots);
        }
    }
}
