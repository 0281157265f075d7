//! `export` writes a snapshot as an archive: to the store, to a directory, or to a writer of the front end.

use std::{
    io::Write,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    catalog::lineage_handle::LineageHandle,
    format::record::Record,
    id::{RecordId, Sha256, SnapshotId},
    name::Lineage,
    ops::{
        archive::export::{self, Archive, Exported, Framing, Times},
        archive::publish::{self, PublishJob, Published},
        archive::published::PublishedArchive,
    },
};

use crate::{
    Engine,
    archives::solid,
    failure::Failure,
    names::{ActorName, SnapshotChoice},
    outcome::{LineageFields, Outcome},
    text::size,
};

/// Writes a snapshot as an archive, with its manifest.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
    /// Where the archive goes.
    pub destination: ExportDestination,
    /// The actor.
    pub actor: ActorName,
    /// Do not compress anew: many times faster, for readers that handle several zstd frames.
    pub splice: bool,
    /// How hard zstd tries, 1 to 22; as configured if it is not said.
    pub level: Option<i32>,
    /// Leave out the parts of times below a second.
    pub whole_seconds: bool,
}

/// Where an archive goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportDestination {
    /// The store, where programs find it that know only the contract.
    Store,
    /// This directory.
    Directory(PathBuf),
    /// The writer that the front end passes, see [`Engine::export_stream`].
    Stream,
}

impl ExportRequest {
    /// Writes `snapshot` to `destination`, compressed as configured.
    pub fn new(snapshot: SnapshotChoice, destination: ExportDestination) -> Self {
        Self {
            snapshot,
            destination,
            actor: ActorName::default(),
            splice: false,
            level: None,
            whole_seconds: false,
        }
    }
}

/// The outcome for an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExportChange {
    /// It was written to a directory.
    Exported,
    /// It was written to the store.
    Published,
    /// The store had it already.
    Unchanged,
}

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveFraming {
    /// Compressed anew, as one zstd frame.
    Solid,
    /// Made of the frames of the store.
    Splice,
}

/// A snapshot and its archive. Nothing is said about the making of an archive that was there already.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportOutcome {
    /// The outcome for the archive.
    pub outcome: ExportChange,
    /// The profile of the snapshot.
    #[serde(flatten)]
    pub lineage: LineageFields,
    /// The snapshot.
    pub snapshot_id: SnapshotId,
    /// Its record.
    pub record: RecordId,
    /// When it was captured.
    pub captured_at_ms: u64,
    /// The bytes of all its files.
    pub uncompressed_size_bytes: u64,
    /// The digest of the archive.
    pub archive_sha256: Sha256,
    /// The size of the archive.
    pub archive_size_bytes: u64,
    /// The digest of the tar stream in it.
    pub tar_sha256: Option<Sha256>,
    /// The size of the tar stream in it.
    pub tar_size_bytes: Option<u64>,
    /// The digest of the archive before this one; empty if there was none.
    pub predecessor_sha256: String,
    /// How it is compressed.
    pub framing: Option<ArchiveFraming>,
    /// The zstd level.
    pub level: Option<i32>,
    /// The archive: its file, or its key in the store.
    pub archive: String,
    /// The manifest: its file, or its key in the store.
    pub manifest: String,
    /// Of an archive in the store: whether the pointer names it.
    pub current: Option<bool>,
    /// Files in it.
    pub files: Option<u64>,
    /// Sockets, FIFOs and devices that are not in it.
    pub skipped: Option<u64>,
    /// Bytes that were fetched.
    pub fetched_bytes: Option<u64>,
    /// How long it took.
    pub elapsed_ms: u64,
    /// Warnings, though it was written.
    pub warnings: Vec<String>,
    /// The first digits of the snapshot's id, or of its archive's digest before the export.
    #[serde(skip)]
    pub sha256_prefix: String,
    /// The files of the snapshot.
    #[serde(skip)]
    pub snapshot_files: u64,
    /// How long it took, exactly.
    #[serde(skip)]
    pub elapsed: Duration,
}

impl Outcome for ExportOutcome {}

/// An archive that was written to a writer of the front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamedArchive {
    /// Its digest.
    pub sha256: Sha256,
    /// Its size.
    pub size_bytes: u64,
}

impl Engine {
    /// Writes a snapshot as an archive to a directory or to the store.
    #[crate::boxed]
    pub async fn export(&self, request: &ExportRequest) -> Result<ExportOutcome, Failure> {
        request.snapshot.reference()?;
        match &request.destination {
            ExportDestination::Store => self.export_to_store(request).await,
            ExportDestination::Directory(directory) => self.export_to_directory(request, directory).await,
            ExportDestination::Stream => Err(Failure::usage("there is no stream to export to")),
        }
    }

    /// Writes the archive alone to `out`, which messages call `shown`, whatever the request says is its
    /// destination.
    pub async fn export_stream<W: Write + Send + 'static>(
        &self,
        request: &ExportRequest,
        out: W,
        shown: &str,
    ) -> Result<StreamedArchive, Failure> {
        let (tenant, lineage) = self.lineage(&request.snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, request.snapshot.reference()?).await?;
        let (archive, progress) = (self.archive_request(request), self.progress());
        let out = (out, PathBuf::from(shown));
        let written = export::write(&tenant, &record, archive, out, progress).await;
        let (archive, _) = written.map_err(|error| explained(error, &lineage))?;
        self.warn_of_skipped(Some(&archive));
        Ok(StreamedArchive { sha256: archive.sha256, size_bytes: archive.size_bytes })
    }

    /// The archive of a snapshot that lies in the store already, if there is one.
    #[crate::boxed]
    pub async fn published_archive(
        &self,
        snapshot: &SnapshotChoice,
    ) -> Result<Option<PublishedArchive>, Failure> {
        let (tenant, lineage) = self.lineage(&snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, snapshot.reference()?).await?;
        let found = PublishedArchive::find(&tenant, &lineage, &record).await;
        found.map_err(|error| explained(error, &lineage))
    }

    async fn export_to_directory(
        &self,
        request: &ExportRequest,
        directory: &Path,
    ) -> Result<ExportOutcome, Failure> {
        self.location.keep_apart(directory)?;
        let started = Instant::now();
        let (tenant, lineage) = self.lineage(&request.snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, request.snapshot.reference()?).await?;
        let (export, progress) = (self.archive_request(request), self.progress());
        let exported = export::to_directory(&tenant, &lineage, &record, export, directory, progress).await;
        let Exported { archive, manifest, archive_path, manifest_path } =
            exported.map_err(|error| explained(error, &lineage))?;
        let warnings = self.warn_of_skipped(Some(&archive));
        let of = Of { record: &record, written: Some((&archive, export.framing)) };
        Ok(ExportOutcome {
            predecessor_sha256: manifest.predecessor_sha256,
            archive: archive_path.to_string_lossy().into_owned(),
            manifest: manifest_path.to_string_lossy().into_owned(),
            warnings,
            ..of.outcome(ExportChange::Exported, (archive.sha256, archive.size_bytes), started.elapsed())?
        })
    }

    async fn export_to_store(&self, request: &ExportRequest) -> Result<ExportOutcome, Failure> {
        let started = Instant::now();
        let (tenant, lineage) = self.lineage_to_change(&request.snapshot.lineage()).await?;
        let record = self.resolve_snapshot(&tenant, &lineage, request.snapshot.reference()?).await?;
        let handle = LineageHandle::new(tenant, lineage.clone(), self.actor(&request.actor));
        let export = self.archive_request(request);
        let job = PublishJob { export, always: true, scratch: self.archive_scratch() };
        let published = publish::publish(&handle, record.record, &job, self.progress()).await;
        let Published { archive_sha256, archive_size_bytes, archive_key, manifest_key, written, current } =
            published.map_err(|error| explained(error, &lineage))?;
        let warnings = self.warn_of_skipped(written.as_ref());
        let change = if written.is_some() { ExportChange::Published } else { ExportChange::Unchanged };
        let of = Of { record: &record, written: written.as_ref().map(|archive| (archive, export.framing)) };
        Ok(ExportOutcome {
            archive: archive_key.to_string(),
            manifest: manifest_key.to_string(),
            current: Some(current),
            warnings,
            ..of.outcome(change, (archive_sha256, archive_size_bytes), started.elapsed())?
        })
    }

    fn archive_request(&self, request: &ExportRequest) -> export::Request {
        let settings = self.settings.tenant(&request.snapshot.name.profile.tenant);
        let level = request.level.unwrap_or(settings.archive_level);
        let framing = if request.splice { Framing::Splice } else { solid(level) };
        let times = if request.whole_seconds { Times::Seconds } else { Times::Exact };
        export::Request { framing, times, seal: None, max_bytes: settings.max_profile_bytes }
    }

    fn warn_of_skipped(&self, archive: Option<&Archive>) -> Vec<String> {
        let skipped = archive.map_or(0, |archive| archive.skipped);
        if skipped == 0 {
            return Vec::new();
        }
        let what = size::plural(skipped, "socket, FIFO or device is", "sockets, FIFOs or devices are");
        let warning = format!("{what} not in the archive");
        self.warn(&warning);
        vec![warning]
    }
}

/// A snapshot, and its archive if it was written now.
struct Of<'a> {
    record: &'a Record,
    written: Option<(&'a Archive, Framing)>,
}

impl Of<'_> {
    fn outcome(
        &self,
        outcome: ExportChange,
        (archive_sha256, archive_size_bytes): (Sha256, u64),
        elapsed: Duration,
    ) -> Result<ExportOutcome, Failure> {
        let (record, archive) = (self.record, self.written.map(|(archive, _)| archive));
        let (framing, level) = match self.written {
            Some((_, Framing::Solid { level, .. })) => (Some(ArchiveFraming::Solid), Some(level)),
            Some((_, Framing::Splice)) => (Some(ArchiveFraming::Splice), None),
            None => (None, None),
        };
        let content = record
            .content
            .as_ref()
            .ok_or_else(|| Failure::internal(format!("the snapshot {} has no content", record.record)))?;
        Ok(ExportOutcome {
            outcome,
            lineage: LineageFields {
                tenant_id: record.tenant_id.clone(),
                profile_id: record.profile_id.clone(),
                chrome_major_version: record.chrome_major_version,
            },
            snapshot_id: content.snapshot_id,
            record: record.record,
            captured_at_ms: record.captured_at_ms,
            uncompressed_size_bytes: record.uncompressed_size_bytes,
            archive_sha256,
            archive_size_bytes,
            tar_sha256: archive.map(|archive| archive.tar_sha256).or(record.tar_sha256),
            tar_size_bytes: archive.map(|archive| archive.tar_size_bytes),
            predecessor_sha256: record.predecessor_sha256.clone(),
            framing,
            level,
            archive: String::new(),
            manifest: String::new(),
            current: None,
            files: archive.map(|archive| archive.files),
            skipped: archive.map(|archive| archive.skipped),
            fetched_bytes: archive.map(|archive| archive.fetched_bytes),
            elapsed_ms: elapsed.as_millis() as u64,
            warnings: Vec::new(),
            sha256_prefix: record.sha256_prefix(),
            snapshot_files: record.counts.files,
            elapsed,
        })
    }
}

fn explained(error: Error, lineage: &Lineage) -> Failure {
    match error.kind() {
        ErrorKind::Damaged => Failure::from(error).hint(format!(
            "`pstore verify {} --chrome-major {} --read-data` shows how much is affected",
            lineage.name, lineage.chrome_major
        )),
        _ => error.into(),
    }
}
