//! Snapshots as rows of a table and as JSON: ours, and the archives of other programs.

use capture::examiner::LOGGED_OUT;
use engine::{
    text::{size, time},
    verbs::expect,
};
use serde_json::{Value, json};
use store::{
    format::{manifest::Manifest, record::Record},
    ops::read::resolve::Listing,
};

use crate::table::{
    Align::{Left, Right},
    Table,
};

const ANOTHERS: &str = "archive of another program";
const UNKNOWN: &str = "-";
const SHOWN_DIGITS: usize = 12;

pub(super) fn active(listing: &Listing) -> String {
    let latest = listing.records.iter().find(|record| Some(record.record) == listing.latest);
    listing.foreign.clone().or_else(|| latest.map(Record::sha256_prefix)).unwrap_or_default()
}

pub(super) fn json(listing: &Listing) -> Vec<Value> {
    let mut rows: Vec<Value> = listing.records.iter().map(|record| of_record(record, listing)).collect();
    rows.extend(manifests(listing).map(|manifest| of_archive(manifest, listing)));
    rows
}

pub(super) fn table(listings: &[Listing]) -> String {
    let mut table = Table::new(&[
        (" ", Left),
        ("CAPTURED (UTC)", Left),
        ("SNAPSHOT", Left),
        ("SIZE", Right),
        ("NEW", Right),
        ("STORED", Right),
        ("MODE", Left),
        ("CHROME", Right),
        ("REASON", Left),
        ("STATE", Left),
        ("LABELS", Left),
    ]);
    for listing in listings {
        listing.records.iter().for_each(|record| table.row(cells(record, listing)));
        manifests(listing).for_each(|manifest| table.row(archive_cells(manifest, listing)));
    }
    table.render()
}

fn manifests(listing: &Listing) -> impl Iterator<Item = &Manifest> {
    listing.archives.iter().filter_map(|archive| archive.manifest.as_ref().ok())
}

fn of_record(record: &Record, listing: &Listing) -> Value {
    let (missing, first_lapse) = expect::found(record);
    json!({
        "snapshot_id": record.content.as_ref().map(|content| content.snapshot_id),
        "record": record.record,
        "sha256_prefix": record.sha256_prefix(),
        "latest": Some(record.record) == listing.latest,
        "archive_sha256": record.archive_sha256,
        "captured_at_ms": record.captured_at_ms,
        "chrome_major_version": record.chrome_major_version,
        "uncompressed_size_bytes": record.uncompressed_size_bytes,
        "new_bytes": record.counts.new_bytes,
        "stored_bytes": record.counts.stored_bytes,
        "files": record.counts.files,
        "mode": record.mode,
        "reason": record.reason,
        "labels": record.labels,
        "tags": record.tags.keys().collect::<Vec<_>>(),
        "notes": record.notes,
        "complete": record.complete,
        "damaged_files": record.damage.as_ref().map(|damage| damage.files),
        "held_back": record.held_back,
        "missing": missing,
        "first_lapse": first_lapse,
        "damaged": is_damaged(record),
        "published": record.archive_sha256.is_some(),
        "foreign": false,
    })
}

/// What a record would say and a manifest does not is `null`.
fn of_archive(manifest: &Manifest, listing: &Listing) -> Value {
    let prefix = manifest.archive_sha256.prefix();
    json!({
        "snapshot_id": null,
        "record": null,
        "sha256_prefix": prefix,
        "latest": listing.foreign.as_ref() == Some(&prefix),
        "archive_sha256": manifest.archive_sha256,
        "captured_at_ms": manifest.captured_at_ms,
        "chrome_major_version": manifest.chrome_major_version,
        "uncompressed_size_bytes": manifest.uncompressed_size_bytes,
        "new_bytes": null,
        "stored_bytes": manifest.archive_size_bytes,
        "files": null,
        "mode": manifest.mode,
        "reason": null,
        "labels": {},
        "tags": [],
        "notes": manifest.notes,
        "complete": true,
        "damaged_files": null,
        "held_back": null,
        "missing": [],
        "first_lapse": null,
        "damaged": false,
        "published": true,
        "foreign": true,
    })
}

/// Whether bytes of it are lost, or a database was found damaged when it was captured.
fn is_damaged(record: &Record) -> bool {
    record.damage.is_some() || record.health.as_ref().is_some_and(|health| !health.damaged.is_empty())
}

fn mark(is_current: bool) -> String {
    if is_current { "*" } else { " " }.to_owned()
}

/// The id does not change when an archive of the snapshot is published: the archive's is told beside.
fn cells(record: &Record, listing: &Listing) -> Vec<String> {
    let tags = record.tags.keys().map(|tag| format!("#{tag}"));
    let labels = record.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let labels: Vec<String> = tags.chain(labels).collect();
    let id =
        record.content.as_ref().map_or_else(|| record.sha256(), |content| content.snapshot_id.to_string());
    vec![
        mark(Some(record.record) == listing.latest),
        time::utc(record.captured_at_ms),
        id.chars().take(SHOWN_DIGITS).collect(),
        size::bytes(record.uncompressed_size_bytes),
        size::bytes(record.counts.new_bytes),
        size::bytes(record.counts.stored_bytes),
        record.mode.as_str().to_owned(),
        record.chrome_major_version.to_string(),
        record.reason.as_str().to_owned(),
        state(record),
        labels.join(" "),
    ]
}

/// What sets a snapshot apart from others.
fn state(record: &Record) -> String {
    let missing = expect::missing(record);
    let held_back = record.held_back.as_ref().map(|word| match &missing {
        Some(missing) if word == LOGGED_OUT => format!("held back ({word}: {missing})"),
        _ => format!("held back ({word})"),
    });
    let logged_out = missing.filter(|_| record.held_back.as_deref() != Some(LOGGED_OUT));
    let logged_out = logged_out.map(|missing| format!("{LOGGED_OUT}: {missing}"));
    let damaged = is_damaged(record).then(|| "damaged".to_owned());
    let published =
        record.archive_sha256.is_some().then(|| format!("published as {}", record.sha256_prefix()));
    let parts: Vec<String> = [held_back, logged_out, damaged, published].into_iter().flatten().collect();
    parts.join(", ")
}

fn archive_cells(manifest: &Manifest, listing: &Listing) -> Vec<String> {
    let prefix = manifest.archive_sha256.prefix();
    vec![
        mark(listing.foreign.as_ref() == Some(&prefix)),
        time::utc(manifest.captured_at_ms),
        prefix,
        size::bytes(manifest.uncompressed_size_bytes),
        UNKNOWN.to_owned(),
        size::bytes(manifest.archive_size_bytes),
        manifest.mode.as_str().to_owned(),
        manifest.chrome_major_version.to_string(),
        UNKNOWN.to_owned(),
        ANOTHERS.to_owned(),
        String::new(),
    ]
}
