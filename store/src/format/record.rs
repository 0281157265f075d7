//! Records: who captured what, when and how; and the lease of the write that made it.
//!
//! The fields of the contract's manifest keep their names and meanings. Fields this code
//! does not know are kept as they are when a record is rewritten.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{FormatError, MAJOR, MINOR, Result, WRITER, document, root::Blob};
use crate::{
    id::{ChunkId, ChunkKey, PackId, RecordId, SnapshotId},
    name::{ChromeMajor, Profile, Tenant},
};

pub const SCHEMA: &str = "computer-plane.profile-snapshot";
/// The longest record a reader accepts.
pub const MAX_BYTES: usize = 8 << 20;

/// Where a record is in its life. It only ever moves to the right:
/// `writing → live → trashed → tombstone`, or `writing → revoked`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Writing,
    Live,
    Trashed,
    Tombstone,
    Revoked,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedBy {
    pub host: String,
    pub host_run_id: String,
    pub writer_version: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedIn {
    pub host_region: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub egress_ip_geo: Option<Geo>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Geo {
    pub country: String,
    pub region: String,
}

/// Where the bytes came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    pub kind: String,
    pub path: String,
}

/// How many of everything, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub hard_links: u64,
    /// Sockets, FIFOs and device nodes that were left out.
    pub skipped: u64,
    pub chunks: u64,
    pub new_chunks: u64,
    /// Uncompressed bytes of the new chunks.
    pub new_bytes: u64,
    /// What this write uploaded: packs, meta pack, index.
    pub stored_bytes: u64,
}

/// A byte range of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackRange {
    pub pack: PackId,
    pub offset: u64,
    pub len: u64,
}

/// How much of a pack a snapshot needs. Collectors mark from these lines alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackUse {
    pub pack: PackId,
    pub live_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootRef {
    pub id: ChunkId,
    pub pack: PackId,
    pub offset: u64,
    pub stored_len: u32,
    pub raw_len: u32,
}

impl From<Blob> for RootRef {
    fn from(blob: Blob) -> Self {
        let Blob { id, pack, offset, stored_len, raw_len } = blob;
        Self { id, pack, offset, stored_len, raw_len }
    }
}

impl From<RootRef> for Blob {
    fn from(root: RootRef) -> Self {
        let RootRef { id, pack, offset, stored_len, raw_len } = root;
        Self { id, pack, offset, stored_len, raw_len }
    }
}

/// What a snapshot holds and where it lies; absent while it is being written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub snapshot_id: SnapshotId,
    pub root: RootRef,
    /// Ranges that together hold the root and every segment, so that one round of
    /// requests fetches all metadata.
    pub meta_ranges: Vec<PackRange>,
    pub packs: Vec<PackUse>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    // The contract's manifest.
    pub version: u64,
    pub schema: String,
    pub tenant_id: Tenant,
    pub profile_id: Profile,
    pub chrome_major_version: ChromeMajor,
    /// Of the archive, once there is one.
    pub archive_sha256: Option<String>,
    pub archive_size_bytes: Option<u64>,
    pub uncompressed_size_bytes: u64,
    pub captured_at_ms: u64,
    pub captured_by: CapturedBy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_in: Option<CapturedIn>,
    pub mode: Mode,
    pub chrome_uptime_seconds_at_capture: u64,
    /// The archive of the snapshot this one supersedes, else its snapshot id, else empty.
    pub predecessor_sha256: String,
    pub notes: String,

    // pstore's own.
    pub record: RecordId,
    pub minor: u64,
    pub writer: String,
    pub state: State,
    /// Counts the rewrites of `content` that move chunks.
    pub generation: u64,
    /// Counts the rewrites of this record while it was a lease.
    #[serde(default)]
    pub lease_seq: u64,
    pub chunk_key: ChunkKey,
    /// The record this one was captured on top of.
    pub parent: Option<RecordId>,
    pub reason: Reason,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub chrome_last_version: Option<String>,
    #[serde(default)]
    pub exit_type: Option<String>,
    pub counts: Counts,
    pub content: Option<Content>,
    #[serde(default)]
    pub sources: Vec<Source>,
    /// Whether everything below the source is in the snapshot but for `exclusions`.
    pub complete: bool,
    #[serde(default)]
    pub exclusions: Vec<String>,
    #[serde(default)]
    pub transforms: Vec<String>,
    /// Features a reader must know to read this snapshot.
    #[serde(default)]
    pub features: Vec<String>,

    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Cold,
    Hot,
}

/// Why a snapshot was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    Manual,
    Autosave,
    BeforeUpgrade,
    BeforeRestore,
}

impl Record {
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let record: Self = document::decode(bytes, MAX_BYTES)?;
        if record.schema != SCHEMA {
            return Err(FormatError::malformed(format!("its schema is {:?}", record.schema)));
        }
        if let Some(feature) = record.features.first() {
            return Err(FormatError::Feature { feature: feature.clone(), writer: record.writer });
        }
        if matches!(record.state, State::Live | State::Trashed) && record.content.is_none() {
            return Err(FormatError::malformed("a live record without content"));
        }
        Ok(record)
    }

    /// What the pointer calls this snapshot: of its archive if it has one.
    pub fn sha256(&self) -> String {
        match (&self.archive_sha256, &self.content) {
            (Some(sha), _) => sha.clone(),
            (None, Some(content)) => content.snapshot_id.to_string(),
            (None, None) => String::new(),
        }
    }

    pub fn sha256_prefix(&self) -> String {
        let mut sha = self.sha256();
        sha.truncate(12);
        sha
    }
}

/// The version fields for a new record.
pub fn versions() -> (u64, u64, String) {
    (MAJOR.into(), MINOR.into(), WRITER.to_owned())
}
