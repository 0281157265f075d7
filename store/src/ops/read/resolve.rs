//! Resolves a name to the snapshot that a person means.

mod reference;

pub use reference::{InvalidReference, Reference};

use std::{collections::BTreeMap, sync::Arc};

use super::profiles;
use crate::{
    Error, Result,
    catalog::{
        foreign::{self, ForeignArchive},
        order::{self, Dated},
        pointer::{self, VersionedPointer},
        records, tombstone,
    },
    content::TenantStore,
    format::{
        pointer::{Pointer, Target},
        record::{Record, State},
    },
    id::RecordId,
    name::{ChromeMajor, LATEST, Lineage, ProfileName, WIP},
};

/// The lineage that is meant, and whether there were others to choose from.
pub async fn lineage(
    store: &TenantStore,
    name: &ProfileName,
    major: Option<ChromeMajor>,
) -> Result<(Lineage, Vec<ChromeMajor>)> {
    let (all, is_deleted) = records::lineages_or_tombstone(&*store.bucket, name).await?;
    if is_deleted {
        profiles::require_undeleted(store, name).await?;
    }
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

/// Fails unless the profile has a lineage, or had one and is not deleted. No pointer is read.
pub async fn profile(store: &TenantStore, name: &ProfileName) -> Result<()> {
    let (all, is_deleted) = records::lineages_or_tombstone(&*store.bucket, name).await?;
    if is_deleted {
        profiles::require_undeleted(store, name).await?;
    }
    match all.is_empty() {
        true => Err(Error::NotFound { what: format!("profile {name}") }),
        false => Ok(()),
    }
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
#[derive(Debug)]
pub struct Listing {
    /// Oldest first.
    pub records: Vec<Record>,
    /// The record that the pointer names, if it names one.
    pub latest: Option<RecordId>,
    /// The pointer names a snapshot that no record of ours describes.
    pub foreign: Option<String>,
    /// The archives that other programs have stored beside them.
    pub archives: Vec<ForeignArchive>,
    /// The pointer is damaged: which of them is current is not known.
    pub pointer_damage: Option<Arc<Error>>,
}

/// Lists the snapshots of a lineage, and which of them is current.
pub async fn list(store: &TenantStore, lineage: &Lineage) -> Result<Listing> {
    let (records, pointer, archives) = futures::join!(
        live(store, lineage),
        pointer::read(store, lineage),
        foreign::archives(store, lineage)
    );
    let records = records?.into_iter().map(|dated| dated.record).collect();
    let archives = archives?;
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
    Ok(Listing { records, latest, foreign, archives, pointer_damage })
}

/// Oldest first.
async fn live(store: &TenantStore, lineage: &Lineage) -> Result<Vec<Dated>> {
    Ok(order::dated(records::live_known(store, lineage).await?))
}

/// The snapshot that is meant; if nothing is said, the current one.
pub async fn snapshot(
    store: &TenantStore,
    lineage: &Lineage,
    reference: Option<&Reference>,
) -> Result<Record> {
    match reference {
        None | Some(Reference::Latest(0)) => current(store, lineage).await,
        Some(Reference::Latest(back)) => {
            let latest = current(store, lineage).await?;
            before(live(store, lineage).await?, &latest, *back, lineage)
        }
        Some(Reference::Time(ms, typed)) => not_after(live(store, lineage).await?, *ms, typed, lineage),
        Some(Reference::Digits(digits)) => chosen(live(store, lineage).await?, lineage, digits, fits),
        Some(Reference::Word(word)) if word == WIP => in_progress(live(store, lineage).await?, lineage),
        Some(Reference::Word(word)) => {
            let named = |record: &Record, word: &str| record.tags.contains_key(word) || fits(record, word);
            chosen(live(store, lineage).await?, lineage, word, named)
        }
    }
}

async fn current(store: &TenantStore, lineage: &Lineage) -> Result<Record> {
    let read = pointer::read(store, lineage).await?.filter(|read| !read.pointer.is_empty());
    let Some(read) = read else {
        tombstone::require_none(store, &lineage.name).await?;
        return Err(Error::NotFound { what: format!("a current snapshot of {lineage}") });
    };
    pointed(store, lineage, &read).await
}

/// The snapshot that a pointer names, which names one.
pub(in crate::ops) async fn pointed(
    store: &TenantStore,
    lineage: &Lineage,
    read: &VersionedPointer,
) -> Result<Record> {
    let (id, snapshot_id) = match (read.pointer.target(), read.pointer.block()) {
        (Target::Record(id), Some(block)) => (id, block.snapshot_id),
        _ => return Err(of_another(store, lineage, &read.pointer)),
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

/// The error for a pointer whose fields are not those our block was bound to.
fn of_another(store: &TenantStore, lineage: &Lineage, pointer: &Pointer) -> Error {
    Error::Foreign {
        lineage: lineage.to_string(),
        sha256_prefix: pointer.active_sha256_prefix.clone(),
        store: store.bucket.describe(),
    }
}

/// Counted back from the current one among all that were made current before it, as far as can
/// be told.
fn before(records: Vec<Dated>, latest: &Record, back: usize, lineage: &Lineage) -> Result<Record> {
    let place = records.iter().position(|dated| dated.record.record == latest.record).unwrap_or(0);
    let earlier = records.into_iter().take(place).map(|dated| dated.record);
    let counted: Vec<Record> = earlier.filter(counts).collect();
    let (all, at) = (counted.len(), counted.len().checked_sub(back));
    let found = at.and_then(|at| counted.into_iter().nth(at));
    found.ok_or_else(|| Error::NotFound {
        what: format!("a snapshot {LATEST}~{back} of {lineage}, where {all} came before the current one,"),
    })
}

/// The newest work in progress.
fn in_progress(records: Vec<Dated>, lineage: &Lineage) -> Result<Record> {
    let mut found = records.into_iter().map(|dated| dated.record).filter(Record::is_work_in_progress);
    found.next_back().ok_or_else(|| Error::NotFound { what: format!("work in progress of {lineage}") })
}

/// Whether it was made current when it was stored: neither held back nor saved while a run went on.
fn counts(record: &Record) -> bool {
    record.held_back.is_none() && !record.is_work_in_progress()
}

/// The newest that had been taken by then. Nobody takes a snapshot after it
/// was stored: a host whose clock is ahead says so, and the store's clock knows better.
fn not_after(records: Vec<Dated>, ms: u64, typed: &str, lineage: &Lineage) -> Result<Record> {
    let taken_at_ms = |dated: &Dated| dated.record.captured_at_ms.min(dated.stored_at_ms);
    let mut fitting = records.into_iter().filter(|dated| counts(&dated.record));
    let newest = fitting.by_ref().rfind(|dated| taken_at_ms(dated) <= ms);
    newest.map(|dated| dated.record).ok_or_else(|| Error::NotFound {
        what: format!("a snapshot of {lineage} that was taken at {typed} or before"),
    })
}

/// Whether these are the first digits of its id or of its archive's, or its record's whole id.
fn fits(record: &Record, digits: &str) -> bool {
    if !reference::is_digits(digits) {
        return false;
    }
    let (lower, snapshot) = (digits.to_ascii_lowercase(), record.content.as_ref().map(|c| c.snapshot_id));
    record.sha256().starts_with(&lower)
        || snapshot.is_some_and(|id| id.to_string().starts_with(&lower))
        || record.record.to_string() == digits.to_ascii_uppercase()
}

/// The one snapshot that `fits`.
fn chosen(
    records: Vec<Dated>,
    lineage: &Lineage,
    word: &str,
    fits: impl Fn(&Record, &str) -> bool,
) -> Result<Record> {
    let mut found: Vec<Record> =
        records.into_iter().map(|dated| dated.record).filter(|record| fits(record, word)).collect();
    let candidates: BTreeMap<String, String> =
        found.iter().map(|record| (record.sha256(), candidate(record, word))).collect();
    match (found.pop(), candidates.len()) {
        // The same content captured twice is the same snapshot to restore; the newest record speaks for it.
        (Some(record), 1) => Ok(record),
        (None, _) => Err(Error::NotFound { what: format!("a snapshot {word} of {lineage}") }),
        _ => Err(Error::AmbiguousPrefix {
            prefix: word.to_owned(),
            candidates: candidates.into_values().collect(),
        }),
    }
}

/// How one of several is told from the others.
fn candidate(record: &Record, word: &str) -> String {
    let digits: String = record.sha256().chars().take(12.max(word.len() + 4)).collect();
    if record.tags.contains_key(word) { format!("{digits} (tagged so)") } else { digits }
}
