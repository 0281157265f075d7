//! Finding the snapshot a person means.

use std::sync::Arc;

use crate::{
    Error, Result,
    catalog::{
        order,
        pointer::{self, Read},
        records,
    },
    content::TenantStore,
    format::{
        pointer::{Pointer, Target},
        record::{Record, State},
    },
    id::RecordId,
    name::{ChromeMajor, Lineage, ProfileName},
};

/// The lineage that is meant, and whether there were others to choose from.
pub async fn lineage(
    store: &TenantStore,
    name: &ProfileName,
    major: Option<ChromeMajor>,
) -> Result<(Lineage, Vec<ChromeMajor>)> {
    let all = records::lineages(store, name).await?;
    let majors = all.iter().map(|lineage| lineage.chrome_major).collect();
    let found = match major {
        Some(major) => all.into_iter().find(|lineage| lineage.chrome_major == major),
        None => newest_with_a_snapshot(store, all).await?,
    };
    let missing = || match major {
        Some(major) => format!("a snapshot of {name} for Chrome {major}"),
        None => format!("profile {name}"),
    };
    Ok((found.ok_or_else(|| Error::NotFound { what: missing() })?, majors))
}

/// The newest lineage whose pointer points at something: a first capture that was cut
/// short must not hide the profile of an older Chrome. Without any, the newest.
async fn newest_with_a_snapshot(store: &TenantStore, all: Vec<Lineage>) -> Result<Option<Lineage>> {
    for lineage in all.iter().rev() {
        match pointer::read(store, lineage).await {
            Ok(read) if read.as_ref().is_none_or(|read| read.pointer.is_empty()) => {}
            // A pointer that is damaged is there, and will be told about.
            Ok(_) | Err(Error::Damaged { .. }) => return Ok(Some(lineage.clone())),
            Err(error) => return Err(error),
        }
    }
    Ok(all.into_iter().next_back())
}

/// The snapshots of a lineage and which of them is current.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Oldest first.
    pub records: Vec<Record>,
    pub latest: Option<RecordId>,
    /// The pointer names a snapshot that no record of ours describes.
    pub foreign: Option<String>,
    /// The pointer is damaged: which of them is current is not known.
    pub pointer_damage: Option<Arc<Error>>,
}

pub async fn list(store: &TenantStore, lineage: &Lineage) -> Result<Listing> {
    let (records, pointer) = futures::future::join(live(store, lineage), pointer::read(store, lineage)).await;
    let records = records?;
    let (pointer, pointer_damage) = match pointer {
        Err(error @ Error::Damaged { .. }) => (None, Some(Arc::new(error))),
        pointer => (pointer?, None),
    };
    let (mut latest, mut foreign) = (None, None);
    match pointer.as_ref().map(|read| read.pointer.target()) {
        Some(Target::Record(record)) => latest = Some(record),
        Some(Target::Foreign(prefix)) => foreign = Some(prefix.to_owned()),
        Some(Target::Nothing) | None => {}
    }
    Ok(Listing { records, latest, foreign, pointer_damage })
}

/// Oldest first.
async fn live(store: &TenantStore, lineage: &Lineage) -> Result<Vec<Record>> {
    let dated = order::dated(records::live_stamped(store, lineage).await?);
    Ok(dated.into_iter().map(|dated| dated.record).collect())
}

/// The snapshot with this prefix of its id, of its archive's digest, or of its record's id;
/// without a prefix the current one.
pub async fn snapshot(store: &TenantStore, lineage: &Lineage, prefix: Option<&str>) -> Result<Record> {
    match prefix {
        None => current(store, lineage).await,
        Some(prefix) => by_prefix(live(store, lineage).await?, lineage, prefix),
    }
}

async fn current(store: &TenantStore, lineage: &Lineage) -> Result<Record> {
    let read = pointer::read(store, lineage).await?.filter(|read| !read.pointer.is_empty());
    let Some(read) = read else {
        return Err(Error::NotFound { what: format!("a current snapshot of {lineage}") });
    };
    pointed(store, lineage, &read).await
}

/// The snapshot that a pointer names, which names one.
pub(super) async fn pointed(store: &TenantStore, lineage: &Lineage, read: &Read) -> Result<Record> {
    let (id, snapshot_id) = match (read.pointer.target(), read.pointer.block()) {
        (Target::Record(id), Some(block)) => (id, block.snapshot_id),
        _ => return Err(foreign(store, lineage, &read.pointer)),
    };
    let (record, _) = records::get(store, lineage, id).await.map_err(|error| match error {
        Error::Bucket(crate::bucket::BucketError::NotFound { key }) => {
            Error::Missing { object: key, by: "the pointer names it" }
        }
        error => error,
    })?;
    // A deletion that was cut short leaves the current snapshot trashed, and all of it there.
    if !matches!(record.state, State::Live | State::Trashed) {
        return Err(Error::damaged(
            format!("the pointer of {lineage}"),
            format!("it names snapshot {id}, which is {:?}", record.state).to_lowercase(),
        ));
    }
    if record.content.as_ref().map(|content| content.snapshot_id) != snapshot_id {
        return Err(Error::damaged(
            format!("the pointer of {lineage}"),
            format!("it names another content than record {id} has"),
        ));
    }
    Ok(record)
}

/// What to say of a pointer whose fields are not those our block was bound to.
fn foreign(store: &TenantStore, lineage: &Lineage, pointer: &Pointer) -> Error {
    Error::Foreign {
        lineage: lineage.to_string(),
        sha256_prefix: pointer.active_sha256_prefix.clone(),
        store: store.bucket.describe(),
    }
}

fn by_prefix(records: Vec<Record>, lineage: &Lineage, prefix: &str) -> Result<Record> {
    let lower = prefix.to_ascii_lowercase();
    let fits = |record: &Record| {
        let ids = [
            record.sha256(),
            record.content.as_ref().map_or_else(String::new, |c| c.snapshot_id.to_string()),
        ];
        ids.iter().any(|id| id.starts_with(&lower))
            || record.record.to_string() == prefix.to_ascii_uppercase()
    };
    let mut found: Vec<Record> =
        records.into_iter().filter(|record| !prefix.is_empty() && fits(record)).collect();
    let distinct: std::collections::BTreeSet<String> = found.iter().map(Record::sha256).collect();
    match (found.pop(), distinct.len()) {
        // The same content captured twice is the same snapshot to restore; the newest record speaks for it.
        (Some(record), 1) => Ok(record),
        (None, _) => Err(Error::NotFound { what: format!("a snapshot {prefix} of {lineage}") }),
        _ => Err(Error::AmbiguousPrefix {
            prefix: prefix.to_owned(),
            candidates: distinct
                .into_iter()
                .map(|sha| sha.chars().take(12.max(prefix.len() + 4)).collect())
                .collect(),
        }),
    }
}
