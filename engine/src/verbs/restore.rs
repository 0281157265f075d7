//! `restore` writes a snapshot to a directory, or loads it there for a Chrome.

use std::{path::PathBuf, sync::Arc, time::Duration};

use capture::{
    chrome::stop,
    load::{Loaded, WithoutLeftovers, damaged, made_plain},
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    ErrorKind,
    content::workers::blocking,
    format::{record::Record, tree::TreePath},
    id::{RecordId, SnapshotId},
    name::{ChromeMajor, Lineage},
    ops::read::restore::{self, Inspector, Report},
    tree::write::Keeping,
};

use crate::{
    Engine,
    captures::{CheckDepth, in_use},
    contents,
    engine::threads,
    failure::Failure,
    loads::{LoadJob, LoadOptions},
    names::SnapshotChoice,
    outcome::{LineageFields, LoadResult, Outcome},
    text::size,
};

/// Writes a snapshot to a directory. With a Chrome it is loaded for that one.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
    /// The directory to make.
    pub target: PathBuf,
    /// Only these files and directories, in the places they have in the profile; all if there are none.
    pub paths: Vec<TreePath>,
    /// Replace the directory if it exists.
    pub force: bool,
    /// Give files the owner they had.
    pub same_owner: bool,
    /// Keep set-user-id and set-group-id bits, and attributes other than `user.*`.
    pub preserve_special: bool,
    /// How it is loaded, if it is loaded for a Chrome.
    pub load: LoadOptions,
    /// How thoroughly its databases are checked, if it is loaded for a Chrome.
    pub check: CheckDepth,
}

impl RestoreRequest {
    /// Writes all of `snapshot` to `target`, which must not exist.
    pub fn new(snapshot: SnapshotChoice, target: PathBuf) -> Self {
        Self {
            snapshot,
            target,
            paths: Vec::new(),
            force: false,
            same_owner: false,
            preserve_special: false,
            load: LoadOptions::default(),
            check: CheckDepth::default(),
        }
    }

    fn keeping(&self) -> Keeping {
        Keeping { owner: self.same_owner, special: self.preserve_special }
    }

    /// The Chrome it is loaded for, if it is said.
    fn for_chrome(&self) -> Option<ChromeMajor> {
        // Some files are no profile.
        if !self.paths.is_empty() {
            return None;
        }
        self.snapshot.chrome_major.or_else(|| self.load.major_of_version())
    }
}

/// How a restore ended. All but the first are of a load for a Chrome, in the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestoreResult {
    /// The snapshot, or a part of it, was written.
    Restored,
    /// The snapshot was loaded.
    Success,
    /// The profile has never been captured.
    NoPriorState,
    /// The snapshot, or a part of it, is not there, or may not be used.
    FreshFallback,
    /// The databases are not whole.
    IntegrityFailed,
    /// Stored bytes are not what they should be.
    ShaMismatch,
    /// This pstore does not read the version of the snapshot's description.
    UnsupportedVersion,
    /// The snapshot is of another Chrome.
    VersionMismatch,
    /// The snapshot is too large.
    TooLarge,
}

impl From<LoadResult> for RestoreResult {
    fn from(result: LoadResult) -> Self {
        match result {
            LoadResult::Success => Self::Success,
            LoadResult::NoPriorState => Self::NoPriorState,
            LoadResult::FreshFallback => Self::FreshFallback,
            LoadResult::IntegrityFailed => Self::IntegrityFailed,
            LoadResult::ShaMismatch => Self::ShaMismatch,
            LoadResult::UnsupportedVersion => Self::UnsupportedVersion,
            LoadResult::VersionMismatch => Self::VersionMismatch,
            LoadResult::TooLarge => Self::TooLarge,
        }
    }
}

/// A directory that was made of a snapshot. If it is empty, nothing is said about files.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RestoreOutcome {
    /// How it ended.
    pub outcome: RestoreResult,
    /// Why the profile is empty.
    pub reason: Option<String>,
    /// The profile of the directory.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The snapshot that was, or should have been, written.
    pub snapshot_id: Option<SnapshotId>,
    /// Its record.
    pub record: Option<RecordId>,
    /// The first digits of its id, or of its archive's digest.
    pub sha256_prefix: Option<String>,
    /// The digest of its archive.
    pub archive_sha256: Option<String>,
    /// When it was captured.
    pub captured_at_ms: Option<u64>,
    /// The directory.
    pub target: String,
    /// The bytes of all files.
    pub uncompressed_size_bytes: Option<u64>,
    /// Files.
    pub files: Option<u64>,
    /// Bytes that were fetched.
    pub fetched_bytes: Option<u64>,
    /// Sockets, FIFOs and devices that were not made.
    pub skipped: Option<u64>,
    /// Extended attributes that the file system did not take.
    pub lost_xattrs: Option<u64>,
    /// Changes that the load made to the profile.
    pub transforms: Vec<String>,
    /// How long it took.
    pub elapsed_ms: Option<u64>,
    /// Warnings, though it was written.
    pub warnings: Vec<String>,
    /// The Chrome that the snapshot was captured from.
    #[serde(skip)]
    pub captured_chrome_major: Option<ChromeMajor>,
    /// How long it took, exactly.
    #[serde(skip)]
    pub elapsed: Duration,
}

impl Outcome for RestoreOutcome {}

impl Engine {
    /// Writes a snapshot to a directory.
    #[crate::boxed]
    pub async fn restore(&self, request: &RestoreRequest) -> Result<RestoreOutcome, Failure> {
        request.load.check(request.snapshot.chrome_major)?;
        self.location.keep_apart(&request.target)?;
        require_unused(request).await?;
        match request.for_chrome() {
            Some(chrome_major) => Box::pin(self.restore_for(request, chrome_major)).await,
            None => Box::pin(self.restore_as_it_is(request)).await,
        }
    }

    async fn restore_as_it_is(&self, request: &RestoreRequest) -> Result<RestoreOutcome, Failure> {
        if request.load.require || request.load.normalise_exit {
            let message = match request.paths.is_empty() {
                true => {
                    "--require and --normalise-exit go with --chrome-major, which loads a profile for a Chrome"
                }
                false => {
                    "--path takes files out of a snapshot: --require and --normalise-exit are for whole profiles"
                }
            };
            return Err(Failure::usage(message));
        }
        let reference = request.snapshot.reference()?;
        let (tenant, lineage) = self.lineage_to_load(&request.snapshot.lineage()).await?;
        let record = self.snapshot_to_load(&tenant, &lineage, reference).await?;
        let marked = damaged(&record);
        marked.iter().for_each(|warning| self.warn(warning));
        let leftovers = Arc::new(WithoutLeftovers::default());
        let restoring = restore::Request {
            paths: request.paths.clone(),
            target: request.target.clone(),
            force: request.force,
            keeping: request.keeping(),
            threads: threads(),
            // Who names paths gets these, whatever they are.
            inspector: request.paths.is_empty().then(|| leftovers.clone() as Arc<dyn Inspector>),
            point_of_no_return: self.interrupt.point_of_no_return().clone(),
        };
        let restored = restore::restore(&tenant, &record, &restoring, self.progress()).await;
        let report = restored.map_err(|error| match error.kind() {
            ErrorKind::Damaged => Failure::from(error).hint(format!(
                "`pstore verify {} --chrome-major {} --read-data` shows how much is affected",
                lineage.name, lineage.chrome_major
            )),
            ErrorKind::NotFound if !request.paths.is_empty() => contents::elsewhere(&record, error),
            _ => error.into(),
        })?;
        let mut warnings = warnings(&report);
        warnings.extend(leftovers.warnings());
        warnings.iter().for_each(|warning| self.warn(warning));
        warnings.splice(0..0, marked);
        let of = LineageFields {
            tenant_id: record.tenant_id.clone(),
            profile_id: record.profile_id.clone(),
            chrome_major_version: record.chrome_major_version,
        };
        let outcome = outcome(RestoreResult::Restored, of, request, Some(&record), Some(&report));
        Ok(RestoreOutcome { snapshot_id: Some(report.snapshot_id), warnings, ..outcome })
    }

    async fn restore_for(
        &self,
        request: &RestoreRequest,
        chrome_major: ChromeMajor,
    ) -> Result<RestoreOutcome, Failure> {
        let profile = &request.snapshot.name.profile;
        let job = LoadJob {
            profile,
            chrome_major,
            reference: request.snapshot.reference()?,
            target: &request.target,
            force: request.force,
            keeping: request.keeping(),
            check: request.check,
            point_of_no_return: self.interrupt.point_of_no_return().clone(),
            host_region: None,
        };
        let Loaded { outcome: result, reason, record, report, transforms, warnings } =
            self.load(&request.load, job).await?;
        let of = LineageFields::from(&Lineage { name: profile.clone(), chrome_major });
        let result = LoadResult::from(result).into();
        let outcome = outcome(result, of, request, record.as_ref(), report.as_ref());
        Ok(RestoreOutcome { reason, transforms, warnings, ..outcome })
    }
}

fn outcome(
    outcome: RestoreResult,
    lineage: LineageFields,
    request: &RestoreRequest,
    record: Option<&Record>,
    report: Option<&Report>,
) -> RestoreOutcome {
    RestoreOutcome {
        outcome,
        reason: None,
        lineage,
        snapshot_id: record.and_then(|record| Some(record.content.as_ref()?.snapshot_id)),
        record: record.map(|record| record.record),
        sha256_prefix: record.map(Record::sha256_prefix),
        archive_sha256: record.and_then(|record| record.archive_sha256.clone()),
        captured_at_ms: record.map(|record| record.captured_at_ms),
        target: request.target.to_string_lossy().into_owned(),
        uncompressed_size_bytes: report.map(|report| report.bytes),
        files: report.map(|report| report.files),
        fetched_bytes: report.map(|report| report.fetched_bytes),
        skipped: report.map(|report| report.skipped),
        lost_xattrs: report.map(|report| report.lost_xattrs),
        transforms: Vec::new(),
        elapsed_ms: report.map(|report| report.elapsed.as_millis() as u64),
        warnings: Vec::new(),
        captured_chrome_major: record.map(|record| record.chrome_major_version),
        elapsed: report.map(|report| report.elapsed).unwrap_or_default(),
    }
}

/// Refuses to take a directory away from a browser that runs on it.
async fn require_unused(request: &RestoreRequest) -> Result<(), Failure> {
    if !request.force || !request.target.is_dir() {
        return Ok(());
    }
    let target = request.target.clone();
    let looked = blocking(move || stop::require_unused(&target).map_err(|error| in_use(&target, error)));
    looked.await.map_err(|error| match error.kind() {
        ErrorKind::InUse => Failure::from(error).hint(
            "close the browser and run this again, or restore to another directory; what it has changed since is in no snapshot",
        ),
        _ => error.into(),
    })
}

fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    if report.skipped > 0 {
        let what =
            size::plural(report.skipped, "socket, FIFO or device was", "sockets, FIFOs or devices were");
        warnings.push(format!("{what} not made"));
    }
    if report.lost_xattrs > 0 {
        let what = size::plural(report.lost_xattrs, "extended attribute", "extended attributes");
        warnings.push(format!("the target's file system did not take {what}"));
    }
    warnings.extend(made_plain(report));
    warnings
}
