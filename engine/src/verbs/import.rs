//! `import` stores an archive as the next snapshot of a profile.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use capture::{archive_inspector::ArchiveInspector, examiner::ProfileExaminer};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    catalog::{lineage_handle::LineageHandle, lock::Hold, pointer::Flip},
    content::TenantStore,
    format::{
        event::{Actor, EventKind},
        limits,
        manifest::Manifest,
        pointer::{Pointer, Target},
        record::{Mode, Reason, Record},
    },
    id::Nonce,
    name::{ChromeMajor, Lineage, ProfileName},
    ops::{
        archive::import::{self, Imported},
        pointer_move::{self, How},
        read::resolve,
        retention,
        write::snapshot::{Outcome as Stored, Report},
    },
};

use crate::{
    Engine,
    captures::{CapturedFields, CheckOptions, StoreChange, expected},
    engine::threads,
    failure::Failure,
    foreign,
    lineages::require_browser,
    names::{ActorName, LineageName},
    observer::{CaptureResult, CaptureSource, Captured, Observation},
    outcome::Outcome,
};

/// How messages and the record call an archive that comes as a stream.
const STREAM: &str = "-";
const ARCHIVE: &str = ".tar.zst";
const MANIFEST: &str = ".manifest.json";

/// Stores an archive as the next snapshot of a profile.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The archive.
    pub source: ImportSource,
    /// The profile of the new snapshot.
    pub profile: ProfileName,
    /// The file that describes the archive; the one beside it, if there is one, if it is not said.
    pub manifest: Option<PathBuf>,
    /// The major version of the Chrome that wrote it; as the manifest says if it is not said.
    pub chrome_major: Option<ChromeMajor>,
    /// The checks before it becomes current.
    pub checks: CheckOptions,
    /// Even while somebody holds the lock, who then can no longer move the pointer; even over a pointer that
    /// is damaged.
    pub force: bool,
    /// The token of the lock, if the caller holds it: then the holder moves the pointer.
    pub lock_token: Option<Nonce>,
    /// The `active_sha256_prefix` that the pointer must have until it is moved; if it is not said, what it has when
    /// the import begins.
    pub only_from: Option<String>,
    /// Make an archive that was stored before the current snapshot again, though others have followed it.
    pub goes_back: bool,
    /// The actor.
    pub actor: ActorName,
}

/// Where an archive comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportSource {
    /// This file.
    File(PathBuf),
    /// The stream that the front end passes, see [`Engine::import_stream`].
    Stream,
    /// The store, in which another program has made it the current snapshot.
    Current,
}

impl ImportRequest {
    /// Stores the archive from `source` as a snapshot of `profile`, checked.
    pub fn new(source: ImportSource, profile: ProfileName) -> Self {
        Self {
            source,
            profile,
            manifest: None,
            chrome_major: None,
            checks: CheckOptions::default(),
            force: false,
            lock_token: None,
            only_from: None,
            goes_back: true,
            actor: ActorName::default(),
        }
    }
}

/// Who moves the pointer, and from where.
struct MoveRight {
    /// None if nobody holds the lock.
    hold: Option<Hold>,
    pointer: Option<Pointer>,
    /// The snapshot that the pointer must name until it is moved; any if it is moved by force.
    only_from: Option<String>,
}

/// The snapshot that an archive became.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ImportOutcome {
    /// The snapshot, and what it took to store it.
    #[serde(flatten)]
    pub captured: CapturedFields,
    /// The digest of the archive.
    pub archive_sha256: Option<String>,
    /// The size of the archive.
    pub archive_size_bytes: Option<u64>,
}

impl Outcome for ImportOutcome {
    const HAS_VERDICT: bool = true;

    fn verdict(&self) -> Option<Failure> {
        self.captured.verdict()
    }
}

impl Engine {
    /// Stores an archive that is a file, or the current one in the store, as a snapshot.
    #[crate::boxed]
    pub async fn import(&self, request: &ImportRequest) -> Result<ImportOutcome, Failure> {
        match &request.source {
            ImportSource::File(file) => {
                self.observe_import(request, self.import_archive(request, file, || open(file))).await
            }
            ImportSource::Stream => Err(Failure::usage("there is no stream to import from")),
            ImportSource::Current => self.import_current(request).await,
        }
    }

    /// Stores the archive that `stream` holds as a snapshot, whatever the request says is its source.
    #[crate::boxed]
    pub async fn import_stream(
        &self,
        request: &ImportRequest,
        stream: Box<dyn Read + Send>,
    ) -> Result<ImportOutcome, Failure> {
        self.observe_import(request, self.import_archive(request, Path::new(STREAM), || Ok(stream))).await
    }

    /// Waits for an import, and tells the observer how it ended: it is a capture that another host has begun.
    async fn observe_import(
        &self,
        request: &ImportRequest,
        import: impl Future<Output = Result<ImportOutcome, Failure>>,
    ) -> Result<ImportOutcome, Failure> {
        let began = Instant::now();
        // On the heap: the caller would have it on the stack.
        let imported = Box::pin(import).await;
        let (done, failure) = match &imported {
            Ok(outcome) => (Some(outcome), None),
            Err(failure) => (None, Some(failure)),
        };
        let captured = done.map(|outcome| &outcome.captured);
        self.observer.observe(&Observation::Captured(Captured {
            profile: &request.profile,
            outcome: match captured.map(|captured| captured.outcome) {
                Some(StoreChange::Stored) => CaptureResult::Success,
                Some(StoreChange::Unchanged) => CaptureResult::Skipped,
                None => CaptureResult::Failed,
            },
            mode: Mode::Cold,
            phases: None,
            elapsed: began.elapsed(),
            uncompressed_bytes: captured.map(|captured| captured.uncompressed_size_bytes),
            stored_bytes: captured.map_or(0, |captured| captured.stored_bytes),
            archive_bytes: done.and_then(|outcome| outcome.archive_size_bytes),
            held_back: captured.and_then(|captured| Some(captured.held_back?.word())),
            login_lapses_at_ms: None,
            source: CaptureSource::Archive,
            failure,
        }));
        imported
    }

    async fn import_archive(
        &self,
        request: &ImportRequest,
        file: &Path,
        open: impl FnOnce() -> Result<Box<dyn Read + Send>, Failure>,
    ) -> Result<ImportOutcome, Failure> {
        let manifest = self.manifest(request, file)?;
        let chrome_major = chrome_major(request, file, manifest.as_ref())?;
        let lineage = Lineage { name: request.profile.clone(), chrome_major };
        if let Some(manifest) = manifest.as_ref().filter(|manifest| manifest.lineage() != lineage) {
            self.say(&format!("the archive is of {}, and is stored as {lineage}", manifest.lineage()));
        }
        let stream = require_zstd(open()?, file, &lineage)?;
        let tenant = self.writable_tenant(&lineage.name.tenant).await?;
        let actor = self.actor(&request.actor);
        let handle = LineageHandle::new(tenant.clone(), lineage.clone(), actor.clone());
        let right = self.right_to_move(&handle, request).await?;
        let policy = self.settings.retention(&lineage.name).policy;
        retention::require_room(&tenant, &lineage, &policy, &Reason::Import).await?;
        let base = base(&tenant, &lineage, right.pointer.as_ref()).await?;
        let archive = self.archive_to_import((request, file), (&tenant, &lineage), &actor, manifest);
        let name = archive.name.clone();
        let importing = import::import(&tenant, archive, base, stream, self.progress());
        let mut imported = tokio::select! {
            imported = importing => imported.map_err(|error| refused(error, &name))?,
            () = self.interrupt.raised() => return Err(Error::Interrupted.into()),
        };
        let flip = match imported.held_back {
            Some(_) => None,
            None => self.make_current(&handle, request, right, &mut imported).await?,
        };
        Ok(self.imported(&lineage, imported, flip))
    }

    /// Finds out whether an archive that is still to come may be imported. What the pointer names now, which can be
    /// empty.
    #[crate::boxed]
    pub async fn may_import(&self, request: &ImportRequest) -> Result<String, Failure> {
        let chrome_major = chrome_major(request, Path::new(STREAM), None)?;
        let lineage = Lineage { name: request.profile.clone(), chrome_major };
        let tenant = self.writable_tenant(&lineage.name.tenant).await?;
        let handle = LineageHandle::new(tenant, lineage, self.actor(&request.actor));
        Ok(active(self.right_to_move(&handle, request).await?.pointer.as_ref()))
    }

    /// The caller's lock, or a check that nobody holds one; and the pointer.
    async fn right_to_move(
        &self,
        handle: &LineageHandle,
        request: &ImportRequest,
    ) -> Result<MoveRight, Failure> {
        let (hold, pointer) = match request.lock_token {
            None => (None, self.pointer_to_move(handle, request.force).await?.0),
            Some(token) => {
                let hold = handle.adopt(token).await?;
                let pointer = hold.pointer().await;
                (Some(hold), Some(pointer))
            }
        };
        let now = active(pointer.as_ref());
        if let Some(expected) = request.only_from.as_ref().filter(|expected| **expected != now) {
            return Err(handle.moved_from(expected).into());
        }
        Ok(MoveRight { hold, pointer, only_from: (!request.force).then_some(now) })
    }

    /// Makes what was imported the current snapshot. None if it was stored before, and others have followed it.
    async fn make_current(
        &self,
        handle: &LineageHandle,
        request: &ImportRequest,
        MoveRight { hold, only_from, .. }: MoveRight,
        imported: &mut Imported,
    ) -> Result<Option<Flip>, Failure> {
        let record = imported.record.clone();
        let job = self.publish_policy(&handle.lineage().name.tenant);
        let progress = self.progress();
        if imported.outcome == Stored::Unchanged && !request.force {
            let now = handle.survey().await?;
            let named = now.pointer.as_ref().map(|read| read.pointer.target());
            if named == Some(Target::Record(record.record)) {
                let seen = now.contract_only_seen();
                imported.record =
                    pointer_move::named_already(handle, seen, record, Some(&job), progress).await?;
                return Ok(Some(Flip::Unchanged));
            }
            if !request.goes_back {
                return Ok(None);
            }
        }
        let (record, flip) = match &hold {
            Some(hold) => {
                let id = handle.new_flip_id();
                pointer_move::flip(hold, record, id, Some(&job), progress).await?
            }
            None => {
                let how = How { force: request.force, only_from, ..How::default() };
                pointer_move::point(handle, record, EventKind::Import, how, &job, progress).await?
            }
        };
        imported.record = record;
        Ok(Some(flip))
    }

    /// Takes in the archive that another program has made the current snapshot.
    async fn import_current(&self, request: &ImportRequest) -> Result<ImportOutcome, Failure> {
        let asked = LineageName { profile: request.profile.clone(), chrome_major: request.chrome_major };
        let (tenant, lineage) = self.lineage_to_load(&asked).await?;
        let (record, outcome) = match resolve::snapshot(&tenant, &lineage, None).await {
            Err(Error::Foreign { .. }) => {
                self.adopt(&lineage).await?;
                (resolve::snapshot(&tenant, &lineage, None).await?, Stored::Stored)
            }
            found => (found?, Stored::Unchanged),
        };
        let Some(content) = &record.content else {
            return Err(Failure::internal(format!("the snapshot {} has no content", record.record)));
        };
        let report = Report::of(&record, content.snapshot_id, outcome, Flip::Unchanged);
        let captured = CapturedFields::of(&lineage, &report, Vec::new());
        captured.warnings.iter().for_each(|warning| self.warn(warning));
        let (archive_sha256, archive_size_bytes) = (record.archive_sha256.clone(), record.archive_size_bytes);
        Ok(ImportOutcome { captured, archive_sha256, archive_size_bytes })
    }

    /// The description of the archive: the file that is named, else the one beside it.
    fn manifest(&self, request: &ImportRequest, file: &Path) -> Result<Option<Manifest>, Failure> {
        let beside = || {
            let name = file.file_name()?.to_str()?.strip_suffix(ARCHIVE)?;
            Some(file.with_file_name(format!("{name}{MANIFEST}"))).filter(|path| path.is_file())
        };
        let Some(path) = request.manifest.clone().or_else(beside) else {
            self.warn("there is no manifest: that the archive is whole cannot be checked");
            return Ok(None);
        };
        let failed = |error: io::Error| Error::io("cannot read", &path, error);
        let mut bytes = Vec::new();
        let file = File::open(&path).map_err(failed)?;
        file.take(limits::MANIFEST + 1).read_to_end(&mut bytes).map_err(failed)?;
        let decoded = Manifest::decode(&bytes).map_err(|error| error.of(path.display()));
        Ok(Some(decoded.map_err(|error| refused(error, &path.display().to_string()))?))
    }

    fn archive_to_import(
        &self,
        (request, file): (&ImportRequest, &Path),
        (tenant, lineage): (&TenantStore, &Lineage),
        actor: &Actor,
        manifest: Option<Manifest>,
    ) -> import::Request {
        let settings = self.settings.tenant(&lineage.name.tenant);
        let (name, source) = match file == Path::new(STREAM) {
            true => ("the archive".to_owned(), STREAM.to_owned()),
            false => {
                let path = std::path::absolute(file).unwrap_or_else(|_| PathBuf::from(file));
                (file.display().to_string(), path.to_string_lossy().into_owned())
            }
        };
        let examiner = ProfileExaminer {
            policy: request.checks.policy(),
            mode: Mode::Cold,
            stopped: None,
            expected: expected(tenant, &lineage.name),
        };
        import::Request {
            form: import::Form::Archive,
            lineage: lineage.clone(),
            name,
            source: ("archive", source),
            manifest,
            about: foreign::about(actor),
            max_bytes: settings.max_profile_bytes,
            quota_bytes: settings.quota_bytes,
            threads: threads(),
            handle: Some(LineageHandle::new(tenant.clone(), lineage.clone(), actor.clone())),
            carried: Vec::new(),
            judge: Some((Arc::new(ArchiveInspector(examiner)), std::env::temp_dir())),
        }
    }

    /// Tells of an import. Without a flip, the snapshot is not the current one.
    fn imported(&self, lineage: &Lineage, imported: Imported, flip: Option<Flip>) -> ImportOutcome {
        let Imported { record, snapshot_id, outcome, held_back, arrived, skipped, taken_over, elapsed } =
            imported;
        let read_files = record.counts.files;
        let is_passed = flip.is_none() && held_back.is_none();
        let report = Report::of(&record, snapshot_id, outcome, flip.unwrap_or(Flip::Unchanged));
        let report = Report { held_back, skipped, read_files, taken_over, elapsed, ..report };
        let remarks =
            is_passed.then(|| "it was stored before, and another snapshot is current now".to_owned());
        let mut captured = CapturedFields::of(lineage, &report, remarks.into_iter().collect());
        captured.active_sha256_prefix = captured.active_sha256_prefix.filter(|_| !is_passed);
        captured.warnings.iter().for_each(|warning| self.warn(warning));
        ImportOutcome {
            captured,
            archive_sha256: arrived.sha256.map(|sha256| sha256.to_string()),
            archive_size_bytes: Some(arrived.size),
        }
    }
}

/// The advice about an archive, or a manifest, that is not taken in.
fn refused(error: Error, name: &str) -> Failure {
    let is_of_it = matches!(&error, Error::Damaged { object, .. } if object == name);
    match error {
        Error::BadArchive { .. } => Failure::from(error)
            .hint("fetch the archive again, or ask its author for another; nothing was published"),
        _ if is_of_it => Failure::from(error).hint(
            "fetch archive and manifest again: they must be of the same snapshot; nothing was published",
        ),
        error => error.into(),
    }
}

fn chrome_major(
    request: &ImportRequest,
    file: &Path,
    manifest: Option<&Manifest>,
) -> Result<ChromeMajor, Failure> {
    require_browser(request.chrome_major)?;
    match (request.chrome_major, manifest.map(|manifest| manifest.chrome_major_version)) {
        (Some(given), Some(told)) if given != told => {
            let reason = format!("the archive is of Chrome {told}, and not of Chrome {given}");
            Err(Failure::from(Error::VersionMismatch { reason })
                .hint("leave --chrome-major out: the manifest says it; nothing was published"))
        }
        (Some(major), _) | (None, Some(major)) => Ok(major),
        (None, None) => {
            let message = format!("which Chrome wrote {} is not known", file.display());
            Err(Failure::usage(message)
                .hint("say it with --chrome-major, for example --chrome-major 131, or name a --manifest"))
        }
    }
}

fn open(file: &Path) -> Result<Box<dyn Read + Send>, Failure> {
    let opened = File::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::new(ErrorKind::NotFound, format!("there is no file {}", file.display()))
        }
        _ => Error::io("cannot read", file, error).into(),
    })?;
    Ok(Box::new(opened))
}

/// The first bytes of other archives than ours: at which offset, which bytes, their name, and the command that
/// reads one.
const OTHERS: [(usize, &[u8], &str, &str); 4] = [
    (0, &[0x1f, 0x8b], "gzip", "gunzip -c"),
    (0, b"BZh", "bzip2", "bunzip2 -c"),
    (0, &[0xfd, b'7', b'z', b'X', b'Z', 0], "xz", "unxz -c"),
    (257, b"ustar", "a tar file that is not compressed", "cat"),
];

/// Refuses an archive that is compressed in another way, with the command that changes it.
fn require_zstd(
    stream: Box<dyn Read + Send>,
    file: &Path,
    lineage: &Lineage,
) -> Result<Box<dyn Read + Send>, Failure> {
    let mut stream = BufReader::with_capacity(4096, stream);
    let start = stream.fill_buf().map_err(|error| Error::io("cannot read", file, error))?;
    let found =
        OTHERS.iter().find(|(at, magic, ..)| start.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    let Some((.., kind, reader)) = found else { return Ok(Box::new(stream)) };
    let (name, shown) = (&lineage.name, file.display());
    let message =
        format!("{shown} cannot be imported: it is {kind}, and an archive is tar compressed by zstd");
    Err(Failure::new(ErrorKind::IntegrityFailed, message).hint(format!(
        "`{reader} {shown} | zstd | pstore import - {name} --chrome-major {}`",
        lineage.chrome_major
    )))
}

/// The snapshot that the pointer names, by its first digits; empty if there is none.
fn active(pointer: Option<&Pointer>) -> String {
    pointer.map(|pointer| pointer.active_sha256_prefix.clone()).unwrap_or_default()
}

/// The current snapshot, if it is one of ours that can be built on.
async fn base(
    tenant: &TenantStore,
    lineage: &Lineage,
    pointer: Option<&Pointer>,
) -> Result<Option<Record>, Failure> {
    match pointer.map(Pointer::target) {
        Some(Target::Record(_)) => match resolve::snapshot(tenant, lineage, None).await {
            Ok(record) => Ok(Some(record)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => Ok(None),
            Err(error) => Err(error.into()),
        },
        _ => Ok(None),
    }
}
