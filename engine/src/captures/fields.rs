//! `CapturedFields` describe a capture, in every document that has one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    catalog::pointer::Flip,
    id::{RecordId, SnapshotId},
    name::Lineage,
    ops::write::snapshot::{Outcome, Report},
};

use super::advice;
use crate::{failure::Failure, outcome::LineageFields};

/// Whether a snapshot is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreChange {
    /// A new snapshot was stored.
    Stored,
    /// The content is that of a snapshot that exists.
    Unchanged,
}

/// Whether the pointer was moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PointerChange {
    /// The pointer was moved to the snapshot.
    Flipped,
    /// The pointer stays where it was.
    Unchanged,
}

/// Why a snapshot was stored and not made the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HeldBackFor {
    /// Most cookies are gone.
    Shrunk,
    /// An expectation of the profile is missing.
    #[serde(rename = "logged out")]
    LoggedOut,
    /// Nobody could examine it.
    Unjudged,
    /// A database is damaged.
    Damaged,
    /// Its session had started with an empty profile.
    Fallback,
}

impl HeldBackFor {
    /// The word of a capture for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Shrunk => "shrunk",
            Self::LoggedOut => "logged out",
            Self::Damaged => "damaged",
            Self::Fallback => "fallback",
            Self::Unjudged => "unjudged",
        }
    }

    /// The reason behind the word of a capture. A word that nobody has listed here says nothing about the
    /// profile.
    fn of(word: &str) -> Self {
        match word {
            "shrunk" => Self::Shrunk,
            "logged out" => Self::LoggedOut,
            "damaged" => Self::Damaged,
            "fallback" => Self::Fallback,
            _ => Self::Unjudged,
        }
    }
}

/// Entries of the directory that are not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedFields {
    /// Sockets.
    pub sockets: u64,
    /// FIFOs.
    pub fifos: u64,
    /// Devices.
    pub devices: u64,
}

/// A snapshot, and what it took to store it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CapturedFields {
    /// Whether the snapshot is new.
    pub outcome: StoreChange,
    /// The profile of the snapshot.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// Its record.
    pub record: RecordId,
    /// Whether the pointer was moved.
    pub pointer: PointerChange,
    /// The first digits of the snapshot's id, or of its archive's digest.
    pub sha256_prefix: String,
    /// The same, if the snapshot is the current one.
    pub active_sha256_prefix: Option<String>,
    /// The digits of the snapshot that the pointer was moved from; empty if there was none.
    pub flipped_from_sha256_prefix: Option<String>,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// Why it was not made the current one.
    pub held_back: Option<HeldBackFor>,
    /// How the browser ended: `not_running`, `running` if it was left alone, `closed`, `terminated`, `killed`, or any
    /// other word.
    pub ended: Option<String>,
    /// How long the browser took to end.
    pub stop_ms: Option<u64>,
    /// Databases that were checked.
    pub databases_checked: Option<u64>,
    /// Databases that are damaged.
    pub databases_damaged: Option<u64>,
    /// Cookies that the profile has.
    pub cookies: Option<u64>,
    /// The bytes of all files.
    pub uncompressed_size_bytes: u64,
    /// Files.
    pub files: u64,
    /// Files that were read.
    pub read_files: u64,
    /// Files that kept their chunks without being read.
    pub reused_files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Names of files that have another name.
    pub hard_links: u64,
    /// Chunks.
    pub chunks: u64,
    /// Chunks that were not stored before.
    pub new_chunks: u64,
    /// The bytes of these chunks.
    pub new_bytes: u64,
    /// The bytes that these chunks take in the store.
    pub stored_bytes: u64,
    /// Packs of an interrupted write that this one uses.
    pub taken_over_packs: u64,
    /// The bytes of these packs.
    pub taken_over_bytes: u64,
    /// Entries that are not stored.
    pub skipped: SkippedFields,
    /// Indexes that were searched for known content.
    pub indexes: u64,
    /// Indexes that were not searched.
    pub indexes_left_out: u64,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Warnings, though it was stored.
    pub warnings: Vec<String>,
    /// How long it took, exactly.
    #[serde(skip)]
    pub elapsed: Duration,
    #[serde(skip)]
    verdict: Option<Failure>,
}

impl CapturedFields {
    /// Tells of a capture. `remarks` are warnings about the directory, whatever is in it.
    pub fn of(lineage: &Lineage, report: &Report, remarks: Vec<String>) -> Self {
        let (pointer, from) = match &report.flip {
            Flip::Flipped { from, .. } => (PointerChange::Flipped, Some(from.clone())),
            Flip::Unchanged => (PointerChange::Unchanged, None),
        };
        let (counts, health) = (&report.counts, report.health.as_ref());
        let mut warnings = advice::warnings(report);
        warnings.extend(remarks);
        Self {
            outcome: match report.outcome {
                Outcome::Stored => StoreChange::Stored,
                Outcome::Unchanged => StoreChange::Unchanged,
            },
            lineage: lineage.into(),
            snapshot_id: report.snapshot_id,
            record: report.record,
            pointer,
            sha256_prefix: report.sha256_prefix.clone(),
            active_sha256_prefix: report.held_back.is_none().then(|| report.sha256_prefix.clone()),
            flipped_from_sha256_prefix: from,
            captured_at_ms: report.captured_at_ms,
            held_back: report.held_back.as_ref().map(|held| HeldBackFor::of(held.word)),
            ended: health.map(|health| health.ended.clone()),
            stop_ms: health.map(|health| health.stop_ms),
            databases_checked: health.map(|health| health.checked),
            databases_damaged: health.map(|health| health.damaged.len() as u64),
            cookies: health.and_then(|health| health.cookies.as_ref()).map(|cookies| cookies.rows),
            uncompressed_size_bytes: report.uncompressed_bytes,
            files: counts.files,
            read_files: report.read_files,
            reused_files: report.reused_files,
            directories: counts.directories,
            symlinks: counts.symlinks,
            hard_links: counts.hard_links,
            chunks: counts.chunks,
            new_chunks: counts.new_chunks,
            new_bytes: counts.new_bytes,
            stored_bytes: counts.stored_bytes,
            taken_over_packs: report.taken_over.packs,
            taken_over_bytes: report.taken_over.bytes,
            skipped: SkippedFields {
                sockets: report.skipped.sockets,
                fifos: report.skipped.fifos,
                devices: report.skipped.devices,
            },
            indexes: report.index.indexes,
            indexes_left_out: report.index.left_out,
            elapsed_ms: report.elapsed.as_millis() as u64,
            warnings,
            elapsed: report.elapsed,
            verdict: advice::held_back(lineage, report),
        }
    }

    /// The verdict, with the command that makes the snapshot the current one, if it was held back.
    pub fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }
}
