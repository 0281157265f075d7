//! `Survey` keeps a summary of every snapshot, pointer and lock of a tenant, and brings it up to date with one listing.
//!
//! An object is read again only if the store lists it with another size or time than when it was read. The time
//! of some stores is in whole seconds, so an object that was young when it was read is read once more.

mod summary;

pub use summary::{LockSummary, Notable, PointerSummary, RecordSummary, SnapshotSummary};

use std::{
    collections::{BTreeMap, btree_map},
    time::UNIX_EPOCH,
};

use futures::{StreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::{
    Error, ErrorKind, Result,
    bucket::{BucketError, Depth, Entry, Key},
    catalog::{
        clock,
        records::{self, list_all},
    },
    content::{TenantStore, cache::CacheKind},
    format::{layout, limits, lock::Lock, pointer::Pointer},
    id::RecordId,
    name::{ChromeMajor, Lineage, Profile},
};

const REQUESTS_AT_ONCE: usize = 8;
/// An object that was younger than this when it was read may have changed since without a trace in the listing.
const SETTLED_MS: u64 = 60_000;
/// The name of the file in the cache. Another number for another form of it.
const CACHED_AS: &str = "survey-2";

/// The profiles of a tenant, each as one Chrome writes it.
pub type Lineages = BTreeMap<(Profile, ChromeMajor), LineageSurvey>;

/// See the module header.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Survey {
    /// When the store was listed last, by this host's clock; 0 before the first time.
    looked_at_ms: u64,
    #[serde(with = "as_list")]
    lineages: Lineages,
    /// Whether only locks are read.
    #[serde(skip)]
    only_locks: bool,
}

/// The objects of one lineage.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LineageSurvey {
    #[serde(with = "as_list")]
    records: BTreeMap<RecordId, SummarisedObject<RecordSummary>>,
    pointer: Option<SummarisedObject<PointerSummary>>,
    lock: Option<SummarisedObject<Option<LockSummary>>>,
}

/// Something that was read, and how it was listed then. There are many of them in a cache, so that names are short there.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SummarisedObject<T> {
    #[serde(rename = "b")]
    size: u64,
    #[serde(rename = "m")]
    modified_ns: u64,
    /// Whether every later change shows in the size or the time.
    #[serde(rename = "s")]
    settled: bool,
    #[serde(rename = "v")]
    value: T,
}

/// The object of a lineage that a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectKind {
    Record(RecordId),
    Pointer,
    Lock,
}

/// Something that was read, with its place in a lineage.
enum SeenObject {
    Record(RecordId, SummarisedObject<RecordSummary>),
    Pointer(SummarisedObject<PointerSummary>),
    Lock(SummarisedObject<Option<LockSummary>>),
}

impl Survey {
    /// One that reads the locks and nothing else. It belongs into no cache.
    pub fn of_locks() -> Self {
        Self { only_locks: true, ..Self::default() }
    }

    /// As this host left it in its cache, if it did.
    pub fn load(store: &TenantStore) -> Option<Self> {
        let bytes = store.cache.as_ref()?.read(CacheKind::Survey, CACHED_AS)?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Leaves it in the cache of this host.
    pub fn save(&self, store: &TenantStore) {
        let Some(cache) = &store.cache else { return };
        if let Ok(bytes) = serde_json::to_vec(self) {
            cache.write(CacheKind::Survey, CACHED_AS, &bytes);
        }
    }

    /// When the store was listed last, by this host's clock; 0 before the first time.
    pub fn looked_at_ms(&self) -> u64 {
        self.looked_at_ms
    }

    /// Each profile, as each Chrome writes it.
    pub fn lineages(&self) -> &Lineages {
        &self.lineages
    }

    /// Brings it up to date. Whether anything is different now. If it fails, all stays as it was.
    pub async fn look(&mut self, store: &TenantStore) -> Result<bool> {
        let began_at_ms = clock::unix_ms();
        let (entries, _) = list_all(&*store.bucket, &layout::snapshots(&store.tenant), Depth::All).await?;
        let (mut same, mut unread) = (Vec::new(), Vec::new());
        for entry in entries {
            let Some((lineage, kind)) = object_of(store, &entry) else { continue };
            if self.only_locks && kind != ObjectKind::Lock {
                continue;
            }
            let own = (lineage.name.profile.clone(), lineage.chrome_major);
            match self.lineages.get(&own).is_some_and(|before| before.has(kind, &entry)) {
                true => same.push((own, kind)),
                false => unread.push((lineage, own, kind, entry)),
            }
        }
        let mut changed = !unread.is_empty();
        let mut objects = Vec::with_capacity(unread.len());
        let mut reading = stream::iter(unread)
            .map(|(lineage, own, kind, entry)| async move {
                Ok::<_, Error>((own, read(store, &lineage, kind, &entry, began_at_ms).await?))
            })
            .buffer_unordered(REQUESTS_AT_ONCE);
        while let Some(read) = reading.next().await {
            objects.push(read?);
        }
        drop(reading);
        let mut before = std::mem::take(&mut self.lineages);
        for (own, kind) in same {
            if let Some(object) = before.get_mut(&own).and_then(|before| before.take(kind)) {
                object.put(self.lineages.entry(own));
            }
        }
        for (own, object) in objects {
            if let Some(object) = object {
                object.put(self.lineages.entry(own));
            }
        }
        changed |= before.values().any(|lineage| !lineage.is_empty());
        self.looked_at_ms = began_at_ms;
        Ok(changed)
    }
}

impl LineageSurvey {
    /// The records, by their ids.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = (RecordId, &RecordSummary)> {
        self.records.iter().map(|(id, seen)| (*id, &seen.value))
    }

    /// A record.
    pub fn record(&self, id: RecordId) -> Option<&RecordSummary> {
        self.records.get(&id).map(|seen| &seen.value)
    }

    /// The pointer, if there is one.
    pub fn pointer(&self) -> Option<&PointerSummary> {
        self.pointer.as_ref().map(|seen| &seen.value)
    }

    /// The lock, unless it is free, and when it was written, by the store's clock.
    pub fn lock(&self) -> Option<(&LockSummary, u64)> {
        let seen = self.lock.as_ref()?;
        Some((seen.value.as_ref()?, seen.modified_ns / 1_000_000))
    }

    fn is_empty(&self) -> bool {
        self.records.is_empty() && self.pointer.is_none() && self.lock.is_none()
    }

    /// Whether an object was read, and is listed as it was then.
    fn has(&self, kind: ObjectKind, entry: &Entry) -> bool {
        match kind {
            ObjectKind::Record(id) => self.records.get(&id).is_some_and(|seen| seen.is_as(entry)),
            ObjectKind::Pointer => self.pointer.as_ref().is_some_and(|seen| seen.is_as(entry)),
            ObjectKind::Lock => self.lock.as_ref().is_some_and(|seen| seen.is_as(entry)),
        }
    }

    fn take(&mut self, kind: ObjectKind) -> Option<SeenObject> {
        match kind {
            ObjectKind::Record(id) => self.records.remove(&id).map(|seen| SeenObject::Record(id, seen)),
            ObjectKind::Pointer => self.pointer.take().map(SeenObject::Pointer),
            ObjectKind::Lock => self.lock.take().map(SeenObject::Lock),
        }
    }
}

impl SeenObject {
    fn put(self, place: btree_map::Entry<'_, (Profile, ChromeMajor), LineageSurvey>) {
        let lineage = place.or_default();
        match self {
            Self::Record(id, seen) => drop(lineage.records.insert(id, seen)),
            Self::Pointer(seen) => lineage.pointer = Some(seen),
            Self::Lock(seen) => lineage.lock = Some(seen),
        }
    }
}

impl<T> SummarisedObject<T> {
    fn new(entry: &Entry, now_ms: u64, value: T) -> Self {
        let modified_ns = modified_ns(entry);
        let settled = (modified_ns / 1_000_000).saturating_add(SETTLED_MS) < now_ms;
        Self { size: entry.size, modified_ns, settled, value }
    }

    /// Whether the object is listed as it was, and would not be if it had changed.
    fn is_as(&self, entry: &Entry) -> bool {
        self.settled && self.size == entry.size && self.modified_ns == modified_ns(entry)
    }
}

fn modified_ns(entry: &Entry) -> u64 {
    let since = entry.modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn object_of(store: &TenantStore, entry: &Entry) -> Option<(Lineage, ObjectKind)> {
    let kind = match entry.key.name() {
        "latest.json" => ObjectKind::Pointer,
        "lock.json" => ObjectKind::Lock,
        _ => ObjectKind::Record(layout::record_of(&entry.key)?),
    };
    Some((layout::lineage_of(&store.tenant, &entry.key)?, kind))
}

/// Reads one object; `None` if it is gone since it was listed.
async fn read(
    store: &TenantStore,
    lineage: &Lineage,
    kind: ObjectKind,
    entry: &Entry,
    now_ms: u64,
) -> Result<Option<SeenObject>> {
    let key = &entry.key;
    Ok(Some(match kind {
        ObjectKind::Record(id) => {
            let value = match records::get(store, lineage, id).await {
                Ok((record, _)) => RecordSummary::of(&record),
                Err(error) if is_unreadable(&error) => RecordSummary::Unreadable(error.to_string().into()),
                Err(error) => return unless_gone(error),
            };
            SeenObject::Record(id, SummarisedObject::new(entry, now_ms, value))
        }
        ObjectKind::Pointer => {
            let read = bytes(store, key, limits::POINTER).await;
            let read = read.and_then(|bytes| Pointer::decode(&bytes).map_err(|error| error.of(key)));
            let value = match read {
                Ok(pointer) => PointerSummary::of(&pointer),
                Err(error) if is_unreadable(&error) => PointerSummary::Damaged(error.to_string().into()),
                Err(error) => return unless_gone(error),
            };
            SeenObject::Pointer(SummarisedObject::new(entry, now_ms, value))
        }
        ObjectKind::Lock => {
            let read = bytes(store, key, limits::LOCK).await;
            let read = read.and_then(|bytes| Lock::decode(&bytes).map_err(|error| error.of(key)));
            let value = match read {
                Ok(lock) => LockSummary::of(&lock),
                // As far as anybody can tell, nobody holds it.
                Err(error) if is_unreadable(&error) => None,
                Err(error) => return unless_gone(error),
            };
            SeenObject::Lock(SummarisedObject::new(entry, now_ms, value))
        }
    }))
}

async fn bytes(store: &TenantStore, key: &Key, limit: u64) -> Result<bytes::Bytes> {
    Ok(store.bucket.get(key, limit).await?.bytes)
}

fn is_unreadable(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat)
}

fn unless_gone<T>(error: Error) -> Result<Option<T>> {
    match error {
        Error::Bucket(BucketError::NotFound { .. }) => Ok(None),
        error => Err(error),
    }
}

/// A map as a list of pairs: its keys are no text.
mod as_list {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: DeserializeOwned + Ord,
        V: DeserializeOwned,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
