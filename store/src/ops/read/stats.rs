//! `stats` counts a tenant's stored objects and bytes, by kind, and the size of the snapshots they make up.
//!
//! Costs two listings and one request per record, for content of any size.

use std::{collections::BTreeSet, iter::Sum};

use futures::{StreamExt, stream};

use crate::{
    ErrorKind, Result,
    bucket::{Depth, Entry, Key},
    catalog::records::{self, list_all},
    content::TenantStore,
    format::{layout, record::State},
    id::{PackId, PackSeq, RecordId},
    name::{Lineage, Profile, ProfileName},
};

const REQUESTS_AT_ONCE: usize = 16;

/// Objects of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many objects.
    pub objects: u64,
    /// How many bytes they have.
    pub bytes: u64,
}

impl Tally {
    fn count(&mut self, entry: &Entry) {
        self.objects += 1;
        self.bytes += entry.size;
    }

    fn plus(self, other: Self) -> Self {
        Self { objects: self.objects + other.objects, bytes: self.bytes + other.bytes }
    }
}

/// The counts of a tenant's objects and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Profiles that have a snapshot.
    pub profiles: u64,
    /// Live ones.
    pub snapshots: u64,
    /// Sum of the uncompressed sizes of all live snapshots.
    pub logical_bytes: u64,
    /// Records that could not be read; their snapshots are not counted.
    pub unreadable_records: u64,
    /// File content.
    pub packs: Tally,
    /// Trees and tables.
    pub meta_packs: Tally,
    /// The indexes.
    pub indexes: Tally,
    /// The records, in all states.
    pub records: Tally,
    /// All else: pointers, locks, events, pins, condemned packs' documents, configuration, tombstones, archives.
    pub other: Tally,
}

impl Stats {
    /// All objects together.
    pub fn stored(&self) -> Tally {
        [self.meta_packs, self.indexes, self.records, self.other].into_iter().fold(self.packs, Tally::plus)
    }

    /// How many bytes of snapshots one stored byte stands for.
    pub fn dedup_ratio(&self) -> Option<f64> {
        let stored = self.stored().bytes;
        (stored > 0).then(|| self.logical_bytes as f64 / stored as f64)
    }
}

impl Sum for Stats {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |a, b| Self {
            profiles: a.profiles + b.profiles,
            snapshots: a.snapshots + b.snapshots,
            logical_bytes: a.logical_bytes + b.logical_bytes,
            unreadable_records: a.unreadable_records + b.unreadable_records,
            packs: a.packs.plus(b.packs),
            meta_packs: a.meta_packs.plus(b.meta_packs),
            indexes: a.indexes.plus(b.indexes),
            records: a.records.plus(b.records),
            other: a.other.plus(b.other),
        })
    }
}

/// Counts a tenant's objects and bytes.
pub async fn stats(store: &TenantStore) -> Result<Stats> {
    let (content, catalog) = futures::future::try_join(
        list_all(&*store.bucket, &layout::content(&store.tenant), Depth::All),
        list_all(&*store.bucket, &layout::snapshots(&store.tenant), Depth::All),
    )
    .await?;
    let mut stats = Stats::default();
    for entry in &content.0 {
        stats.content(store, entry);
    }
    let mut profiles = BTreeSet::new();
    let mut found = Vec::new();
    for entry in &catalog.0 {
        match record_at(store, &entry.key) {
            Some((lineage, id)) => {
                stats.records.count(entry);
                found.push((lineage, id));
            }
            None => stats.other.count(entry),
        }
    }
    let mut records = stream::iter(found)
        .map(|(lineage, id)| async move {
            let record = records::get(store, &lineage, id).await;
            (lineage, record)
        })
        .buffered(REQUESTS_AT_ONCE);
    while let Some((lineage, record)) = records.next().await {
        match record {
            Ok((record, _)) if record.state == State::Live => {
                stats.snapshots += 1;
                stats.logical_bytes += record.uncompressed_size_bytes;
                profiles.insert(lineage.name);
            }
            Ok(_) => {}
            Err(error) => match error.kind() {
                // It may go while we look.
                ErrorKind::NotFound => {}
                ErrorKind::Damaged | ErrorKind::UnsupportedFormat => stats.unreadable_records += 1,
                _ => return Err(error),
            },
        }
    }
    stats.profiles = profiles.len() as u64;
    Ok(stats)
}

impl Stats {
    fn content(&mut self, store: &TenantStore, entry: &Entry) {
        let below = |prefix: &crate::bucket::Prefix| entry.key.as_str().starts_with(prefix.as_str());
        let tally = if below(&layout::packs(&store.tenant)) {
            match entry.key.name().parse::<PackId>().map(|pack| pack.seq) {
                Ok(PackSeq::Data(_)) => &mut self.packs,
                Ok(PackSeq::Meta) => &mut self.meta_packs,
                Err(_) => &mut self.other,
            }
        } else if below(&layout::indexes(&store.tenant)) {
            &mut self.indexes
        } else {
            &mut self.other
        };
        tally.count(entry);
    }
}

/// The record of a key of the catalog: `snapshots/<tenant>/<profile>/<major>/snap-<id>.json`.
fn record_at(store: &TenantStore, key: &Key) -> Option<(Lineage, RecordId)> {
    let id = layout::record_of(key)?;
    let below = key.as_str().strip_prefix(layout::snapshots(&store.tenant).as_str())?;
    let mut parts = below.split('/');
    let profile = parts.next()?.parse::<Profile>().ok()?;
    let chrome_major = parts.next()?.parse().ok()?;
    let lineage = Lineage { name: ProfileName { tenant: store.tenant.clone(), profile }, chrome_major };
    (layout::record(&lineage, id) == *key).then_some((lineage, id))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        bucket::{Bucket, MemoryBucket, Recorder, Write},
        catalog::store::Store,
    };

    #[tokio::test]
    async fn objects_are_counted_by_kind_without_being_read() {
        let recorder = Arc::new(Recorder::new(Arc::new(MemoryBucket::new())));
        let store = Store::new(recorder.clone(), None);
        let tenant = store.writable_tenant(&"acme".parse().unwrap()).await.unwrap();
        let write = "01M7EK5ZXTDMZFEEEKFR9Y9S25";
        for (key, len) in [
            (format!("content/acme/packs/{write}-00000"), 100),
            (format!("content/acme/packs/{write}-00001"), 50),
            (format!("content/acme/packs/{write}-meta"), 20),
            (format!("content/acme/index/{write}"), 10),
            ("snapshots/acme/alice/131/latest.json".to_owned(), 5),
            (format!("snapshots/acme/alice/131/snap-{write}.json"), 7),
        ] {
            let body = vec![b'x'; len].into();
            recorder.put(&Key::new(key).unwrap(), body, Write::Create).await.unwrap();
        }
        recorder.take();
        let stats = stats(&tenant).await.unwrap();
        assert_eq!(recorder.calls().len(), 3, "two listings and one record");
        assert_eq!(stats.packs, Tally { objects: 2, bytes: 150 });
        assert_eq!(stats.meta_packs, Tally { objects: 1, bytes: 20 });
        assert_eq!(stats.indexes, Tally { objects: 1, bytes: 10 });
        assert_eq!(stats.records, Tally { objects: 1, bytes: 7 });
        assert_eq!((stats.unreadable_records, stats.snapshots, stats.profiles), (1, 0, 0));
        // The pointer and the tenant's configuration.
        assert_eq!(stats.other.objects, 2);
        let all: Stats = [stats, stats].into_iter().sum();
        assert_eq!(all.stored().bytes, 2 * stats.stored().bytes);
    }
}
