//! `WriteLease` keeps a write's record: either its writer publishes it or another process revokes it, never both.
//!
//! The record begins as the lease. To publish and to revoke both replace this one object, so only one of them succeeds.
//!
//! Order: create the record as `writing`; only then read the condemned documents, find out whether the packs
//! to refer to are there, and upload data; then upload metadata, which refers to packs; replace the record by
//! the live one against our own last version. Killed anywhere before that last step, nothing has happened but
//! some garbage for the next collection.

mod keeper;
pub(crate) mod revocation;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use tokio::{
    sync::{Mutex, OnceCell},
    time::Instant,
};

use self::keeper::LeaseRenewer;
use super::{
    clock, condemned, existing_packs,
    records::{self, list_all},
    rules::Rules,
};
use crate::{
    Error, ErrorKind, Result,
    bucket::{BucketError, Depth, Key, Version, Write},
    content::{
        TenantStore,
        dedup_index::DedupIndex,
        packer::SealedPack,
        upload::{DurablePacks, WriteSession},
    },
    format::{
        WRITER,
        index::{Index, IndexPack},
        layout, limits,
        record::{Record, State},
    },
    id::{PackId, RecordId},
    name::Lineage,
};

/// A collection takes a lease that was not renewed for so long for dead.
pub const LEASE_TTL: Duration = Duration::from_secs(900);
const RENEW_AFTER: Duration = Duration::from_secs(240);
/// How long a record stays after its write has ended, at least. A record that is gone can be
/// brought back, as it was when it was made, by a request that was under way for that long; so
/// who was asleep for half of it no longer trusts its record.
pub const ENDED_FOR: Duration = Duration::from_secs(86_400);

/// The lease of one write. It comes into being when the first thing is to be uploaded.
#[derive(Debug)]
pub struct WriteLease {
    store: TenantStore,
    lineage: Lineage,
    draft: Record,
    known: Arc<DedupIndex>,
    rules: Rules,
    /// How much the tenant may have stored when the write is done.
    quota_bytes: Option<u64>,
    /// Whether all packs are listed when it is taken.
    lists_packs: bool,
    /// The bytes of all packs that were there then.
    stored_before: AtomicU64,
    /// The first page of them was looked at.
    looked: OnceCell<()>,
    /// Set once the barred packs were read.
    learned: OnceCell<()>,
    /// Whether it is renewed by itself.
    is_kept: bool,
    held: Arc<Mutex<Option<Held>>>,
}

#[derive(Debug)]
struct Held {
    record: Record,
    version: Version,
    renewed: Instant,
    renewed_at: SystemTime,
    /// A renewal of which it is not known whether it was applied, or ever will be.
    unsure: Option<Vec<u8>>,
    is_revoked: bool,
    /// Ends with the lease that it renews.
    keeper: Option<LeaseRenewer>,
}

impl Held {
    fn new(record: Record, version: Version) -> Self {
        let (renewed, renewed_at) = (Instant::now(), SystemTime::now());
        Self { record, version, renewed, renewed_at, unsure: None, is_revoked: false, keeper: None }
    }

    /// Whether any clock says that its record may be another by now that looks the same. A clock
    /// that was set costs another attempt.
    fn is_too_old(&self) -> bool {
        let slept = self.renewed_at.elapsed().unwrap_or_default();
        slept.max(self.renewed.elapsed()) > ENDED_FOR / 2
    }
}

/// Proof that everything a record will refer to is durable.
#[derive(Debug)]
pub struct DurableWrite {
    /// The write whose packs these are.
    pub write: RecordId,
    /// The uploaded bytes: packs, meta pack, index.
    pub stored_bytes: u64,
}

impl WriteLease {
    /// The lineage that the write is for.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// `draft` is the record to be, without an id; `known` learns which packs are barred.
    pub fn new(store: TenantStore, lineage: Lineage, draft: Record, known: Arc<DedupIndex>) -> Self {
        let (rules, stored_before) = (Rules::ALL, AtomicU64::new(0));
        let (quota_bytes, lists_packs, looked, learned, is_kept, held) = Default::default();
        Self {
            store,
            lineage,
            draft,
            known,
            rules,
            quota_bytes,
            lists_packs,
            stored_before,
            looked,
            learned,
            is_kept,
            held,
        }
    }

    /// Renews itself from when it is taken on, on the runtime on which that happens.
    pub fn kept(self) -> Self {
        Self { is_kept: true, ..self }
    }

    /// Refuses to store more than the tenant may. To know how much it has stored takes a list of
    /// all its packs.
    pub fn within(self, quota_bytes: Option<u64>) -> Self {
        Self { quota_bytes, lists_packs: self.lists_packs || quota_bytes.is_some(), ..self }
    }

    /// Lists all packs when it is taken: for a write that reads its source once, and so has to
    /// know before that which packs it may refer to.
    pub(crate) fn listing_packs(self) -> Self {
        Self { lists_packs: true, ..self }
    }

    /// Without some of the rules, to show their purpose.
    #[cfg(any(test, feature = "test-support"))]
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// Uploads metadata and index, once all packs are there.
    pub(crate) async fn upload_metadata(
        &self,
        packs: DurablePacks,
        meta: &SealedPack,
    ) -> Result<DurableWrite> {
        let write = self.open().await?;
        let DurablePacks { index, stored_bytes, places } = packs;
        drop(places);
        let (meta, index) =
            futures::future::try_join(self.upload_pack(meta), self.upload_index(index)).await?;
        Ok(DurableWrite { write, stored_bytes: stored_bytes + meta + index })
    }

    /// How large it is.
    pub(crate) async fn upload_pack(&self, pack: &SealedPack) -> Result<u64> {
        let (key, bytes) = (layout::pack(&self.store.tenant, pack.id), pack.bytes.clone());
        let len = bytes.len() as u64;
        crate::bucket::put_unique(&*self.store.bucket, &key, bytes.into()).await?;
        Ok(len)
    }

    /// Uploads the index of these packs, all of which are there; returns its length, 0 if there are no packs.
    pub(crate) async fn upload_index(&self, packs: Vec<IndexPack>) -> Result<u64> {
        if packs.is_empty() {
            return Ok(0);
        }
        let write = self.open().await?;
        let index = Index { key: *self.store.key(), writer: WRITER.to_owned(), packs };
        super::index::upload(&self.store, write, index).await
    }

    /// The record becomes live, and so the write a snapshot. Needs the proof that all it names is there.
    pub async fn make_live(
        &self,
        durable: &DurableWrite,
        finish: impl FnOnce(&mut Record),
    ) -> Result<Record> {
        self.make_live_after(durable, finish, async |_| {}).await
    }

    /// As [`Self::make_live`], after `before` has done something about the record as it will be.
    pub(crate) async fn make_live_after(
        &self,
        durable: &DurableWrite,
        finish: impl FnOnce(&mut Record),
        before: impl AsyncFnOnce(&Record),
    ) -> Result<Record> {
        let mut held = self.held.lock().await.take().ok_or_else(|| internal("a write without a lease"))?;
        if held.record.record != durable.write {
            return Err(internal("the proof of another write"));
        }
        // Nothing is said of a write that is known to be lost.
        if held.is_too_old() {
            return Err(Error::WriteRevoked { record: held.record.record });
        }
        finish(&mut held.record);
        before(&held.record).await;
        if held.is_too_old() {
            return Err(Error::WriteRevoked { record: held.record.record });
        }
        let mut record = held.record;
        record.stored_at_ms = clock::of_store(&self.store).await;
        record.state = State::Live;
        record.lease_seq += 1;
        let key = layout::record(&self.lineage, record.record);
        replace_own(&self.store, &key, &record, held.version, held.unsure.as_deref()).await?;
        Ok(record)
    }

    /// Fails unless the lease is still ours. What it is to protect must have been read before.
    pub async fn verify(&self) -> Result<()> {
        let held = self.held.lock().await;
        let record = held.as_ref().ok_or_else(|| internal("a write without a lease"))?.record.record;
        let (now, _) = records::get(&self.store, &self.lineage, record).await?;
        if now.state == State::Writing { Ok(()) } else { Err(Error::WriteRevoked { record }) }
    }

    /// Gives up a lease that was taken, so that no collection has to wait for it.
    pub async fn abandon(&self) {
        let Some(held) = self.held.lock().await.take() else { return };
        let mut record = held.record;
        record.state = State::Revoked;
        record.lease_seq += 1;
        // A holder that gives up by itself has nothing under way any more.
        record.updates.clear();
        let key = layout::record(&self.lineage, record.record);
        if let Err(error) =
            self.store.bucket.put(&key, record.encode().into(), Write::Replace(held.version)).await
        {
            tracing::debug!(%key, %error, "an abandoned lease could not be revoked; it will expire");
        }
    }

    /// Makes the record, once, and renews it when that is due. What is barred is not known yet.
    pub async fn begin(&self) -> Result<RecordId> {
        let mut held = self.held.lock().await;
        match &mut *held {
            None => {
                let mut new = self.create().await?;
                if self.is_kept {
                    let (store, lineage) = (self.store.clone(), self.lineage.clone());
                    new.keeper = Some(LeaseRenewer::start(store, lineage, &self.held));
                }
                let id = new.record.record;
                *held = Some(new);
                Ok(id)
            }
            Some(Held { is_revoked: true, record, .. }) => Err(Error::WriteRevoked { record: record.record }),
            Some(held) => {
                if held.renewed.elapsed() > RENEW_AFTER {
                    held.renew(&self.store, &self.lineage).await?;
                }
                Ok(held.record.record)
            }
        }
    }

    /// Only once the lease exists: a collection that condemns from then on waits for it.
    async fn learn_what_is_barred(&self) -> Result<()> {
        self.learned.get_or_try_init(|| self.read_what_is_barred()).await.map(|_| ())
    }

    async fn read_what_is_barred(&self) -> Result<()> {
        // A write that replaces records refers to nothing but its own packs and what they have.
        if !self.draft.updates.is_empty() {
            return Ok(());
        }
        let barred = condemned::barred(&self.store).await?;
        if self.rules.bar_condemned {
            self.known.bar(barred);
        }
        if self.lists_packs {
            let prefix = layout::packs(&self.store.tenant);
            let (packs, _) = list_all(&*self.store.bucket, &prefix, Depth::All).await?;
            self.stored_before.store(packs.iter().map(|entry| entry.size).sum(), Ordering::Relaxed);
            self.known.keep_only(packs.iter().filter_map(|entry| entry.key.name().parse().ok()));
        }
        Ok(())
    }

    /// Finds out which packs are there, if that is one request. Only once it is open.
    pub(crate) async fn look_at_packs(&self) -> Result<()> {
        if self.lists_packs {
            return Ok(());
        }
        self.looked.get_or_try_init(|| existing_packs::first_page(&self.store, &self.known)).await.map(|_| ())
    }

    /// Makes sure that these packs are there; `false` if some are not, and so may not be referred
    /// to. Only once it is open: a pack that was there earlier may be gone by then.
    pub async fn make_sure_of(&self, packs: impl IntoIterator<Item = PackId>) -> Result<bool> {
        let unsure: HashSet<PackId> = packs.into_iter().filter(|pack| self.known.is_unsure(pack)).collect();
        let missing = existing_packs::missing(&self.store, unsure.clone()).await?;
        let all = missing.is_empty();
        self.known.note_existing(unsure.into_iter().filter(|pack| !missing.contains(pack)));
        self.known.note_missing(missing);
        Ok(all)
    }

    /// Looks again at a snapshot that has an earlier state of the same work. The packs that it names are
    /// there while it is a snapshot; if it is none any more, or was moved or damaged since, the write refers
    /// to nothing that only it has. Only once the lease is there: packs condemned before are known then, and
    /// later collections wait for the lease.
    pub async fn look_at_earlier(&self, earlier: &Record) -> Result<()> {
        match records::current(&self.store, &earlier.lineage(), earlier.record).await {
            Ok(now) if now.state == State::Live && now.generation == earlier.generation => match now.damage {
                None => self.known.note_existing(now.packs()),
                Some(_) => self.known.forget_earlier(),
            },
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                return Err(error);
            }
            Ok(_) | Err(_) => self.known.forget_earlier(),
        }
        Ok(())
    }

    async fn create(&self) -> Result<Held> {
        let mut attempts = self.store.bucket.retry_policy().start();
        loop {
            // After an ambiguous answer the old name may still come into being, so a new one is taken.
            let mut record = self.draft.clone();
            record.record = clock::new_record_id();
            record.state = State::Writing;
            let key = layout::record(&self.lineage, record.record);
            let bytes = readable(&record)?;
            let error = match self.store.bucket.put(&key, bytes.clone().into(), Write::Create).await {
                Ok(version) => return Ok(Held::new(record, version)),
                Err(error) => error,
            };
            let unclear = error.is_retryable() || matches!(error, BucketError::AlreadyExists { .. });
            if !unclear || !attempts.again(&error).await {
                return Err(error.into());
            }
            if let Ok(object) = self.store.bucket.get(&key, bytes.len() as u64).await
                && object.bytes == bytes
            {
                return Ok(Held::new(record, object.version));
            }
        }
    }
}

#[async_trait]
impl WriteSession for WriteLease {
    /// Refusal gives the write up: its uploads so far become garbage.
    fn allow(&self, new_bytes: u64) -> Result<()> {
        let Some(quota) = self.quota_bytes else { return Ok(()) };
        let total = self.stored_before.load(Ordering::Relaxed).saturating_add(new_bytes);
        if total <= quota {
            return Ok(());
        }
        let tenant = &self.store.tenant;
        let what = format!(
            "{tenant} would have {total} bytes stored or more, {new_bytes} of them new, and may have {quota} (quota_bytes)"
        );
        Err(Error::QuotaExceeded { what })
    }

    async fn open(&self) -> Result<RecordId> {
        if !self.rules.lease_before_condemned {
            self.learn_what_is_barred().await?;
        }
        let write = self.begin().await?;
        self.learn_what_is_barred().await?;
        Ok(write)
    }

    /// Data refers to nothing, so it does not wait for the barred packs; for a quota, it waits for the list
    /// of packs.
    async fn open_for_data(&self) -> Result<RecordId> {
        if self.lists_packs { self.open().await } else { self.begin().await }
    }
}

/// Replaces our own record. After an ambiguous answer the same bytes are sent again: they
/// can only be applied once, and nobody but a collection that revokes us writes this key. So
/// that goes on for as long as the bucket repeats reads: all the work of the write hangs on it.
/// `unsure` is an earlier replacement of ours that may have been applied, or may be before this one.
async fn replace_own(
    store: &TenantStore,
    key: &Key,
    record: &Record,
    mut version: Version,
    unsure: Option<&[u8]>,
) -> Result<Version> {
    let bytes = readable(record)?;
    let mut attempts = store.bucket.retry_policy().start();
    loop {
        match store.bucket.put(key, bytes.clone().into(), Write::Replace(version.clone())).await {
            Ok(version) => return Ok(version),
            Err(BucketError::VersionMismatch { .. }) => {
                let object = match store.bucket.get(key, limits::RECORD).await {
                    Ok(object) => object,
                    // Revoked so long ago that it has been removed since.
                    Err(BucketError::NotFound { .. }) => {
                        return Err(Error::WriteRevoked { record: record.record });
                    }
                    Err(error) => return Err(error.into()),
                };
                if object.bytes == bytes {
                    return Ok(object.version);
                }
                if unsure.is_some_and(|unsure| object.bytes == unsure) {
                    version = object.version;
                    continue;
                }
                let found = Record::decode(&object.bytes).map_err(|error| error.of(key))?;
                return match found.state {
                    State::Revoked => Err(Error::WriteRevoked { record: record.record }),
                    State::Writing => Err(Error::damaged(key, "somebody else has written our record")),
                    // Nobody but us makes it live: it was applied, and somebody else went on with it.
                    State::Live | State::Trashed | State::Tombstone => Ok(object.version),
                };
            }
            Err(error) if error.is_retryable() && attempts.again(&error).await => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Refuses a record that is too large for readers before it is written, not after.
fn readable(record: &Record) -> Result<Vec<u8>> {
    record.encode_readable().map_err(|error| Error::InvalidInput {
        what: format!("the record {} cannot be written: {error}", record.record),
    })
}

fn internal(what: &str) -> Error {
    Error::Internal { what: what.to_owned() }
}
