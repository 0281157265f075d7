//! Reads and lists records.

use std::collections::{HashMap, HashSet};

use futures::{StreamExt, TryStreamExt, stream};

use super::ended_records::EndedRecords;

use crate::{
    Error, ErrorKind, Result,
    bucket::{Bucket, BucketError, Depth, Entry, Prefix, Stamp, Version},
    content::TenantStore,
    format::{
        layout, limits,
        record::{Record, State},
    },
    id::RecordId,
    name::{ChromeMajor, Lineage, Profile, ProfileName},
};

const REQUESTS_AT_ONCE: usize = 16;

/// All pages of a listing: objects sorted by key, and folders sorted by name.
pub async fn list_all(
    bucket: &dyn Bucket,
    prefix: &Prefix,
    depth: Depth,
) -> Result<(Vec<Entry>, Vec<Prefix>)> {
    let (mut entries, mut folders) = (Vec::new(), Vec::new());
    let mut cursor = None;
    loop {
        let page = bucket.list(prefix, depth, cursor).await?;
        entries.extend(page.entries);
        folders.extend(page.folders);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    // Servers differ in the order they list in.
    entries.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    folders.sort_unstable();
    folders.dedup();
    Ok((entries, folders))
}

/// The record and the version it was read at.
pub async fn get(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<(Record, Version)> {
    get_stamped(store, lineage, id).await.map(|(record, version, _)| (record, version))
}

/// The record as it is now, if it is live or trashed. Fails with [`Error::NotFound`] if there is none, or
/// if it is a tombstone, was revoked, or is still being written.
pub async fn current(store: &TenantStore, lineage: &Lineage, id: RecordId) -> Result<Record> {
    match get(store, lineage, id).await {
        Ok((record, _)) if matches!(record.state, State::Live | State::Trashed) => Ok(record),
        Ok(_) | Err(Error::Bucket(BucketError::NotFound { .. })) => Err(deleted(lineage, id)),
        Err(error) => Err(error),
    }
}

/// A reader's error when its snapshot is gone: that is no damage.
pub(crate) fn deleted(lineage: &Lineage, record: RecordId) -> Error {
    Error::NotFound { what: format!("snapshot {record} of {lineage}, which was deleted,") }
}

/// As [`get`], with how old it was, unless it is gone.
pub(crate) async fn find(
    store: &TenantStore,
    lineage: &Lineage,
    id: RecordId,
) -> Result<Option<(Record, Version, Stamp)>> {
    match get_stamped(store, lineage, id).await {
        Ok(found) => Ok(Some(found)),
        Err(Error::Bucket(BucketError::NotFound { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`get`], and how old it was.
pub(crate) async fn get_stamped(
    store: &TenantStore,
    lineage: &Lineage,
    id: RecordId,
) -> Result<(Record, Version, Stamp)> {
    let key = layout::record(lineage, id);
    let object = store.bucket.get(&key, limits::RECORD).await?;
    let record = Record::decode(&object.bytes).map_err(|error| error.of(&key))?;
    if record.record != id
        || record.tenant_id != lineage.name.tenant
        || record.profile_id != lineage.name.profile
        || record.chrome_major_version != lineage.chrome_major
        || record.chunk_key != *store.key()
    {
        return Err(Error::damaged(&key, "it is the record of something else"));
    }
    Ok((record, object.version, object.stamp))
}

/// All records of a lineage, oldest first. Those that cannot be read come as errors.
pub async fn list(store: &TenantStore, lineage: &Lineage) -> Result<Vec<Result<Record>>> {
    let (entries, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
    let ids: Vec<RecordId> = entries.iter().filter_map(|entry| layout::record_of(&entry.key)).collect();
    Ok(read(store, lineage, ids).await.into_iter().map(|read| read.map(|(record, _)| record)).collect())
}

/// The snapshots of a lineage that are newer than `than`, oldest first.
pub async fn newer(store: &TenantStore, lineage: &Lineage, than: Option<RecordId>) -> Result<Vec<Record>> {
    let (entries, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
    Ok(unstamped(live_among(store, lineage, entries, |id| Some(id) > than).await?))
}

async fn read(store: &TenantStore, lineage: &Lineage, ids: Vec<RecordId>) -> Vec<Result<(Record, Stamp)>> {
    stream::iter(ids)
        .map(|id| async move { get_stamped(store, lineage, id).await.map(|(record, _, stamp)| (record, stamp)) })
        .buffered(REQUESTS_AT_ONCE)
        .filter(|result| {
            // A tombstone whose time is over may go while we look.
            let gone = matches!(result, Err(Error::Bucket(BucketError::NotFound { .. })));
            std::future::ready(!gone)
        })
        .collect()
        .await
}

/// Records of a lineage that hold a snapshot, in no order that means anything.
pub async fn live(store: &TenantStore, lineage: &Lineage) -> Result<Vec<Record>> {
    Ok(unstamped(live_stamped(store, lineage).await?))
}

/// As [`live`], and how old each object was.
pub(crate) async fn live_stamped(store: &TenantStore, lineage: &Lineage) -> Result<Vec<(Record, Stamp)>> {
    let (entries, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
    live_among(store, lineage, entries, |_| true).await
}

/// As [`live_stamped`], for somebody who only looks: a record that this process has read is not read again while
/// it is listed as it was.
pub(crate) async fn live_known(store: &TenantStore, lineage: &Lineage) -> Result<Vec<(Record, Stamp)>> {
    let (entries, _) = list_all(&*store.bucket, &layout::lineage(lineage), Depth::Children).await?;
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for entry in entries {
        match store.known_records.find(&entry) {
            Some(found) => known.push(found),
            None => unknown.push(entry),
        }
    }
    let listed: HashMap<RecordId, Entry> =
        unknown.iter().filter_map(|entry| Some((layout::record_of(&entry.key)?, entry.clone()))).collect();
    for (record, stamp) in live_among(store, lineage, unknown, |_| true).await? {
        if let Some(entry) = listed.get(&record.record) {
            store.known_records.learn(entry, &record, stamp);
        }
        known.push((record, stamp));
    }
    Ok(known)
}

/// Snapshots of a lineage whose records are listed. What has ended stays so, and is read once by
/// each host.
async fn live_among(
    store: &TenantStore,
    lineage: &Lineage,
    listed: Vec<Entry>,
    wanted: impl Fn(RecordId) -> bool,
) -> Result<Vec<(Record, Stamp)>> {
    let mut ended = EndedRecords::load(store, lineage);
    let ids = listed.iter().filter(|entry| !ended.has(entry));
    let ids = ids.filter_map(|entry| layout::record_of(&entry.key)).filter(|id| wanted(*id)).collect();
    let records = readable(read(store, lineage, ids).await)?;
    let over = records.iter().filter(|(record, _)| matches!(record.state, State::Tombstone | State::Revoked));
    let over: HashSet<RecordId> = over.map(|(record, _)| record.record).collect();
    ended.learn(store, &listed, &over);
    Ok(records.into_iter().filter(|(record, _)| record.state == State::Live).collect())
}

fn unstamped(records: Vec<(Record, Stamp)>) -> Vec<Record> {
    records.into_iter().map(|(record, _)| record).collect()
}

/// The records that can be read. A damaged one takes no other with it: it is told, and
/// left to `verify`.
fn readable(records: Vec<Result<(Record, Stamp)>>) -> Result<Vec<(Record, Stamp)>> {
    let told = |result: &Result<_>| match result {
        Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::UnsupportedFormat) => {
            tracing::warn!(%error, "a record cannot be read and is passed over");
            false
        }
        _ => true,
    };
    records.into_iter().filter(told).collect()
}

/// The Chrome major versions a profile was captured with, newest last.
pub async fn lineages(store: &TenantStore, name: &ProfileName) -> Result<Vec<Lineage>> {
    lineages_in(&*store.bucket, name).await
}

/// As [`lineages`], before anything is known of the tenant.
pub(crate) async fn lineages_in(bucket: &dyn Bucket, name: &ProfileName) -> Result<Vec<Lineage>> {
    lineages_or_tombstone(bucket, name).await.map(|(lineages, _)| lineages)
}

/// As [`lineages`], before anything is known of the tenant, and whether the profile has a tombstone.
pub async fn lineages_or_tombstone(bucket: &dyn Bucket, name: &ProfileName) -> Result<(Vec<Lineage>, bool)> {
    let (objects, folders) = list_all(bucket, &layout::profile(name), Depth::Children).await?;
    let tombstone = layout::tombstone(name);
    let is_deleted = objects.iter().any(|entry| entry.key == tombstone);
    let mut majors: Vec<ChromeMajor> =
        folders.iter().filter_map(|folder| folder.name().parse().ok()).collect();
    majors.sort_unstable_by_key(|major| major.preference());
    let lineages = majors.into_iter().map(|chrome_major| Lineage { name: name.clone(), chrome_major });
    Ok((lineages.collect(), is_deleted))
}

/// The profiles of a tenant.
pub async fn profiles(store: &TenantStore) -> Result<Vec<ProfileName>> {
    let (_, folders) = list_all(&*store.bucket, &layout::snapshots(&store.tenant), Depth::Children).await?;
    let profiles = folders.iter().filter_map(|folder| folder.name().parse::<Profile>().ok());
    Ok(profiles.map(|profile| ProfileName { tenant: store.tenant.clone(), profile }).collect())
}

/// Every lineage of a tenant.
pub(crate) async fn all_lineages(store: &TenantStore) -> Result<Vec<Lineage>> {
    let found: Vec<Vec<Lineage>> = stream::iter(profiles(store).await?)
        .map(|name| async move { lineages(store, &name).await })
        .buffered(REQUESTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}
