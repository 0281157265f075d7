//! `Record` tells who captured what, when and how; it is the lease of the write that made it, too.
//!
//! The fields of the contract's manifest keep their names and meanings. Fields this code
//! does not know are kept as they are when a record is rewritten.

mod provenance;
mod words;

pub use provenance::{CapturedBy, CapturedIn, Geo, Source};
pub use words::{Mode, Reason};

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    FormatError, MAJOR, MINOR, Result, Unknown, WRITER,
    config::HASH,
    damage::Mark,
    document,
    event::{Actor, Event},
    frame::Codec,
    health::Health,
    limits,
    pack::MAX_OFFSET,
    root::Blob,
    startup::Startup,
};
use crate::{
    id::{ChunkId, ChunkKey, PackId, RecordId, Sha256, SnapshotId},
    name::{ChromeMajor, Lineage, Profile, ProfileName, Tenant, WIP},
};

/// The contract's name for manifests, of which a record is one.
pub const SCHEMA: &str = "computer-plane.profile-snapshot";

/// Where a record is in its life. It moves to the right:
/// `writing → live → trashed → tombstone`, or `writing → revoked`; only a deletion that
/// was refused goes back, `trashed → live`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// A lease: the write is under way.
    Writing,
    /// A snapshot.
    Live,
    /// Being deleted, and not yet beyond recall.
    Trashed,
    /// Deleted.
    Tombstone,
    /// A write that somebody else has given up for dead.
    Revoked,
}

const STATES: [&str; 5] = ["writing", "live", "trashed", "tombstone", "revoked"];

/// The author and the time of a tag.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tag {
    /// When, by the clock of who tagged it.
    pub tagged_at_ms: u64,
    /// The run that tagged it.
    pub by: Actor,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// An archive that is on its way into the bucket: until the record names it, it is nobody's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Publishing {
    /// The digest of the compressed archive.
    pub archive_sha256: Sha256,
    /// How long the compressed archive is.
    pub archive_size_bytes: u64,
    /// The digest of the tar stream in it.
    pub tar_sha256: Sha256,
    /// When the upload began.
    pub started_at_ms: u64,
    /// Somebody took it for dead, and removes its uploads.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub abandoned: bool,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// How many of everything, and how much.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Regular files.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Sockets, FIFOs and device nodes that were left out.
    pub skipped: u64,
    /// Chunks that the files refer to.
    pub chunks: u64,
    /// Chunks that were not in the store before.
    pub new_chunks: u64,
    /// Uncompressed bytes of the new chunks.
    pub new_bytes: u64,
    /// The bytes that this write uploaded: packs, meta pack, index.
    pub stored_bytes: u64,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A byte range of a pack. Closed, as are the next two: there are many, and a reader that
/// did not know a field of theirs could not use them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackRange {
    /// The pack the range is of.
    pub pack: PackId,
    /// Where it begins.
    pub offset: u64,
    /// How many bytes it has.
    pub len: u64,
}

/// How much of a pack a snapshot needs. Collectors mark from these lines alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PackUse {
    /// The pack that is needed.
    pub pack: PackId,
    /// How many of its stored bytes the snapshot refers to.
    pub live_bytes: u64,
}

/// Where a snapshot's root lies, and how it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RootRef {
    /// The id of the root.
    pub id: ChunkId,
    /// The meta pack that holds it.
    pub pack: PackId,
    /// Where in the pack its frame begins.
    pub offset: u64,
    /// How many bytes its frame has.
    pub stored_len: u32,
    /// How many bytes it has uncompressed.
    pub raw_len: u32,
    /// The number of its codec.
    pub codec: u8,
    /// How the frame is encrypted. 0: not at all.
    pub encryption: u8,
}

impl From<Blob> for RootRef {
    fn from(blob: Blob) -> Self {
        let Blob { id, pack, offset, stored_len, raw_len, codec } = blob;
        Self { id, pack, offset, stored_len, raw_len, codec: codec.to_u8(), encryption: 0 }
    }
}

impl RootRef {
    /// The blob, unless `writer` stored it in a way this code does not know.
    pub fn blob(&self, writer: &str) -> Result<Blob> {
        let Self { id, pack, offset, stored_len, raw_len, codec, encryption } = *self;
        let codec = Codec::from_parts(codec, encryption, writer)?;
        let blob = Blob { id, pack, offset, stored_len, raw_len, codec };
        blob.check()?;
        Ok(blob)
    }
}

/// The packs of a snapshot before its chunks were moved, for readers that pinned it then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Earlier {
    /// The generation of which this was the content.
    pub generation: u64,
    /// The packs that were needed then.
    pub packs: Vec<PackId>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// A snapshot's content and its location; absent while it is being written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Content {
    /// The digest of the tree.
    pub snapshot_id: SnapshotId,
    /// The root of the metadata.
    pub root: RootRef,
    /// Ranges that together hold the root and every segment, so that one round of
    /// requests fetches all metadata.
    pub meta_ranges: Vec<PackRange>,
    /// The packs that the snapshot needs, sorted.
    pub packs: Vec<PackUse>,
    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Content {
    fn check(&self, writer: &str) -> Result<()> {
        self.root.blob(writer)?;
        for range in &self.meta_ranges {
            let end = range.offset.checked_add(range.len);
            if range.len == 0 || end.is_none_or(|end| end > 2 * MAX_OFFSET) {
                return Err(FormatError::malformed(format!("an impossible range of pack {}", range.pack)));
            }
        }
        if !self.packs.is_sorted_by(|a, b| a.pack < b.pack) {
            return Err(FormatError::malformed("packs that are not sorted, or listed twice"));
        }
        Ok(())
    }
}

/// The record of a snapshot, or of the write that makes one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    // The contract's manifest.
    /// The version of the contract.
    pub version: u64,
    /// The name of this kind of document.
    pub schema: String,
    /// The owner of the profile.
    pub tenant_id: Tenant,
    /// The profile that was captured.
    pub profile_id: Profile,
    /// The Chrome that wrote the profile.
    pub chrome_major_version: ChromeMajor,
    /// Of the archive, once there is one.
    pub archive_sha256: Option<String>,
    /// How long the compressed archive is, once there is one.
    pub archive_size_bytes: Option<u64>,
    /// How many bytes the files have.
    pub uncompressed_size_bytes: u64,
    /// When the profile was captured, by the host's clock.
    pub captured_at_ms: u64,
    /// The author of the capture.
    pub captured_by: CapturedBy,
    /// Where it was captured, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_in: Option<CapturedIn>,
    /// Whether the browser had ended.
    pub mode: Mode,
    /// How long the browser had run when the profile was captured.
    pub chrome_uptime_seconds_at_capture: u64,
    /// The archive of the snapshot this one supersedes, else its snapshot id, else empty.
    pub predecessor_sha256: String,
    /// Free text for people.
    pub notes: String,

    // pstore's own.
    /// The id of the write, which names its packs and index, too.
    pub record: RecordId,
    /// The minor version of the format that its writer knew.
    pub minor: u64,
    /// The program that wrote it, with its version; for messages.
    pub writer: String,
    /// Where the record is in its life.
    pub state: State,
    /// Counts the rewrites of `content` that move chunks.
    pub generation: u64,
    /// Counts the rewrites of this record while it was a lease.
    #[serde(default)]
    pub lease_seq: u64,
    /// The key that the chunk ids were made with.
    pub chunk_key: ChunkKey,
    /// The hash function of all ids.
    pub hash: String,
    /// When the write published it, by the store's clock: its age and its order go by this,
    /// and not by `captured_at_ms`, which is the host's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_at_ms: Option<u64>,
    /// The record this one was captured on top of.
    pub parent: Option<RecordId>,
    /// The records this write will rewrite; empty unless it moves chunks.
    #[serde(default)]
    pub updates: Vec<RecordId>,
    /// Why the snapshot was taken.
    pub reason: Reason,
    /// Words by which to find the snapshot.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The full version of the Chrome that ran last on the profile.
    #[serde(default)]
    pub chrome_last_version: Option<String>,
    /// How Chrome says that it ended the last time.
    #[serde(default)]
    pub exit_type: Option<String>,
    /// The size of the snapshot, and of the new part of it.
    pub counts: Counts,
    /// The snapshot's content. Absent unless the record is live or trashed.
    pub content: Option<Content>,
    /// Earlier generations that somebody may still read, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Earlier>,
    /// The lost parts of the snapshot, as far as a check has found any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub damage: Option<Mark>,
    /// The findings about the profile at its capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Why the pointer was not moved to it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_back: Option<String>,
    /// Why the session it was captured from had started afresh, if it had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// The chunks that a mount should fetch first.
    #[serde(default, skip_serializing_if = "Startup::is_empty")]
    pub startup: Startup,
    /// Names an operator gave it, so that no retention removes it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, Tag>,
    /// Of a record that is trashed or a tombstone: how that came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<Event>,
    /// Where the bytes came from.
    #[serde(default)]
    pub sources: Vec<Source>,
    /// Whether everything below the source is in the snapshot but for `exclusions`.
    pub complete: bool,
    /// Paths that were left out on purpose.
    #[serde(default)]
    pub exclusions: Vec<String>,
    /// Changes that were made to the profile when it was loaded.
    #[serde(default)]
    pub transforms: Vec<String>,
    /// Features a reader must know to read this snapshot.
    #[serde(default)]
    pub features: Vec<String>,
    /// Of the tar stream in the archive, however it is compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tar_sha256: Option<Sha256>,
    /// The archive that is being uploaded, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publishing: Option<Publishing>,
    /// How many archives of this snapshot were given up. Part of the next one, so that no name
    /// comes back that somebody may still be removing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub publications: u64,
    /// Of a record that is trashed: its archives are being removed, so it is never live again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,

    /// Fields that this code does not know. They are written back as they were read.
    #[serde(flatten)]
    pub unknown: Unknown,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Record {
    /// Whether a run has saved it while it goes on, and nobody has made it an ordinary snapshot since.
    pub fn is_work_in_progress(&self) -> bool {
        self.tags.contains_key(WIP)
    }

    /// The logs of LevelDB, below the top of its tree, that were found to end in the middle of a record.
    pub fn torn_logs(&self) -> BTreeSet<PathBuf> {
        let found = self.health.iter().flat_map(|health| &health.torn_logs);
        found.map(|log| PathBuf::from(&log.path)).collect()
    }

    /// The lineage of the snapshot.
    pub fn lineage(&self) -> Lineage {
        let name = ProfileName { tenant: self.tenant_id.clone(), profile: self.profile_id.clone() };
        Lineage { name, chrome_major: self.chrome_major_version }
    }

    /// The packs that the snapshot needs.
    pub fn packs(&self) -> impl Iterator<Item = PackId> + '_ {
        self.content.iter().flat_map(|content| &content.packs).map(|used| used.pack)
    }

    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        document::encode(self)
    }

    /// The bytes to write, which a reader is sure to accept: no number, text or list in a
    /// record may be beyond what readers allow, wherever it came from.
    pub fn encode_readable(&self) -> Result<Vec<u8>> {
        let bytes = self.encode();
        Self::decode(&bytes).map(|_| bytes)
    }

    /// Reads a record. Refuses one that is too long, malformed, or needs an unknown feature.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let fields = document::open(bytes, limits::RECORD)?;
        document::check_schema(&fields, SCHEMA)?;
        // What this code does not know is told before what it cannot make sense of.
        if let Some(Value::String(feature)) = fields.get("features").and_then(|features| features.get(0)) {
            return Err(FormatError::Feature { feature: feature.clone(), writer: document::writer(&fields) });
        }
        document::known_word(&fields, "hash", &[HASH])?;
        document::known_word(&fields, "state", &STATES)?;
        let record: Self = document::typed(fields)?;
        let is_sha256 =
            |text: &str| text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if record.archive_sha256.as_deref().is_some_and(|sha| !is_sha256(sha)) {
            return Err(FormatError::malformed("its archive_sha256 is not 64 hexadecimal digits"));
        }
        if !record.predecessor_sha256.is_empty() && !is_sha256(&record.predecessor_sha256) {
            return Err(FormatError::malformed("its predecessor_sha256 is not 64 hexadecimal digits"));
        }
        if let Some(content) = &record.content {
            content.check(&record.writer)?;
        }
        if matches!(record.state, State::Live | State::Trashed) && record.content.is_none() {
            return Err(FormatError::malformed("a live record without content"));
        }
        Ok(record)
    }

    /// The pointer's name for this snapshot: the digest of its archive if it has one.
    pub fn sha256(&self) -> String {
        match (&self.archive_sha256, &self.content) {
            (Some(sha), _) => sha.clone(),
            (None, Some(content)) => content.snapshot_id.to_string(),
            (None, None) => String::new(),
        }
    }

    /// The archives that are this snapshot's: the one it has, and the one it is getting.
    pub fn archives(&self) -> impl Iterator<Item = Sha256> + '_ {
        let has = self.archive_sha256.as_ref().and_then(|sha| sha.parse().ok());
        let gets = self.publishing.as_ref().map(|publishing| publishing.archive_sha256);
        has.into_iter().chain(gets.filter(|gets| has != Some(*gets)))
    }

    /// The short name of the snapshot: the first 12 digits of [`Self::sha256`].
    pub fn sha256_prefix(&self) -> String {
        self.sha256().chars().take(12).collect()
    }
}

/// The version fields for a new record.
pub fn versions() -> (u64, u64, String) {
    (MAJOR.into(), MINOR.into(), WRITER.to_owned())
}
