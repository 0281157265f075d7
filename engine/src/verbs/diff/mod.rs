//! `diff` compares two snapshots of a profile.

mod profile;

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::record::Record,
    id::{RecordId, SnapshotId},
    name::ChromeMajor,
    ops::read::{
        diff::{self, Change, Fields, Line, Totals},
        resolve::Reference,
    },
};

pub use self::profile::{
    CookieChanges, ExtensionFields, LocalStorageChanges, ProfileChanges, SettingChanges, SiteFields,
};
use crate::{
    Engine,
    contents::EntryKind,
    failure::Failure,
    names::{Further, LineageName, SnapshotName},
    outcome::{LineageFields, Outcome},
    text::path,
};

/// Compares two snapshots.
#[derive(Clone, Debug)]
pub struct DiffRequest {
    /// The profile, and perhaps the earlier snapshot.
    pub name: SnapshotName,
    /// The snapshots that the name does not say: the earlier, then the later; the current one if none is left.
    pub further: Vec<Further>,
    /// Of this major version of Chrome; of the newest there is if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// Whether every path that differs is told, and not the totals alone.
    pub with_paths: bool,
    /// Whether cookies, settings, extensions and storage are compared as well.
    pub with_profile: bool,
}

/// One of the two snapshots.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffSnapshot {
    /// The snapshot's id.
    pub snapshot_id: Option<SnapshotId>,
    /// The snapshot's record.
    pub record: RecordId,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The bytes of all its files.
    pub uncompressed_size_bytes: u64,
}

/// The ways in which a path can differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiffKind {
    /// Only the later snapshot has it.
    Added,
    /// Only the earlier snapshot has it.
    Removed,
    /// Its content, or the place that a link leads to; perhaps its metadata too.
    Content,
    /// Nothing but its metadata.
    Metadata,
    /// It is something else now.
    Type,
}

/// The parts of an entry's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum MetadataField {
    Mode,
    Owner,
    Mtime,
    Xattrs,
    Links,
    Extensions,
}

impl MetadataField {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Mtime => "mtime",
            Self::Xattrs => "xattrs",
            Self::Links => "links",
            Self::Extensions => "extensions",
        }
    }

    fn of(fields: Fields) -> Vec<Self> {
        let Fields { mode, owner, mtime, xattrs, links, extensions } = fields;
        let all = [
            (mode, Self::Mode),
            (owner, Self::Owner),
            (mtime, Self::Mtime),
            (xattrs, Self::Xattrs),
            (links, Self::Links),
            (extensions, Self::Extensions),
        ];
        all.into_iter().filter(|(differs, _)| *differs).map(|(_, field)| field).collect()
    }
}

/// A path that differs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PathChange {
    /// In what way it differs.
    pub change: DiffKind,
    /// The path from the top of the profile.
    pub path: String,
    /// The bytes of the path, if they are no text.
    pub path_hex: Option<String>,
    /// Its kind in the earlier snapshot.
    pub kind_before: Option<EntryKind>,
    /// Its kind in the later snapshot.
    pub kind_after: Option<EntryKind>,
    /// Its size in the earlier snapshot.
    pub size_before: Option<u64>,
    /// Its size in the later snapshot.
    pub size_after: Option<u64>,
    /// The bytes of it that the later snapshot does not have.
    pub gone_bytes: u64,
    /// The bytes of it that the earlier snapshot does not have.
    pub new_bytes: u64,
    /// The metadata that differs.
    pub metadata: Vec<MetadataField>,
    /// The bytes of the path.
    #[serde(skip)]
    pub path_bytes: Vec<u8>,
}

/// The difference between two snapshots.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DiffOutcome {
    /// The profile of the snapshots.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The earlier snapshot.
    pub before: DiffSnapshot,
    /// The later snapshot.
    pub after: DiffSnapshot,
    /// How many paths are only in the later snapshot.
    pub added: u64,
    /// How many paths are only in the earlier snapshot.
    pub removed: u64,
    /// How many paths have other content.
    pub changed: u64,
    /// How many paths differ in nothing but metadata.
    pub metadata_changed: u64,
    /// How many paths are something else now.
    pub type_changed: u64,
    /// How many paths do not differ.
    pub unchanged: u64,
    /// The bytes that only the later snapshot has.
    pub new_bytes: u64,
    /// The bytes that only the earlier snapshot has.
    pub gone_bytes: u64,
    /// Every path that differs, if that was asked for.
    pub changes: Option<Vec<PathChange>>,
    /// The change of the browser profile, if that was asked for.
    pub profile: Option<ProfileChanges>,
    /// The sizes of all files of the earlier snapshot.
    #[serde(skip)]
    pub bytes_before: u64,
    /// The sizes of all files of the later snapshot.
    #[serde(skip)]
    pub bytes_after: u64,
}

impl Outcome for DiffOutcome {}

impl Engine {
    /// Compares two snapshots of a profile.
    #[crate::boxed]
    pub async fn diff(&self, request: &DiffRequest) -> Result<DiffOutcome, Failure> {
        let (before, after) = pair(request)?;
        let asked = LineageName { profile: request.name.profile.clone(), chrome_major: request.chrome_major };
        let (tenant, lineage) = self.lineage(&asked).await?;
        let before = self.resolve_snapshot(&tenant, &lineage, Some(before)).await?;
        let after = self.resolve_snapshot(&tenant, &lineage, after).await?;
        let diff = diff::diff(&tenant, &before, &after).await?;
        let profile = match request.with_profile {
            true => Some(profile::compare(&tenant, &before, &after, &diff).await?),
            false => None,
        };
        let changes = request.with_paths.then(|| diff.lines.iter().map(PathChange::from).collect());
        let Totals { added, removed, changed, metadata_changed, type_changed, unchanged, .. } = diff.totals;
        Ok(DiffOutcome {
            lineage: (&lineage).into(),
            before: (&before).into(),
            after: (&after).into(),
            added,
            removed,
            changed,
            metadata_changed,
            type_changed,
            unchanged,
            new_bytes: diff.totals.new_bytes,
            gone_bytes: diff.totals.gone_bytes,
            changes,
            profile,
            bytes_before: diff.totals.bytes_before,
            bytes_after: diff.totals.bytes_after,
        })
    }
}

/// The earlier snapshot, and the later one, if it is said which.
fn pair(request: &DiffRequest) -> Result<(&Reference, Option<&Reference>), Failure> {
    let profile = &request.name.profile;
    let others: Vec<&Reference> =
        request.further.iter().map(|other| other.of(profile)).collect::<Result<_, _>>()?;
    let mut named = request.name.typed().into_iter().chain(others);
    match (named.next(), named.next(), named.next()) {
        (Some(before), after, None) => Ok((before, after)),
        (None, ..) => {
            let message = format!("diff must be told which snapshot of {profile} is the earlier one");
            Err(Failure::usage(message).hint(format!(
                "`pstore diff {profile}@latest~1` compares the current one with the one before it"
            )))
        }
        (.., Some(third)) => {
            let message = format!("diff compares two snapshots, and {third} is the third");
            Err(Failure::usage(message).hint(format!("leave it out: `pstore diff {profile}@A B`")))
        }
    }
}

impl From<&Record> for DiffSnapshot {
    fn from(record: &Record) -> Self {
        Self {
            snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
            record: record.record,
            sha256_prefix: record.sha256_prefix(),
            captured_at_ms: record.captured_at_ms,
            uncompressed_size_bytes: record.uncompressed_size_bytes,
        }
    }
}

impl From<&Line> for PathChange {
    fn from(line: &Line) -> Self {
        let (path, path_hex) = path::fields(line.path.as_bytes());
        let Line { change, before, after, metadata, .. } = line;
        let change = match change {
            Change::Added => DiffKind::Added,
            Change::Removed => DiffKind::Removed,
            Change::Content => DiffKind::Content,
            Change::Metadata => DiffKind::Metadata,
            Change::Type => DiffKind::Type,
        };
        Self {
            change,
            path,
            path_hex,
            kind_before: before.and_then(|side| EntryKind::of_word(side.kind)),
            kind_after: after.and_then(|side| EntryKind::of_word(side.kind)),
            size_before: before.map(|side| side.size),
            size_after: after.map(|side| side.size),
            gone_bytes: before.map_or(0, |side| side.unshared_bytes),
            new_bytes: after.map_or(0, |side| side.unshared_bytes),
            metadata: MetadataField::of(*metadata),
            path_bytes: line.path.as_bytes().to_vec(),
        }
    }
}
