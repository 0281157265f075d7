//! `find` looks for paths in one snapshot of a profile, or in all of them.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::record::Record,
    id::RecordId,
    name::Lineage,
    ops::read::{browse, resolve},
};

use crate::{
    Engine,
    contents::EntryFields,
    failure::Failure,
    names::SnapshotChoice,
    outcome::{LineageFields, Outcome},
    text::{glob::Glob, path, size},
};

/// Looks for paths that are like a pattern.
#[derive(Clone, Debug)]
pub struct FindRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
    /// The pattern, in which `*`, `?` and `[…]` stand for others.
    pub glob: OsString,
    /// Whether all snapshots are searched.
    pub all: bool,
}

/// A path that is like the pattern.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FindMatch {
    /// The entry.
    #[serde(flatten)]
    pub entry: EntryFields,
    /// The first digits of the id of the snapshot that has it.
    pub sha256_prefix: String,
    /// The record of that snapshot.
    pub record: RecordId,
    /// When that snapshot was captured.
    pub captured_at_ms: u64,
}

/// The paths that were found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FindOutcome {
    /// The profile whose snapshots were searched.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// How many snapshots were searched.
    pub snapshots: usize,
    /// The paths, snapshot by snapshot.
    pub matches: Vec<FindMatch>,
}

impl Outcome for FindOutcome {}

impl Engine {
    /// Looks for paths in snapshots.
    #[crate::boxed]
    pub async fn find(&self, request: &FindRequest) -> Result<FindOutcome, Failure> {
        let named = request.snapshot.named()?;
        if let Some(reference) = named.filter(|_| request.all) {
            let message = format!("--all looks at all snapshots, and @{reference} names one");
            return Err(Failure::usage(message).hint("leave one of them out"));
        }
        let (tenant, lineage) = self.lineage_to_judge(&request.snapshot.lineage()).await?;
        let records = match request.all {
            true => resolve::list(&tenant, &lineage).await?.records,
            false => vec![self.resolve_snapshot(&tenant, &lineage, request.snapshot.reference()?).await?],
        };
        let glob = Glob::new(request.glob.as_bytes());
        let mut matches = Vec::new();
        // One tree after another, each as a stream.
        for record in &records {
            browse::each(&tenant, record, |entry, file| {
                if !entry.path.is_root() && glob.is_like(entry.path.as_bytes()) {
                    matches.push(FindMatch {
                        entry: EntryFields::of(entry, file),
                        sha256_prefix: record.sha256_prefix(),
                        record: record.record,
                        captured_at_ms: record.captured_at_ms,
                    });
                }
            })
            .await?;
        }
        if matches.is_empty() {
            let (searched, glob) = (searched(&lineage, &records), path::shown(request.glob.as_bytes()));
            self.say(&format!("nothing in {searched} is like {glob}"));
        }
        Ok(FindOutcome { lineage: (&lineage).into(), snapshots: records.len(), matches })
    }
}

fn searched(lineage: &Lineage, records: &[Record]) -> String {
    match records {
        [record] => format!("snapshot {} of {lineage}", record.sha256_prefix()),
        _ => format!("{} of {lineage}", size::plural(records.len() as u64, "snapshot", "snapshots")),
    }
}
