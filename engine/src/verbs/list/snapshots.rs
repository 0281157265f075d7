//! `snapshots` lists the snapshots of a profile: ours, and the archives of other programs.

use std::collections::BTreeMap;

use capture::load::damaged;
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::{
        manifest::Manifest,
        record::{Mode, Reason, Record},
    },
    id::{RecordId, SnapshotId},
    name::{ChromeMajor, Lineage},
    ops::read::resolve::{self, Listing},
};

use crate::{
    Engine,
    expectation::ExpectationFields,
    failure::{Failure, pointer_repair},
    lineages::taking_in,
    names::LineageName,
    outcome::LineageFields,
    text::escape,
};

/// The pointer of a profile as one Chrome writes it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LineagePointer {
    /// The Chrome.
    pub chrome_major_version: ChromeMajor,
    /// The first digits of the id of the current snapshot; empty if there is none.
    pub active_sha256_prefix: String,
    /// The damage of the pointer.
    pub pointer_damage: Option<String>,
    /// Whether the current one is an archive of another program.
    pub foreign: bool,
}

/// A snapshot, or an archive of another program. Fields that only a record has are `null` of an archive.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SnapshotRow {
    /// The snapshot's id.
    pub snapshot_id: Option<SnapshotId>,
    /// The snapshot's record.
    pub record: Option<RecordId>,
    /// The first digits of the id, or of the archive's digest if there is one.
    pub sha256_prefix: String,
    /// Whether it is the current one.
    pub latest: bool,
    /// The digest of its archive.
    pub archive_sha256: Option<String>,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The Chrome that wrote it.
    pub chrome_major_version: ChromeMajor,
    /// The bytes of all its files.
    pub uncompressed_size_bytes: u64,
    /// The bytes of the chunks that were new with it.
    pub new_bytes: Option<u64>,
    /// The bytes that were stored for it.
    pub stored_bytes: u64,
    /// How many files it has.
    pub files: Option<u64>,
    /// Whether Chrome was running.
    pub mode: Mode,
    /// Why it was taken.
    pub reason: Option<Reason>,
    /// The labels that it was given.
    pub labels: BTreeMap<String, String>,
    /// The tags that it has.
    pub tags: Vec<String>,
    /// The notes that it was given.
    pub notes: String,
    /// Whether everything below the source is in it but for exclusions.
    pub complete: bool,
    /// How many files cannot be read.
    pub damaged_files: Option<u64>,
    /// Why it was not made current by itself.
    pub held_back: Option<String>,
    /// The findings about what is expected.
    #[serde(flatten)]
    pub expectation: ExpectationFields,
    /// Whether bytes of it are lost, or a database was found damaged.
    pub damaged: bool,
    /// Whether there is an archive of it.
    pub published: bool,
    /// Whether it is an archive of another program.
    pub foreign: bool,
}

/// The snapshots of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SnapshotList {
    /// The profile, and the Chrome that commands choose by themselves.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The first digits of the id of that Chrome's current snapshot; empty if there is none.
    pub active_sha256_prefix: String,
    /// The damage of that Chrome's pointer.
    pub pointer_damage: Option<String>,
    /// Whether that Chrome's current one is an archive of another program.
    pub foreign: bool,
    /// The pointers of all Chrome versions.
    pub lineages: Vec<LineagePointer>,
    /// The snapshots, Chrome by Chrome, the oldest first.
    pub snapshots: Vec<SnapshotRow>,
}

pub(super) async fn list(engine: &Engine, name: &LineageName) -> Result<SnapshotList, Failure> {
    let tenant = engine.tenant_to_list(&name.profile.tenant).await?;
    let (chosen, majors) = engine.chosen(&tenant, name).await?;
    let majors = if name.chrome_major.is_some() { vec![chosen.chrome_major] } else { majors };
    let (mut lineages, mut snapshots) = (Vec::new(), Vec::new());
    for chrome_major in majors {
        let lineage = Lineage { name: name.profile.clone(), chrome_major };
        let listing = resolve::list(&tenant, &lineage).await?;
        tell(engine, &lineage, &listing);
        lineages.push(pointer(&lineage, &listing));
        snapshots.extend(rows(&listing));
    }
    let own = lineages.iter().find(|pointer| pointer.chrome_major_version == chosen.chrome_major).cloned();
    let own = own.ok_or_else(|| Failure::internal(format!("{chosen} was chosen and is not listed")))?;
    Ok(SnapshotList {
        lineage: (&chosen).into(),
        active_sha256_prefix: own.active_sha256_prefix,
        pointer_damage: own.pointer_damage,
        foreign: own.foreign,
        lineages,
        snapshots,
    })
}

fn pointer(lineage: &Lineage, listing: &Listing) -> LineagePointer {
    let latest = listing.records.iter().find(|record| Some(record.record) == listing.latest);
    let active = listing.foreign.clone().or_else(|| latest.map(Record::sha256_prefix));
    LineagePointer {
        chrome_major_version: lineage.chrome_major,
        active_sha256_prefix: active.unwrap_or_default(),
        pointer_damage: listing.pointer_damage.as_ref().map(ToString::to_string),
        foreign: listing.foreign.is_some(),
    }
}

fn rows(listing: &Listing) -> impl Iterator<Item = SnapshotRow> {
    let records = listing.records.iter().map(|record| of_record(record, listing));
    let manifests = listing.archives.iter().filter_map(|archive| archive.manifest.as_ref().ok());
    records.chain(manifests.map(|manifest| of_archive(manifest, listing)))
}

fn of_record(record: &Record, listing: &Listing) -> SnapshotRow {
    let has_damaged = record.health.as_ref().is_some_and(|health| !health.damaged.is_empty());
    SnapshotRow {
        snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
        record: Some(record.record),
        sha256_prefix: record.sha256_prefix(),
        latest: Some(record.record) == listing.latest,
        archive_sha256: record.archive_sha256.clone(),
        captured_at_ms: record.captured_at_ms,
        chrome_major_version: record.chrome_major_version,
        uncompressed_size_bytes: record.uncompressed_size_bytes,
        new_bytes: Some(record.counts.new_bytes),
        stored_bytes: record.counts.stored_bytes,
        files: Some(record.counts.files),
        mode: record.mode.clone(),
        reason: Some(record.reason.clone()),
        labels: record.labels.clone(),
        tags: record.tags.keys().cloned().collect(),
        notes: record.notes.clone(),
        complete: record.complete,
        damaged_files: record.damage.as_ref().map(|damage| damage.files),
        held_back: record.held_back.clone(),
        expectation: record.into(),
        damaged: record.damage.is_some() || has_damaged,
        published: record.archive_sha256.is_some(),
        foreign: false,
    }
}

fn of_archive(manifest: &Manifest, listing: &Listing) -> SnapshotRow {
    let prefix = manifest.archive_sha256.prefix();
    SnapshotRow {
        snapshot_id: None,
        record: None,
        latest: listing.foreign.as_ref() == Some(&prefix),
        sha256_prefix: prefix,
        archive_sha256: Some(manifest.archive_sha256.to_string()),
        captured_at_ms: manifest.captured_at_ms,
        chrome_major_version: manifest.chrome_major_version,
        uncompressed_size_bytes: manifest.uncompressed_size_bytes,
        new_bytes: None,
        stored_bytes: manifest.archive_size_bytes,
        files: None,
        mode: manifest.mode.clone(),
        reason: None,
        labels: BTreeMap::new(),
        tags: Vec::new(),
        notes: manifest.notes.clone(),
        complete: true,
        damaged_files: None,
        held_back: None,
        expectation: ExpectationFields::default(),
        damaged: false,
        published: true,
        foreign: true,
    }
}

/// Warns of all in a listing that needs somebody.
fn tell(engine: &Engine, lineage: &Lineage, listing: &Listing) {
    if let Some(prefix) = &listing.foreign {
        engine.warn(&format!(
            "another program has moved the pointer of {lineage} to its archive {}",
            escape::line(prefix)
        ));
        engine.say(&format!("hint: {}", taking_in(lineage)));
    }
    if let Some(damage) = &listing.pointer_damage {
        engine.warn(&format!("{damage}; which of these is current is not known"));
        engine.say(&format!(
            "hint: {}",
            pointer_repair(&lineage.name.to_string(), Some(&lineage.chrome_major.to_string()))
        ));
    }
    let is_listed = |id: &RecordId| listing.records.iter().any(|record| record.record == *id);
    if let Some(missing) = listing.latest.filter(|latest| !is_listed(latest)) {
        engine.warn(&format!(
            "the current snapshot of {lineage} is missing: its pointer names record {missing}, which is not there or \
             cannot be read"
        ));
        let other = listing.records.last().map_or_else(|| "PREFIX".to_owned(), Record::sha256_prefix);
        engine.say(&format!(
            "hint: `pstore rollback {} --chrome-major {} --sha {other} --confirm` makes another one current; \
             `pstore gc` waits for that",
            lineage.name, lineage.chrome_major
        ));
    }
    for archive in &listing.archives {
        if let Err(error) = &archive.manifest {
            engine.warn(&format!("an archive of another program cannot be listed: {error}"));
        }
    }
    listing.records.iter().filter_map(damaged).for_each(|warning| engine.warn(&warning));
}
